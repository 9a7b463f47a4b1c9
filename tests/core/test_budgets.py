"""What clients may take together: descriptors, bodies that have not arrived, answers that are not taken. Others are
served meanwhile."""
import contextlib
import gzip
import socket
import struct
import threading

import pytest
from support.edge import answers, body, edge, start  # noqa: F401 (fixtures)
from support.wait import PATIENCE, until


MIB = 1 << 20


def head(length, path="/x", more=""):
    return f"POST {path} HTTP/1.1\r\nHost: h\r\n{more}Content-Length: {length}\r\n\r\n".encode()


def chunked(path="/x"):
    return f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def clients(edge):
    return edge.core.stats()["clients"]


def counted(edge, name):
    return sum(worker[name] for worker in edge.core.stats()["workers"])


def elsewhere(edge, address="127.0.0.2"):
    """A connection from another address."""
    sock = socket.create_connection(("127.0.0.1", edge.port), source_address=(address, 0))
    sock.settimeout(PATIENCE)
    return sock


def served(edge):
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        return answers(sock, 1)[0][0] == 200


def close(*socks):
    for sock in socks:
        sock.close()


@pytest.mark.parametrize("listen_mode", ["acceptor", "reuseport"])
def test_connections_have_a_bound(start, listen_mode):
    edge = start(max_connections=5, listen_mode=listen_mode)
    socks = [edge.connect() for _ in range(5)]
    until(lambda: clients(edge)["connections"] == 5, "all are there")
    for _ in range(3):
        with contextlib.closing(edge.connect()) as one:
            [(status, headers, text)] = answers(one)
            assert (status, headers["retry-after"], headers["connection"],
                    body((0, 0, text))) == (503, "5", "close", {"error": "Too many connections are open"})
    assert clients(edge)["refused"] == 3
    socks.pop().close()
    until(lambda: clients(edge)["connections"] == 4, "one has left")
    assert served(edge)
    close(*socks)


def test_one_address_may_not_take_them_all(start):
    edge = start(max_connections=10, max_per_address=3)
    socks = [edge.connect() for _ in range(3)]
    with contextlib.closing(edge.connect()) as one:
        [(status, headers, text)] = answers(one)
        assert (status, headers["retry-after"],
                body((0, 0, text))) == (429, "5", {"error": "Too many connections of this address are open"})
    with contextlib.closing(elsewhere(edge)) as other:
        other.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        assert answers(other, 1)[0][0] == 200
    close(*socks)
    until(lambda: clients(edge)["connections"] == 0, "all have left")
    assert served(edge)


@pytest.mark.parametrize("start_of", [lambda: head(100_000, "/api/v1/push"),
                                      lambda: chunked("/api/v1/push") + b"186a0\r\n"], ids=["length", "chunked"])
def test_bodies_that_have_not_arrived_have_a_budget(start, start_of):
    """What finds no room is refused at once, others are served, and whoever leaves gives back what it had."""
    edge = start(max_body=200_000, max_arriving=500_000)
    socks = [edge.connect() for _ in range(12)]
    for sock in socks:
        sock.sendall(start_of() + b"x" * 60_000)
    until(lambda: counted(edge, "no_room") >= 5, "no more room")
    until(lambda: clients(edge)["arriving"] <= 500_000, "the budget is kept")
    assert served(edge)
    refused = [sock for sock in socks if select_now(sock)]
    for sock in refused:
        [(status, headers, text)] = answers(sock)
        assert (status, headers["retry-after"],
                body((0, 0, text))) == (503, "1", {"error": "Too much is being received; try again"})
    for sock in socks:
        if sock not in refused:
            sock.close()
    until(lambda: clients(edge)["arriving"] == 0, "all is given back")
    close(*refused)


def select_now(sock):
    sock.settimeout(0.2)
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        sock.settimeout(PATIENCE)


def test_bodies_of_one_address_leave_room_for_those_of_another(start):
    """Half of the budget is room for another address even when it is full; not without end."""
    edge = start(max_body=200_000, max_arriving=300_000, workers=1)
    socks = [edge.connect() for _ in range(2)]
    for sock in socks:
        sock.sendall(head(150_000))
    until(lambda: clients(edge)["arriving"] == 300_000, "the budget is full")
    with contextlib.closing(edge.connect()) as one:
        one.sendall(head(10_000) + b"x")
        assert answers(one, 1)[0][0] == 503
    with contextlib.closing(elsewhere(edge)) as other, contextlib.closing(elsewhere(edge)) as another:
        other.sendall(head(140_000))
        until(lambda: clients(edge)["arriving"] == 440_000, "it has room")
        another.sendall(head(20_000) + b"x")
        assert answers(another, 1)[0][0] == 503
        other.sendall(b"x" * 140_000)
        assert len(body(answers(other, 1)[0])["body"]) == 140_000
    close(*socks)
    until(lambda: clients(edge)["arriving"] == 0, "all is given back")
    with contextlib.closing(edge.connect()) as one:
        one.sendall(push(190_000))
        assert len(body(answers(one, 1)[0])["body"]) == 190_000


