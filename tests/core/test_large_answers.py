"""Large answers of the control plane: they arrive as they were given, in order, and are not copied by the worker."""
import http.client
import os
import socket
import struct
from pathlib import Path

import pytest
from support.edge import answers, edge, start  # noqa: F401 (fixtures)
from support.wait import until

from queend._core import read_answer

MIB = 1 << 20
KEPT = 65536          # bytes of the largest answer that goes the way of small ones


def asked(edge, method, number):
    """Sends requests that wait for the test's own answers. Returns the connection and the requests' tokens."""
    sock = edge.connect()
    sock.sendall(b"".join(b"%s /hold/%d HTTP/1.1\r\nHost: h\r\n\r\n" % (method, at) for at in range(number)))
    edge.wait(number, "held")
    tokens = {request[2]: request[0] for request in edge.held}
    edge.held.clear()
    return sock, [tokens[b"/hold/%d" % at] for at in range(number)]


@pytest.mark.parametrize("size", [KEPT - 1, KEPT, KEPT + 1, 300_000, 5 * MIB])
@pytest.mark.parametrize("status, line", [(200, 9), (200, 4500), (500, 9)], ids=["plain", "long head", "error"])
def test_bodies_arrive_as_they_were_given(edge, size, status, line):
    sock, tokens = asked(edge, b"GET", 3)
    bodies = [os.urandom(size), b"{}", os.urandom(size + 1)]
    for token, body in reversed(list(zip(tokens, bodies, strict=True))):
        edge.core.bridge_reply(token, status, [(b"x-line", b"l" * line)], body)
    for (got, headers, text), body in zip(answers(sock, 3), bodies, strict=True):
        assert got == status and text == body and headers["x-line"] == "l" * line
    sock.close()


def test_head_has_no_body(edge):
    sock, (token, after) = asked(edge, b"HEAD", 2)
    edge.core.bridge_reply(token, 200, [], b"x" * MIB)
    edge.core.bridge_reply(after, 200, [], b"")
    stream = sock.makefile("rb")
    heads = [http.client.parse_headers(stream) for _ in range(2) if stream.readline() == b"HTTP/1.1 200 OK\r\n"]
    assert [int(head["content-length"]) for head in heads] == [MIB, 0]
    sock.close()


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_clients_that_leave_before_or_during_the_answer(edge, reset):
    before, (unknown,) = asked(edge, b"GET", 1)
    during, (token,) = asked(edge, b"GET", 1)
    edge.core.bridge_reply(token, 200, [], b"x" * 20 * MIB)
    assert during.recv(1)
    for sock in (before, during):
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    edge.core.bridge_reply(unknown, 200, [], b"x" * 20 * MIB)
    until(lambda: not any(one["connections"] or one["requests"] for one in map(dict, edge.core.stats()["workers"])),
          "the workers forget them")


def test_the_worker_makes_no_copy(edge):
    """The one copy is that of the control plane's thread, which has the bytes until they are sent."""
    size = 100 * MIB
    sock, (token,) = asked(edge, b"GET", 1)
    body = b"x" * size
    Path("/proc/self/clear_refs").write_text("5")      # VmHWM counts from now
    before = memory("VmRSS")
    edge.core.bridge_reply(token, 200, [], body)
    got = 0
    part = bytearray(MIB)      # one for all: a sanitizer keeps what is freed
    while got < size:
        got += sock.recv_into(part)
    assert memory("VmHWM") < before + size * 1.5
    sock.close()


@pytest.mark.parametrize("watched", [False, True], ids=["taken over", "copied"])
def test_the_answer_of_a_log_read_is_copied_only_if_something_else_reads_it(edge, watched):
    sock, (token,) = asked(edge, b"GET", 1)
    body, *_ = read_answer("json", [(b"q", b"p" * MIB, b"UNREADABLE", -1, 0, 0, 1, [])], 1)
    text, block = bytes(body), body.obj
    other = memoryview(body) if watched else b""
    edge.core.bridge_reply(token, 200, [], body)
    assert [got[2] for got in answers(sock, 1)] == [text]
    with pytest.raises(ValueError):
        bytes(body)
    if watched:
        assert bytes(other) == bytes(block) == text
    else:
        with pytest.raises(BufferError):
            bytes(block)
    sock.close()


def memory(name):
    line, = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) << 10
