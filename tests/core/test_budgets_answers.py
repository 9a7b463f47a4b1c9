"""What clients may leave untaken of their answers, and what this and arriving bodies may take together."""
import contextlib

import pytest
from support.budgets import MIB, clients, counted, elsewhere, get, head, push, served
from support.edge import answers, body, edge, start  # noqa: F401 (fixtures)
from support.wait import until


def test_answers_that_are_not_taken_are_counted(start):
    edge = start(max_untaken=1 << 30)
    with contextlib.closing(edge.connect()) as sock, contextlib.closing(edge.connect()) as other:
        sock.sendall(get("/big/20000000"))
        other.sendall(get("/hold") + get("/big/300000") * 3)
        until(lambda: clients(edge)["untaken"] > 20_900_000, "they wait")
        edge.release()
        assert [len(text) for _, _, text in answers(sock, 1) + answers(other, 4)[1:]] == [20_000_000] + [300_000] * 3
        until(lambda: clients(edge)["untaken"] == 0, "all are taken")


def test_who_asks_takes(start):
    """A few bytes now and then keep no answer alive."""
    edge = start(write_timeout_ms=700, least_rate=50_000_000)
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(get("/big/50000000"))
        until(lambda: not sock.recv(10) or counted(edge, "not_taken"), "it is given up")
    until(lambda: clients(edge) == {**clients(edge), "untaken": 0, "connections": 0}, "all is given back")


def test_while_answers_are_beyond_their_budget_they_have_to_be_taken_quickly(start):
    edge = start(max_untaken=8 * MIB, least_rate=0)
    with contextlib.closing(edge.connect()) as slow, contextlib.closing(edge.connect()) as quick:
        slow.sendall(get("/big/50000000"))
        until(lambda: clients(edge)["untaken"] > 8 * MIB, "too much")
        quick.sendall(get("/big/2000000"))
        [(status, headers, text)] = answers(quick, 1)
        assert (status, headers["retry-after"], body((0, 0, text))["error"]) == (
            503, "1", "Too many answers wait for clients that do not take them; try again")
        quick.sendall(get("/big/1000"))
        assert answers(quick, 1)[0][0] == 200 and served(edge)
        until(lambda: counted(edge, "not_taken") == 1, "it is closed")
        until(lambda: clients(edge)["untaken"] == 0, "its memory is given back")
        quick.sendall(get("/big/50000000"))      # larger than the budget, but taken
        assert len(answers(quick, 1)[0][2]) == 50_000_000


def test_answers_of_one_address_leave_room_for_those_of_another(start):
    edge = start(max_untaken=8 * MIB)
    with (contextlib.closing(edge.connect()) as slow, contextlib.closing(edge.connect()) as same,
          contextlib.closing(elsewhere(edge)) as other):
        slow.sendall(get("/big/12000000"))
        until(lambda: clients(edge)["untaken"] > 8 * MIB, "too much")
        same.sendall(get("/big/2000000"))
        assert answers(same, 1)[0][0] == 503
        other.sendall(get("/big/2000000"))
        assert len(answers(other, 1)[0][2]) == 2_000_000
        assert len(answers(slow, 1)[0][2]) == 12_000_000
        until(lambda: clients(edge)["untaken"] == 0, "the kernel has told that it was taken")
        same.sendall(get("/big/2000000"))
        assert len(answers(same, 1)[0][2]) == 2_000_000


def test_one_connection_may_not_have_too_many_answers(start):
    edge = start(max_untaken_of_one=2 * MIB)
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(get("/hold") + get("/big/900000") * 5)
        until(lambda: counted(edge, "not_taken") == 1, "it is closed")
        with pytest.raises((AssertionError, OSError)):
            answers(sock, 1)
    edge.release()
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(get("/big/5000000"))      # one answer of any size is no such case
        assert len(answers(sock, 1)[0][2]) == 5_000_000
    until(lambda: clients(edge)["untaken"] == 0, "all is given back")


def test_unsent_answers_and_bodies_that_arrive_have_a_bound_together(start):
    """One kind may use all of its own; while it does, the other has half."""
    edge = start(max_body=8 * MIB, max_arriving=8 * MIB, max_untaken=8 * MIB, least_rate=0)
    with contextlib.closing(edge.connect()) as slow, contextlib.closing(edge.connect()) as small:
        slow.sendall(get("/big/11000000"))
        until(lambda: clients(edge)["untaken"] > 8 * MIB, "more than its own bound")
        with contextlib.closing(edge.connect()) as large:
            large.sendall(head(5 * MIB) + b"x")
            assert answers(large, 1)[0][0] == 503
        small.sendall(head(4 * MIB))
        until(lambda: clients(edge)["arriving"] == 4 * MIB, "half of its bound is left")
        assert served(edge)
        slow.recv(1)
        slow.close()
        until(lambda: clients(edge)["untaken"] == 0, "all is given back")
        with contextlib.closing(edge.connect()) as large:
            large.sendall(push(4 * MIB))
            assert len(body(answers(large, 1)[0])["body"]) == 4 * MIB


def test_bodies_that_arrive_leave_half_of_their_bound_to_answers(start):
    edge = start(max_body=8 * MIB, max_arriving=8 * MIB, max_untaken=8 * MIB, least_rate=0)
    with (contextlib.closing(edge.connect()) as arriving, contextlib.closing(edge.connect()) as slow,
          contextlib.closing(edge.connect()) as quick):
        arriving.sendall(head(7 * MIB))
        until(lambda: clients(edge)["arriving"] == 7 * MIB, "it arrives")
        slow.sendall(get("/big/6000000"))
        until(lambda: clients(edge)["untaken"] > 5 * MIB, "it waits")
        quick.sendall(get("/big/2000000"))
        [(status, _, text)] = answers(quick, 1)
        assert (status, body((0, 0, text))["error"]) == (
            503, "Too many answers wait for clients that do not take them; try again")
        quick.sendall(get("/big/1000"))
        assert answers(quick, 1)[0][0] == 200 and served(edge)