def test_a_body_that_is_complete_holds_nothing_of_the_budget(start):
    edge = start(max_arriving=300_000, max_control_body=200_000)
    with contextlib.closing(edge.connect()) as sock:
        for _ in range(5):
            sock.sendall(head(200_000) + b"x" * 100_000)
            until(lambda: clients(edge)["arriving"] == 200_000, "half of it has come")
            sock.sendall(b"x" * 100_000)
            assert len(body(answers(sock, 1)[0])["body"]) == 200_000
            assert clients(edge)["arriving"] == 0
            sock.sendall(chunked() + b"%x\r\n" % 150_000 + b"x" * 150_000 + b"\r\n0\r\n\r\n")
            assert len(body(answers(sock, 1)[0])["body"]) == 150_000
            assert clients(edge)["arriving"] == 0


def test_requests_that_wait_behind_others_are_counted(start):
    edge = start(max_pipeline=1, max_arriving=500_000, workers=1)
    socks = []

    def one_more_finds_no_room() -> bool:
        """How much is read of each before it waits depends on how it arrives: some have 64 KiB, others 128."""
        socks.append(sock := edge.connect())
        sock.sendall(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n" + b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n" * 4000)
        return counted(edge, "no_room") >= 1

    until(one_more_finds_no_room, "no more room")
    assert clients(edge)["arriving"] <= 500_000 and served(edge)
    close(*socks)
    until(lambda: len(edge.held) == len(socks), "the first of each is held")
    edge.release()
    until(lambda: clients(edge)["arriving"] == 0, "all is given back")


def test_who_announces_delivers(start):
    """A little now and then, though more than would do by default, keeps no body alive."""
    edge = start(body_timeout_ms=700, least_rate=100_000)
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(head(100_000) + b"x" * 50_000)
        until(lambda: trickle(sock), "it is given up")
        [(status, headers, text)] = answers(sock)
        assert (status, body((0, 0, text))) == (408, {"error": "The request body came too slowly"})
    assert counted(edge, "too_slow") == 1


def trickle(sock):
    try:
        sock.sendall(b"x" * 2000)
    except OSError:
        return True
    return select_now(sock)


def test_while_room_is_short_a_body_has_to_come_quickly(start):
    """Whoever announces much and sends little makes room for others within seconds."""
    edge = start(max_body=100_000, max_arriving=150_000, least_rate=0)
    slow, quick = edge.connect(), None
    slow.sendall(head(100_000, "/api/v1/push") + b"x")
    until(lambda: clients(edge)["arriving"] == 100_000, "it has its room")

    def admitted():
        nonlocal quick
        quick = edge.connect()
        quick.sendall(head(100_000, "/api/v1/push") + b"x" * 99_999)
        until(lambda: clients(edge)["arriving"] > 100_000 or clients(edge)["arriving"] == 100_000 and select_now(slow)
              or select_now(quick), "admitted or refused")
        if select_now(quick):
            assert answers(quick)[0][0] == 503
            quick.close()
            return False
        return True
    until(admitted, "there is room again")
    assert answers(slow)[0][0] == 408
    quick.sendall(b"x")
    assert answers(quick, 1)[0][0] == 503      # there is no database: it was complete
    close(slow, quick)


@pytest.mark.parametrize("path, most", [("/x", 1000), ("/api/v1/configure", 1000), ("/large", 5000),
                                        ("/api/v1/push", 5000), ("/api/v1/events/q", 5000), ("/api/v1/pushy", 1000)])
def test_the_control_plane_takes_less(start, path, most):
    edge = start(max_body=5000, max_control_body=1000, large_paths="/large")
    for length, status in ((most, None), (most + 1, 413)):
        for text in (head(length, path), chunked(path) + b"%x\r\n" % length):
            with contextlib.closing(edge.connect()) as sock:
                sock.sendall(text + b"x" * length)
                if status:
                    [(got, headers, text)] = answers(sock)
                    assert (got, body((0, 0, text))) == (413, {"error": "The request body is too large"})
                else:
                    sock.sendall(b"\r\n0\r\n\r\n" if b"chunked" in text else b"")
                    assert answers(sock, 1)[0][0] in (200, 503)


