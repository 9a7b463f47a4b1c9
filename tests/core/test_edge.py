"""The edge over real sockets: connections, order of answers, the bridge, timeouts by bounds, stopping, and nothing left
over."""
import contextlib
import json
import random
import resource
import select
import socket
import struct
import threading
import time

import pytest
from support.edge import answers, body, edge, start  # noqa: F401 (fixtures)
from support.wait import PATIENCE, until

from queend._core import Core, probe_http, probe_sizes


def test_probes_and_headers(edge):
    sock = edge.connect()
    sock.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
    [(status, headers, text)] = answers(sock, 1)
    assert (status, json.loads(text)) == (200, {"status": "alive"})
    assert headers["content-type"] == "application/json" and headers["date"].endswith(" GMT")
    sock.sendall(b"OPTIONS /api/v1/push HTTP/1.1\r\nHost: h\r\n\r\n")
    [(status, headers, text)] = answers(sock, 1)
    assert (status, text, headers["content-length"]) == (204, b"", None)
    sock.close()


def test_the_bridge_carries_the_request_as_it_came(edge):
    sock = edge.connect()
    sock.sendall(b"PUT /a%2Fb/\xc3\xa9?x=%20&y HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nX-One:  two \r\nContent-Length:"
                 b" 4\r\n\r\n\x00\xff{}")
    told = body(answers(sock, 1)[0])
    assert (told["method"], told["path"], told["query"],
            told["body"]) == ("PUT", "/a%2Fb/\xc3\xa9", "x=%20&y", "\x00\xff{}")
    assert told["headers"] == [["host", "h"], ["x-one", "1"], ["x-one", "two"], ["content-length", "4"]]
    assert told["client"] == "127.0.0.1:%d" % sock.getsockname()[1]
    sock.close()


def test_head_is_get_without_a_body(edge):
    sock = edge.connect()
    sock.sendall(b"HEAD /x HTTP/1.1\r\nHost: h\r\n\r\nGET /big/3 HTTP/1.1\r\nHost: h\r\n\r\n")
    data = b""
    while not data.endswith(b"\r\n\r\nxxx"):
        data += sock.recv(65536)
    assert edge.seen[0][1] == "GET" and data.count(b"HTTP/1.1 200 OK") == 2 and data.count(b"{") == 0
    sock.close()


def test_reply_refuses_what_cannot_be_sent(edge):
    for bad in ([(b"x", b"a\r\nb")], [(b"x y", b"")], [(b"", b"")], [(b"x", b"\0")], [(b"x:", b"")]):
        with pytest.raises(ValueError, match="malformed header"):
            edge.core.bridge_reply(1, 200, bad, b"")
    with pytest.raises(ValueError, match="status 42"):
        edge.core.bridge_reply(1, 42, [], b"")
    edge.core.bridge_reply(123456, 200, [], b"nobody asked")


def test_answers_keep_the_order_of_requests(edge):
    sock = edge.connect()
    sock.sendall(b"".join(b"GET /%s HTTP/1.1\r\nHost: h\r\n\r\n" % path
                          for path in (b"hold", b"livez", b"second", b"livez")))
    edge.wait(2)
    edge.wait(1, "held")
    edge.release()
    first, second, third, fourth = answers(sock, 4)
    assert body(first)["path"] == "/hold" and body(second) == {"status": "alive"}
    assert body(third)["path"] == "/second" and body(fourth) == {"status": "alive"}
    sock.close()


