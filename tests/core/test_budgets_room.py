"""What requests in hand may take together. Large ones wait for room, small ones are served meanwhile."""
import contextlib
import gzip
import random
import socket
import struct
import threading

from support.budgets import MIB, clients, close, counted, elsewhere, get, head, push, select_now, served
from support.edge import answers, body, edge, start  # noqa: F401 (fixtures)
from support.wait import until


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


def test_requests_that_wait_for_room_count_for_their_address(start):
    """Those that came with one read as well. Beyond the bound of what arrives, others of the address are refused."""
    packed = gzip.compress(random.Random(1).randbytes(7000) + bytes(300_000))
    edge = start(workers=1, max_queued_bytes=400_000, max_arriving=200_000)
    with contextlib.ExitStack() as opened:
        first, other, *waiting = (opened.enter_context(contextlib.closing(sock)) for sock in (
            edge.connect(), elsewhere(edge), *(edge.connect() for _ in range(60))))
        first.sendall(push(120_000, "/hold"))
        edge.wait(1, "held")
        for number, sock in enumerate(waiting):
            sock.sendall(head(len(packed), more="Content-Encoding: gzip\r\n") + packed)
            until(lambda count=number + 1: counted(edge, "waited_room") + counted(edge, "refused") == count, "it waits")
        other.sendall(head(8000) + b"x")
        assert not select_now(other), "it has room"
        other.sendall(b"x" * 7999)
        assert answers(other, 1)[0][0] == 200
        assert counted(edge, "no_room") > 30 and clients(edge)["arriving"] <= 200_000
        edge.release()
        assert answers(first, 1)[0][0] == 200
        for sock in waiting:      # there is never room to unpack one
            assert body(answers(sock, 1)[0]) == {"error": "Too much is being received; try again"}
    until(lambda: clients(edge)["arriving"] == 0, "all is given back")


def test_large_bodies_with_the_control_plane_count_for_their_address(start):
    """Until their client leaves; then they count for all alone."""
    edge = start(workers=1, max_arriving=4 * MIB, max_control_body=2 * MIB, max_body=2 * MIB)
    size = 1_200_000
    with contextlib.ExitStack() as opened:
        same = [edge.connect() for _ in range(7)]
        for number, sock in enumerate(same):
            sock.sendall(head(size, "/hold") + b"x" * size)
            until(lambda count=number + 1: len(edge.held) + counted(edge, "no_room") == count, "held or refused")
        other, one = (opened.enter_context(contextlib.closing(sock)) for sock in (elsewhere(edge), edge.connect()))
        assert len(edge.held) == 3 and clients(edge)["arriving"] < 4 * MIB
        other.sendall(push(size))
        assert answers(other, 1)[0][0] == 200
        one.sendall(head(size) + b"x")
        assert answers(one, 1)[0][0] == 503
        for sock in same:
            abort(sock)
        until(lambda: clients(edge)["connections"] <= 2, "they have left")
        assert clients(edge)["arriving"] == 3 * size
        with contextlib.closing(edge.connect()) as sock:
            sock.sendall(push(size))
            assert answers(sock, 1)[0][0] == 200
        edge.release()
    until(lambda: clients(edge)["arriving"] == 0, "all is given back")


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