def test_less_without_a_token(start):
    edge = start(max_body=5000, max_open_body=1000)
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(head(1001, "/api/v1/push"))
        assert answers(sock)[0][0] == 413


def test_bodies_that_wait_for_the_control_plane_have_a_budget(start):
    edge = start(max_bridged_bytes=2500)
    socks = [edge.connect() for _ in range(4)]
    for n, sock in enumerate(socks[:2]):
        sock.sendall(head(1000, "/hold") + b"x" * 1000)
        edge.wait(n + 1, "held")
    socks[2].sendall(head(1000) + b"x" * 1000)
    [(status, headers, text)] = answers(socks[2], 1)
    assert (status, headers["retry-after"], body((0, 0, text))) == (503, "1", {"error": "The control plane is busy"})
    socks[3].sendall(head(400) + b"x" * 400)
    assert answers(socks[3], 1)[0][0] == 200
    edge.release()
    assert [answers(sock, 1)[0][0] for sock in socks[:2]] == [200, 200]
    socks[2].sendall(head(1000) + b"x" * 1000)
    assert answers(socks[2], 1)[0][0] == 200
    close(*socks)


def test_one_address_leaves_the_control_plane_to_another(start):
    """Requests that the control plane works on count as well."""
    edge = start(max_bridged=4)
    socks = [edge.connect() for _ in range(4)]
    for number, sock in enumerate(socks):
        sock.sendall(get("/hold"))
        edge.wait(number + 1, "held")
    with contextlib.closing(edge.connect()) as same, contextlib.closing(elsewhere(edge)) as other:
        same.sendall(get("/x"))
        [(status, headers, text)] = answers(same, 1)
        assert (status, headers["retry-after"], body((0, 0, text))) == (
            503, "1", {"error": "The control plane is busy"})
        other.sendall(get("/x"))
        assert answers(other, 1)[0][0] == 200
        socks.pop().close()      # what it asked is still worked on, and counts for nobody in particular
        until(lambda: clients(edge)["connections"] == 5, "it has left")
        same.sendall(get("/x"))
        assert answers(same, 1)[0][0] == 503
        edge.release()
        assert [answers(sock, 1)[0][0] for sock in socks] == [200] * 3
        same.sendall(get("/x"))
        assert answers(same, 1)[0][0] == 200
    close(*socks)


@pytest.mark.parametrize("text",
                         [b"[" + b"[]," * 300_000 + b"[]]", b"{" + b'"a":1,' * 260_000 + b'"a":1}', b"[" * 300_000])
def test_a_body_of_many_values_does_not_reach_the_control_plane(edge, text):
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(head(len(text)) + text)
        [(status, headers, told)] = answers(sock, 1)
        assert (status, body((0, 0, told))) == (413, {"error": "The request body has too many values"})
        long = b'{"text":"' + b'\\",[{' * 200_000 + b'"}'
        sock.sendall(head(len(long)) + long)
        assert len(body(answers(sock, 1)[0])["body"]) == len(long)
    assert len(edge.seen) == 1


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


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


# -- requests in hand --------------------------------------------------------------------------------------------------

def push(length, path="/x"):
    return head(length, path) + b"x" * length


