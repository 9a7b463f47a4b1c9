"""What clients may take together before their requests have arrived: descriptors and bodies. Others are served
meanwhile."""
import contextlib
from email.utils import parsedate_to_datetime

import pytest
from support.budgets import chunked, clients, close, counted, elsewhere, get, head, push, select_now, served
from support.edge import answers, body, edge, start  # noqa: F401 (fixtures)
from support.wait import until


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


def test_who_is_refused_by_the_control_plane_cannot_ask_again_at_once(start):
    """Refusals are answered twice a second: six times as many requests as a connection may have in hand take six of
    these moments, however fast the client sends. The Date of the answers tells."""
    edge = start(max_bridged=2)
    holders = [edge.connect() for _ in range(2)]
    for number, sock in enumerate(holders):
        sock.sendall(get("/hold"))
        edge.wait(number + 1, "held")
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(get("/x") * 6 * 64)
        refused = answers(sock, 6 * 64)
    assert {status for status, _, _ in refused} == {503}
    first, last = (parsedate_to_datetime(refused[n][1]["date"]) for n in (0, -1))
    assert (last - first).total_seconds() >= 2
    edge.release()
    close(*holders)


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