def test_pipeline_is_bounded_and_goes_on(start):
    edge = start(max_pipeline=4)
    sock = edge.connect()
    requests = b"".join(b"POST /hold/%d HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" % i for i in range(50))
    sock.sendall(requests)
    edge.wait(4)
    sock.sendall(b"GET /hold/last HTTP/1.1\r\nHost: h\r\n\r\n")
    got = []
    while len(got) < 48:
        edge.wait(4, "held")
        assert len(edge.held) == 4          # never more in hand
        edge.release()
        got += answers(sock, 4)
    edge.wait(3, "held")
    edge.release()
    got += answers(sock, 3)
    assert [body(answer)["path"] for answer in got] == [f"/hold/{i}" for i in range(50)] + ["/hold/last"]
    sock.close()


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_bytes_in_any_grouping(edge, piece):
    data = (b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n" + b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
            + b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:"
              b" chunked\r\n\r\n2\r\nab\r\n3;x=y\r\ncde\r\n0\r\nT: v\r\n\r\n"
            + b"GET /d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    sock = edge.connect()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(0, len(data), piece):
        sock.sendall(data[at:at + piece])
    told = [(body(answer)["path"], body(answer)["body"]) for answer in answers(sock)]
    assert told == [("/a", ""), ("/b", "hello"), ("/c", "abcde"), ("/d", "")]
    sock.close()


def test_damaged_streams_are_answered_as_the_parser_reads_them(edge):
    """Good and broken requests, pipelined, in random pieces: one echo for each request the parser sees, then its
    refusal."""
    chance = random.Random(20261121)
    good = [b"GET /a?b=c HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n",
            b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
            b"PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:"
            b" chunked\r\n\r\n3\r\nabc\r\n5;e=f\r\ndefgh\r\n0\r\nT: v\r\n\r\n",
            b"POST /l HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n" + b"z" * 3000]
    refused = 0
    for _ in range(300):
        data = bytearray(b"".join(chance.choice(good) for _ in range(chance.randint(1, 6))))
        if chance.random() < 0.7:
            at = chance.randrange(len(data))
            data[at:at + chance.randint(0, 2)] = chance.choice([b"", b"\r", b"\n", b"\x00", b" ", b":", b"1", b"\xff"])
        data = bytes(data) + b"GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        requests, refusal, _ = probe_http([data])
        if not refusal and (not requests or requests[-1]["keep_alive"]):
            # the damage made a body longer: the server rightly waits for the rest of it
            continue
        sock = edge.connect()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        at = 0
        while at < len(data):
            step = chance.choice([1, 2, 7, 50, 5000])
            sock.sendall(data[at:at + step])
            at += step
        got = answers(sock)
        sock.close()
        assert [(body(answer)["path"].encode("latin-1"), body(answer)["body"].encode("latin-1"))
                for answer in got[:len(requests)]] == [
            (request["path"], request["body"]) for request in requests], data
        assert [answer[0] for answer in got[len(requests):]] == ([refusal[0]] if refusal else []), data
        refused += bool(refusal)
    assert 50 < refused < 250


def test_large_bodies_both_ways(edge):
    size = 3_000_000
    text = b"0123456789" * (size // 10)
    sock = edge.connect()
    sock.sendall(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + text)
    assert body(answers(sock, 1)[0])["body"].encode() == text
    chunks = b"".join(b"%x\r\n%s\r\n" % (100_000, text[at:at + 100_000]) for at in range(0, size, 100_000))
    sock.sendall(b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert body(answers(sock, 1)[0])["body"].encode() == text
    sock.sendall(b"GET /big/20000000 HTTP/1.1\r\nHost: h\r\n\r\nGET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
    big, small = answers(sock, 2)
    assert big[2] == b"x" * 20_000_000 and small[0] == 200
    sock.close()


def test_a_client_that_reads_nothing_is_not_read_either(edge):
    sock = edge.connect()
    sock.setblocking(False)
    request = b"GET /big/100000 HTTP/1.1\r\nHost: h\r\n\r\n"
    sent = 0
    while select.select([], [sock], [], 1)[1] and sent < 100_000_000:
        try:
            sent += sock.send(request * 1000)
        except BlockingIOError:
            pass
    # requests stop being taken long before what was sent is used up, and memory holds a bounded number of answers
    taken = len(edge.seen)
    assert taken * len(request) < sent and taken < 1000
    sock.setblocking(True)
    sock.settimeout(PATIENCE)
    assert all(status == 200 and len(text) == 100_000 for status, _, text in answers(sock, taken))
    sock.close()


def test_expect_continue(edge):
    sock = edge.connect()
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    sock.sendall(head)
    assert answers(sock, 1)[0][0] == 100
    sock.sendall(b"hello")
    assert body(answers(sock, 1)[0])["body"] == "hello"
    # behind an answer that is still owed it waits for its turn
    sock.sendall(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n" + head)
    edge.wait(1, "held")
    edge.release()
    assert [answer[0] for answer in answers(sock, 2)] == [200, 100]
    sock.sendall(b"again")
    assert body(answers(sock, 1)[0])["body"] == "again"
    # no invitation when the body came along, or will never be read
    sock.sendall(head + b"12345")
    assert answers(sock, 1)[0][0] == 200
    sock.sendall(head.replace(b"Length: 5", b"Length: 99999999999"))
    assert [answer[0] for answer in answers(sock)] == [413]
    sock.close()


def test_who_waits_to_be_told_to_go_on_has_time(start):
    """The time for a body begins when `100 Continue` is written, and not while an earlier answer is owed."""
    edge = start(body_timeout_ms=700, workers=1)
    post = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"

    def time_passes():
        with contextlib.closing(edge.connect()) as other:
            other.sendall(post + b"\r\na")
            assert answers(other, 1)[0][0] == 408

    with contextlib.closing(edge.connect()) as patient, contextlib.closing(edge.connect()) as slow:
        for sock in (patient, slow):
            sock.sendall(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n" + post + b"Expect: 100-continue\r\n\r\n")
        edge.wait(2, "held")
        slow.sendall(b"h")      # who sends of its body needs no invitation
        time_passes()
        time_passes()
        edge.release()
        assert [answer[0] for answer in answers(slow)] == [200, 408]
        assert [answer[0] for answer in answers(patient, 2)] == [200, 100]
        patient.sendall(b"hello")
        assert body(answers(patient, 1)[0])["body"] == "hello"


def test_refusals_come_in_turn_and_close(edge):
    sock = edge.connect()
    sock.sendall(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\nGET /livez HTTP/1.1\r\nHost: h\r\n\r\nnonsense\r\n\r\n"
                 + b"x" * 1_000_000)
    edge.wait(1, "held")
    edge.release()
    first, second, third = answers(sock)
    assert (first[0], second[0], third[0]) == (200, 200, 400)
    assert body(third) == {"error": "Malformed request line"} and third[1]["connection"] == "close"
    sock.close()


@pytest.mark.parametrize("data, status", [
    (b"GET / HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505),
    (b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", 501),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n", 414), (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 40_000, 431),
    (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999\r\n\r\n", 413),
    (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
    (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: h\r\nExpect: gold\r\n\r\n", 417),
    (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
])
def test_malformed_requests_are_answered_never_dropped(edge, data, status):
    sock = edge.connect()
    sock.sendall(data)
    [(code, headers, text)] = answers(sock)
    assert code == status and headers["connection"] == "close" and set(json.loads(text)) == {"error"}
    sock.close()


def test_a_large_refused_body_does_not_destroy_the_refusal(edge):
    sock = edge.connect()
    sock.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999\r\n\r\n")
    for _ in range(30):
        sock.sendall(b"x" * 100_000)
    assert [answer[0] for answer in answers(sock)] == [413]
    sock.close()


def test_http10(edge):
    sock = edge.connect()
    sock.sendall(b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /livez HTTP/1.0\r\n\r\nGET /never"
                 b" HTTP/1.0\r\n\r\n")
    first, second = answers(sock)
    assert first[1]["connection"] == "keep-alive" and second[1]["connection"] == "close" and not edge.seen
    sock.close()


@pytest.mark.parametrize("data, status", [(b"", None), (b"GET / HT", 408),
                                          (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", 408),
                                          (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
                                           408)])
def test_clients_that_never_finish(start, data, status):
    edge = start(head_timeout_ms=1, body_timeout_ms=1, idle_timeout_ms=1)
    sock = edge.connect()
    sock.sendall(data)
    assert [answer[0] for answer in answers(sock)] == ([status] if status else [])
    sock.close()


def test_a_crowd_that_never_finishes(start):
    """Each waits for its turn most of the time; the time for its request goes on."""
    edge = start(head_timeout_ms=1000, body_timeout_ms=1000, workers=1)
    socks = [edge.connect() for _ in range(600)]
    for number, sock in enumerate(socks):
        sock.sendall((b"GET / HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n\r\n")[
            number % 2])
        sock.setblocking(False)
    statuses = []

    def one_more(sock):
        """Sends a byte. Returns True if the connection is still open."""
        with contextlib.suppress(OSError):
            sock.send(b"a")
        try:
            if some := sock.recv(4096):
                statuses.append(some.split()[1])
        except BlockingIOError:
            return True
        except OSError:
            pass
        sock.close()
        return False
    left = socks
    end = time.monotonic() + PATIENCE
    while left and time.monotonic() < end:
        left = [sock for sock in left if one_more(sock)]
    assert not left, f"{len(left)} of {len(socks)} are still there"
    assert set(statuses) == {b"408"} and len(statuses) > len(socks) / 2


def test_a_client_that_takes_no_answer_is_closed(start):
    edge = start(write_timeout_ms=1, workers=1)
    sock = edge.connect()
    sock.sendall(b"GET /big/50000000 HTTP/1.1\r\nHost: h\r\n\r\n")
    edge.wait(1)
    watch(edge, lambda stats: stats["accepted"] == 1 and stats["connections"] == 0)
    sock.close()


def watch(edge, done):
    """Waits until the counters of all workers together satisfy `done`."""
    def total():
        stats = [dict(worker) for worker in edge.core.stats()["workers"]]
        return {key: sum(worker[key] for worker in stats) for key in stats[0]}
    until(lambda: done(total()), "counters of the workers")


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_clients_that_leave(edge, reset):
    """Who is gone for sure is closed at once; who only sends no more may wait for its answers."""
    socks = [edge.connect() for _ in range(20)]
    for sock in socks:
        sock.sendall(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\nGET /livez HTTP/1.1\r\nHost:"
                     b" h\r\n\r\nPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab")
    edge.wait(20, "held")
    for sock in socks:
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    if reset:
        watch(edge, lambda stats: stats["connections"] == 0)
    edge.release()
    watch(edge, lambda stats: stats["requests"] == 0 and stats["connections"] == 0)


def test_the_bridge_is_bounded(start):
    edge = start(max_bridged=4, workers=1)
    edge.ended = True                         # nobody takes
    edge.waker.send(b"x")
    edge.thread.join()
    socks = [edge.connect() for _ in range(6)]
    for sock in socks:
        sock.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
    refused = []
    while len(refused) < 2:
        ready, _, _ = select.select([sock for sock in socks if sock not in refused], [], [], 20)
        assert ready
        refused += ready
    for sock in refused:
        [(status, headers, text)] = answers(sock, 1)
        assert (status, headers["retry-after"], json.loads(text)) == (503, "1", {"error": "The control plane is busy"})
    assert edge.core.stats()["workers"][0]["refused"] == 2
    # a client that leaves before its request was taken frees its place
    waiting = [sock for sock in socks if sock not in refused]
    waiting[0].close()
    watch(edge, lambda stats: stats["requests"] == 3)
    assert len(edge.core.bridge_take()) == 3
    edge.thread = threading.Thread(target=lambda: None)
    edge.thread.start()
    assert not edge.stop(0)                   # taken and never answered: the stop does not wait for it beyond the grace
    for sock in socks:
        sock.close()


def test_stop_answers_what_is_in_hand(start):
    edge = start(stop_patience_ms=int(PATIENCE * 1000))
    idle, busy, late = edge.connect(), edge.connect(), edge.connect()
    idle.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
    answers(idle, 1)
    late.sendall(b"POST /late HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab")
    busy.sendall(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
    edge.wait(1, "held")
    watch(edge, lambda stats: stats["accepted"] == 3 and stats["requests"] == 2)
    outcome = []
    stopping = [threading.Thread(target=lambda: outcome.append(edge.core.stop(int(PATIENCE * 1000)))) for _ in range(2)]
    for thread in stopping:
        thread.start()          # who stops it second waits for the first

    def refused():
        try:
            edge.connect().close()
        except ConnectionRefusedError:
            return True
        return False

    until(refused, "nobody is let in any more")
    assert idle.recv(1) == b"", "the worker stops: nothing is owed to it"
    assert all(thread.is_alive() for thread in stopping)
    edge.release()
    late.sendall(b"cde")
    [(status, headers, _)] = answers(busy)
    assert (status, headers["connection"]) == (200, "close")
    [(status, headers, text)] = answers(late)
    assert (status, json.loads(text)["body"], headers["connection"]) == (200, "abcde", "close")
    for thread in stopping:
        thread.join()
    assert outcome == [True, True]
    for sock in (idle, busy, late):
        sock.close()


def test_stop_without_grace(edge):
    sock = edge.connect()
    sock.sendall(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
    edge.wait(1, "held")
    assert not edge.stop(0)
    [(status, _, text)] = answers(sock)
    assert (status, json.loads(text)) == (503, {"error": "The server is stopping"})
    edge.release()                            # too late: ignored
    sock.close()


def test_a_core_that_has_stopped_is_asked(edge):
    """A request that the control plane has in hand may end later than the core."""
    core = edge.core
    assert edge.stop()
    core.notify("queue")
    core.look()
    assert core.version() == -1 and core.database()["doubts"] == ["away"] and core.tallies() == core.parked() == []
    assert not core.ready() and core.stop(0)


def test_stop_while_requests_rush_in(start):
    """Every request sent before the end is answered in full, or its connection ends without a byte of an answer."""
    edge = start()
    broken = []

    def rush():
        try:
            while True:
                sock = edge.connect()
                for _ in range(3):
                    sock.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
                    data = b""
                    while b"\r\n\r\n" not in data or not data.endswith(b"}"):
                        more = sock.recv(65536)
                        if not more:
                            break
                        data += more
                    if not data:
                        break
                    if not data.endswith(b"}"):
                        broken.append(data)
                sock.close()
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            pass

    threads = [threading.Thread(target=rush) for _ in range(8)]
    for thread in threads:
        thread.start()
    edge.wait(200)
    assert edge.core.stop(20_000)
    for thread in threads:
        thread.join()
    assert not broken


@pytest.mark.parametrize("taken", [1, 2, 3, 4, 5, 6] * 3)
def test_stop_without_grace_while_bodies_are_copied(start, taken):
    """The control plane copies requests while the workers end. Only AddressSanitizer sees what is read too late."""
    edge = start(max_body=2_000_000, max_control_body=2_000_000, max_bridged_bytes=1 << 30)

    def rush():
        with contextlib.suppress(OSError), contextlib.closing(edge.connect()) as sock:
            while True:
                sock.sendall(b"POST /hold HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000)

    threads = [threading.Thread(target=rush) for _ in range(6)]
    for thread in threads:
        thread.start()
    edge.wait(taken)
    edge.stop(0)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("mode", ["acceptor", "reuseport"])
def test_both_ways_to_listen(start, mode):
    edge = start(listen_mode=mode, workers=3)
    socks = [edge.connect() for _ in range(60)]
    for sock in socks:
        sock.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
    assert all(answers(sock, 1)[0][0] == 200 for sock in socks)
    spread = [worker["accepted"] for worker in edge.core.stats()["workers"]]
    assert sum(spread) == 60 and (mode == "reuseport" or spread == [20, 20, 20])
    for sock in socks:
        sock.close()


@pytest.mark.parametrize("host, family, address", [("127.0.0.1", socket.AF_INET, "127.0.0.1"), (
    "::1", socket.AF_INET6, "::1"), ("localhost", socket.AF_INET, "127.0.0.1"),
                                                   ("0.0.0.0", socket.AF_INET, "127.0.0.1"),
                                                   ("", socket.AF_INET, "127.0.0.1")])
def test_addresses(start, host, family, address):
    edge = start(host=host)
    if host == "localhost" and socket.getaddrinfo("localhost", edge.port,
                                                  type=socket.SOCK_STREAM)[0][0] == socket.AF_INET6:
        family, address = socket.AF_INET6, "::1"
    sock = socket.socket(family)
    sock.settimeout(PATIENCE)
    sock.connect((address, edge.port))
    sock.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answers(sock, 1)[0][0] == 200
    sock.close()


def test_an_address_in_use_is_told(edge):
    taken = socket.create_server(("127.0.0.1", 0))
    edge.stop()
    del edge.core
    core = Core({"host": "127.0.0.1", "port": taken.getsockname()[1]})
    with pytest.raises(OSError, match=r"PORT: 127.0.0.1 port \d+ is taken: Address already in use"):
        core.start()
    port = taken.getsockname()[1]
    taken.close()
    assert core.start() == port               # tried again when the port is free
    assert core.stop(1000) and not any(core.leaks().values())


@pytest.mark.parametrize("settings, error, text", [
    ({"prot": 1}, ValueError, "unknown settings: prot"), ({"port": "x"}, TypeError, "port must be an integer, not str"),
    ({"port": True}, TypeError, "port"),
    ({"port": 65536}, ValueError, "port must be between 0 and 65535, not 65536"),
    ({"workers": 0}, ValueError, "workers"), ({"host": 5}, TypeError, "host"),
    ({"listen_mode": "both"}, ValueError, "listen_mode must be one of acceptor, reuseport"),
    ({"host": "a\0b"}, ValueError, "host contains a NUL"),
])
def test_wrong_settings_are_refused(settings, error, text):
    with pytest.raises(error, match=text):
        Core(settings)


def test_descriptors_run_out(start):
    """The acceptor waits and goes on; it neither spins nor dies."""
    edge = start(workers=1)
    first = edge.connect()
    first.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
    answers(first, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    socks = [socket.socket() for _ in range(5)]
    spare = max(sock.fileno() for sock in socks) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
    try:
        for sock in socks:
            sock.settimeout(PATIENCE)
            sock.connect(("127.0.0.1", edge.port))           # the kernel accepts; the process cannot
            sock.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        turns = edge.core.stats()["workers"][0]["accepted"]
        assert turns == 1
        first.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")      # the others are served meanwhile
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert all(answers(sock, 1)[0][0] == 200 for sock in [*socks, first])
    for sock in [*socks, first]:
        sock.close()


def test_idle_connections_hold_no_request_and_little_memory(start):
    edge = start(workers=1)
    socks = [edge.connect() for _ in range(300)]
    for sock in socks:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
    for sock in socks:
        answers(sock, 1)
    stats = edge.core.stats()["workers"][0]
    assert (stats["connections"], stats["requests"]) == (300, 0)
    sizes = probe_sizes()
    assert sizes["connection"] - sizes["handle"] <= 304 and sizes["request"] < 512
    for sock in socks:
        sock.close()


def test_two_cores_do_not_share_a_process(edge):
    with pytest.raises(RuntimeError, match="a Core in this process already"):
        Core({})