def abort(sock):
    """Closes it so that the kernel sends a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@contextlib.contextmanager
def full(start, **settings):
    """A worker whose requests in hand take more than they may."""
    edge = start(workers=1, max_queued_bytes=200_000, **settings)
    socks = [edge.connect() for _ in range(2)]
    for number, sock in enumerate(socks):
        sock.sendall(push(150_000, "/hold"))
        edge.wait(number + 1, "held")
    yield edge
    edge.release()
    assert [answers(sock, 1)[0][0] for sock in socks] == [200, 200]
    close(*socks)
    until(lambda: counted(edge, "held") == 0, "all is given back")


def test_a_large_request_waits_for_room_and_small_ones_do_not(start):
    with full(start) as edge, contextlib.closing(edge.connect()) as large:
        large.sendall(push(20_000) + push(10))
        until(lambda: counted(edge, "waited_room") == 1, "it waits")
        with contextlib.closing(edge.connect()) as small:
            small.sendall(push(1000))
            assert answers(small, 1)[0][0] == 200
        assert served(edge) and len(edge.seen) == 3 and counted(edge, "refused") == 0
        edge.release()
        assert [len(body(one)["body"]) for one in answers(large, 2)] == [20_000, 10]


def test_one_address_leaves_room_in_hand_to_another(start):
    """At the bound, an address with less than half of it goes on, until all have twice as much."""
    with full(start) as edge, contextlib.ExitStack() as opened:
        same, other, another = (opened.enter_context(contextlib.closing(sock)) for sock in (
            edge.connect(), elsewhere(edge), elsewhere(edge, "127.0.0.3")))
        same.sendall(push(20_000))
        until(lambda: counted(edge, "waited_room") == 1, "it waits")
        other.sendall(push(20_000))
        assert answers(other, 1)[0][0] == 200
        other.sendall(push(110_000, "/hold"))
        edge.wait(3, "held")
        another.sendall(push(20_000))
        until(lambda: counted(edge, "waited_room") == 2, "all have twice as much")
        edge.answer(edge.held.pop())
        assert answers(other, 1)[0][0] == answers(another, 1)[0][0] == 200
        assert not select_now(same)
        edge.release()
        assert answers(same, 1)[0][0] == 200


def test_addresses_that_wait_take_turns(start):
    """Three connections of one address wait before that of another, which goes after the first of them."""
    packed = gzip.compress(b"x" * 300_000)
    edge = start(workers=1, max_queued_bytes=400_000)
    with contextlib.ExitStack() as opened:
        first, *waiting = [opened.enter_context(contextlib.closing(sock)) for sock in (
            elsewhere(edge, "127.0.0.3"), *(edge.connect() for _ in range(3)), elsewhere(edge))]
        first.sendall(push(220_000, "/hold"))
        edge.wait(1, "held")
        for number, sock in enumerate(waiting):
            sock.sendall(head(len(packed), f"/hold/{number}", "Content-Encoding: gzip\r\n") + packed)
            until(lambda count=number + 1: counted(edge, "waited_room") == count, "it waits")
        edge.release()
        for number in (0, 3, 1, 2):
            edge.wait(1, "held")
            assert [one[2] for one in edge.held] == [b"/hold/%d" % number]
            edge.release()
        assert [answers(sock, 1)[0][0] for sock in (first, *waiting)] == [200] * 5


def test_large_requests_wait_earlier_while_bodies_arrive(start):
    edge = start(workers=1, max_queued_bytes=4 * MIB)
    socks = [edge.connect() for _ in range(5)]
    socks[0].sendall(head(3 * MIB))
    until(lambda: clients(edge)["arriving"] == 3 * MIB, "it arrives")
    for number, sock in enumerate(socks[1:3]):
        sock.sendall(push(900_000, "/hold"))
        edge.wait(number + 1, "held")
    socks[3].sendall(push(20_000))
    until(lambda: counted(edge, "waited_room") == 1, "it waits")
    socks[0].sendall(b"x" * (3 * MIB))
    assert [len(body(answers(sock, 1)[0])["body"]) for sock in (socks[0], socks[3])] == [3 * MIB, 20_000]
    edge.release()
    assert [answers(sock, 1)[0][0] for sock in socks[1:3]] == [200, 200]
    close(*socks)


def test_an_answered_request_that_waits_holds_its_answer_alone(start):
    edge = start(workers=1)
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(push(10, "/hold") + push(200_000, "/big/10"))
        edge.wait(2)
        until(lambda: counted(edge, "held") < 100_000, "its body is gone")
        edge.release()
        assert [one[0] for one in answers(sock, 2)] == [200, 200]
    until(lambda: clients(edge)["untaken"] == counted(edge, "held") == 0, "all is given back")


def test_while_there_is_no_room_for_answers_few_of_a_connection_wait(start):
    """Refusals take memory as well: a connection that has some behind an answer still owed is not read."""
    edge = start(workers=1, max_untaken=MIB, least_rate=0)
    with contextlib.closing(edge.connect()) as slow, contextlib.closing(edge.connect()) as crowd:
        slow.sendall(get("/big/12000000"))
        until(lambda: clients(edge)["untaken"] > MIB, "too much")
        crowd.sendall(get("/hold") + get("/api/v1/pop/queue/q") * 60)
        until(lambda: counted(edge, "refused") >= 8, "8 KiB wait")
        assert served(edge) and counted(edge, "refused") < 30
        edge.release()
        assert [one[0] for one in answers(crowd, 61)] == [200] + [503] * 60


def test_memory_of_bodies_that_never_came_is_given_back(start):
    edge = start(workers=1)
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(head(20 * MIB) + b"x" * MIB)
        until(lambda: clients(edge)["arriving"] == 20 * MIB, "it arrives")
    until(lambda: counted(edge, "trimmed") == 1, "free memory goes back to the system")


def test_one_connection_has_its_share_in_hand(start):
    """A second request comes while the first is in hand, a third does not: others have no such request to wait for."""
    edge = start(workers=1)
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(push(700_000, "/hold") * 3)
        edge.wait(2, "held")
        assert served(edge) and len(edge.held) == 2
        edge.release()
        assert [one[0] for one in answers(sock, 2)] == [200, 200]
        edge.wait(1, "held")
        edge.release()
        assert answers(sock, 1)[0][0] == 200


def test_who_leaves_while_a_request_waits_is_forgotten(start):
    """Before its body is read, and with it."""
    packed = gzip.compress(b"x" * 300_000)
    with full(start) as edge:
        for number in range(1, 4):
            plain, coded = edge.connect(), edge.connect()
            plain.sendall(push(20_000))
            coded.sendall(head(len(packed), more="Content-Encoding: gzip\r\n") + packed)
            until(lambda: counted(edge, "waited_room") == 2 * number, "both wait")
            assert clients(edge)["arriving"] > len(packed)
            abort(plain)
            abort(coded)
            until(lambda: clients(edge)["connections"] == 2 and clients(edge)["arriving"] == 0, "both are forgotten")
        assert len(edge.seen) == 2


def test_a_request_that_waits_too_long_is_refused(start):
    packed = gzip.compress(b"x" * 300_000)
    with full(start, patience_ms=300) as edge, contextlib.closing(edge.connect()) as coded:
        coded.sendall(head(len(packed), more="Content-Encoding: gzip\r\n") + packed)
        [(status, headers, text)] = answers(coded, 1)
        assert (status, headers["retry-after"], body((0, 0, text))) == (
            503, "1", {"error": "Too many requests are waiting; try again"})


def test_a_request_larger_than_the_budget_is_served_when_it_is_alone(start):
    with full(start) as edge, contextlib.closing(edge.connect()) as large:
        large.sendall(push(3 * MIB))
        until(lambda: counted(edge, "waited_room") == 1, "it waits")
        edge.release()
        assert len(body(answers(large, 1)[0])["body"]) == 3 * MIB


def test_a_stop_ends_while_requests_wait_for_room(start):
    edge = start(workers=1, max_queued_bytes=100_000)
    with contextlib.closing(edge.connect()) as first, contextlib.closing(edge.connect()) as waiting:
        first.sendall(push(150_000, "/hold"))
        edge.wait(1, "held")
        waiting.sendall(push(20_000))
        until(lambda: counted(edge, "waited_room") == 1, "it waits")
        stopping = threading.Thread(target=edge.stop)
        stopping.start()
        edge.release()
        assert answers(first, 1)[0][0] == 200
        assert answers(waiting, 1)[0][0] == 200
        stopping.join()


def test_a_body_that_unpacks_waits_while_a_quarter_of_the_room_is_taken(start):
    """300 bytes that become 300 kB; plain bodies of that size do not wait."""
    packed = gzip.compress(b"x" * 300_000)
    edge = start(workers=1, max_queued_bytes=400_000)
    with contextlib.closing(edge.connect()) as first, contextlib.closing(edge.connect()) as other:
        first.sendall(push(120_000, "/hold"))
        edge.wait(1, "held")
        other.sendall(head(len(packed), more="Content-Encoding: gzip\r\n") + packed)
        until(lambda: counted(edge, "waited_room") == 1, "it waits")
        assert served(edge)
        edge.release()
        assert answers(first, 1)[0][0] == 200
        assert len(body(answers(other, 1)[0])["body"]) == 300_000


def test_bodies_are_unpacked_one_by_one_and_count_as_in_hand(start):
    packed = gzip.compress(b"x" * 3 * MIB)
    edge = start(workers=1, max_queued_bytes=4 * MIB, max_body=4 * MIB)
    socks = [edge.connect() for _ in range(4)]
    for sock in socks:
        sock.sendall(head(len(packed), "/hold", "Content-Encoding: gzip\r\n") + packed)
    for _ in socks:
        edge.wait(1, "held")
        assert served(edge) and len(edge.held) == 1
        assert 3 * MIB < counted(edge, "held") < 4 * MIB
        edge.release()
    assert [len(body(answers(sock, 1)[0])["body"]) for sock in socks] == [3 * MIB] * 4
    close(*socks)
    until(lambda: counted(edge, "held") == clients(edge)["arriving"] == 0, "all is given back")
