"""Bodies with a content coding: gzip and zstd as if they had come plain, on the routes of both planes; everything else
is 415. What is unpacked has the bounds of a plain body."""
from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pytest
from support.client import Client
from support.daemon import Daemon
from support.http import Wire
from support.tokens import SECRET, bearer, token
from support.wait import until

MIB = 1 << 20


def streamed(data: bytes) -> bytes:
    """A frame that does not tell its size, as programs write that pack while they send."""
    out = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(out, "zstd") as packer:
        packer.write(data)
    return out.getvalue().to_pybytes()


def framed(data: bytes) -> bytes:
    """A frame that tells its size."""
    return pyarrow.Codec("zstd").compress(data, asbytes=True)


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "x-gzip": gzip.compress, "GZIP": gzip.compress,
    "zstd": framed,
}
FORMS = [*CODINGS.items(), ("zstd", streamed),
         ("gzip", lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:])),
         ("zstd", lambda data: streamed(data[:7]) + framed(data[7:])),
         ("identity", bytes), ("", bytes)]


def coded(client: Client, method: str, target: str, body: Any, coding: str, pack: Callable[[bytes], bytes],
          **headers: str) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.request(method, target, pack(data), {"Content-Type": "application/json", "Content-Encoding": coding,
                                                       **headers})


def items(queue: str, size: int) -> dict[str, Any]:
    return {"items": [{"queue": queue, "payload": "ab" * (size // 2)}]}


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        piece = data[at:at + size]
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


@pytest.mark.parametrize("size", [2, 5000, 300_000, 3 * MIB])
@pytest.mark.parametrize("coding, pack", FORMS)
def test_a_body_is_what_it_unpacks_to(client: Client, queue: str, coding: str, pack: Callable[[bytes], bytes],
                                      size: int) -> None:
    answer = coded(client, "POST", "/api/v1/push", items(queue, size), coding, pack)
    assert answer.status == 201, answer
    (message,) = client.pop(queue)
    assert message["data"] == "ab" * (size // 2)


@pytest.mark.parametrize("coding, pack", FORMS)
def test_routes_of_the_control_plane_unpack_too(client: Client, queue: str, coding: str,
                                                pack: Callable[[bytes], bytes]) -> None:
    answer = coded(client, "POST", "/api/v1/configure", {"queue": queue, "options": {"leaseTime": 77}}, coding, pack)
    assert answer.status in (200, 201), answer
    assert answer.json["options"]["leaseTime"] == 77


@pytest.mark.parametrize("pack", [gzip.compress, framed, streamed])
def test_in_chunks_and_pipelined_the_order_stays(daemon: Daemon, queue: str, pack: Callable[[bytes], bytes]) -> None:
    coding = "gzip" if pack is gzip.compress else "zstd"
    sent = b""
    for n, size in enumerate((10, 2 * MIB, 10, 400_000, 10)):
        data = pack(json.dumps({"items": [{"queue": queue, "payload": f"{n}" * size}]}).encode())
        sent += (f"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {coding}\r\n"
                 f"Transfer-Encoding: chunked\r\n\r\n").encode() + b"".join(chunks(data, 1000))
    with Wire(daemon.address) as wire, daemon.client() as client:
        client.post("/api/v1/configure", {"queue": queue})      # pushes to a queue that is made meanwhile may overtake
        client.push(queue, "first")
        client.pop(queue, autoAck=True)
        wire.send(sent)
        assert [wire.receive().status for _ in range(5)] == [201] * 5
        got = [message["data"][0] for message in client.pop(queue, batch=10)]
        assert got == list("01234")


@pytest.mark.parametrize("coding", ["br", "deflate", "compress", "gzip, zstd", "gzip,gzip", "identity, gzip", "gzipx"])
@pytest.mark.parametrize("target", ["/api/v1/push", "/api/v1/configure", "/nowhere"])
def test_other_codings_are_refused(daemon: Daemon, queue: str, coding: str, target: str) -> None:
    """Though the body is plain JSON, which would be believed."""
    data = json.dumps(items(queue, 4)).encode()
    with Wire(daemon.address) as wire:
        wire.send(f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {coding}\r\n"
                  f"Accept: application/problem+json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = wire.receive()
        assert answer.status == 415 and answer.headers["accept-encoding"] == "gzip, zstd" and wire.ended()
        assert answer.headers["content-type"] == "application/problem+json"
        assert "Content-Encoding" in answer.json["detail"]


def test_two_lines_are_two_codings(daemon: Daemon) -> None:
    with Wire(daemon.address) as wire:
        wire.send(b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
                  b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}")
        assert wire.receive().status == 415


def test_a_preflight_says_what_is_understood(client: Client) -> None:
    assert client.request("OPTIONS", "/api/v1/push").headers["accept-encoding"] == "gzip, zstd"


BODY = json.dumps(items("damaged", 40_000)).encode()
GZIP, ZSTD = gzip.compress(BODY), streamed(BODY)


@pytest.mark.parametrize("coding, data", [
    ("gzip", b"{}"), ("zstd", b"{}"), ("gzip", GZIP[:-1]), ("gzip", GZIP[:40]), ("gzip", GZIP + b"x"),
    ("gzip", GZIP[:-5] + b"xxxxx"), ("zstd", ZSTD[:-1]), ("zstd", ZSTD + b"x"), ("zstd", GZIP), ("gzip", ZSTD),
    ("gzip", zlib.compress(BODY)),
    ("zstd", b"\x28\xb5\x2f\xfd\x00\xff" + ZSTD[6:]),      # a window beyond what receivers need to have
])
def test_what_is_damaged_is_refused_and_the_connection_goes_on(client: Client, coding: str, data: bytes) -> None:
    for target in ("/api/v1/push", "/api/v1/configure"):
        answer = client.request("POST", target, data, {"Content-Encoding": coding})
        assert answer.status in (400, 415) and "Content-Encoding" in answer.json["error"], answer
        assert (answer.status == 415) == ("accept-encoding" in answer.headers)
    assert client.get("/livez").status == 200


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_plain_body_in_the_name_of_a_coding_is_415(client: Client, coding: str) -> None:
    answer = client.request("POST", "/api/v1/push", BODY, {"Content-Encoding": coding})
    assert answer.status == 415 and answer.headers["accept-encoding"] == "gzip, zstd"


def test_an_empty_body_has_nothing_to_unpack(client: Client) -> None:
    assert client.request("GET", "/livez", None, {"Content-Encoding": "gzip"}).status == 200
    assert coded(client, "POST", "/api/v1/push", b"", "gzip", bytes).status == 400


def arriving(client: Client) -> int:
    return int(client.metric("queend_clients_arriving"))


@pytest.mark.parametrize("pack", [gzip.compress, framed, streamed])
def test_a_bomb_is_refused_by_the_bound_of_a_plain_body(start_daemon: Callable[..., Daemon],
                                                        pack: Callable[[bytes], bytes]) -> None:
    daemon = start_daemon(QUEEND_MAX_BODY_BYTES=4 * MIB, QUEEND_MAX_CONTROL_BODY_BYTES=MIB)
    coding = "gzip" if pack is gzip.compress else "zstd"
    with daemon.client() as client:
        for target, most in (("/api/v1/push", 4 * MIB), ("/api/v1/configure", MIB)):
            for size, status in ((most + 1, 413), (256 * MIB, 413), (most, 400)):
                assert coded(client, "POST", target, bytes(size), coding, pack).status == status, (target, size)
        until(lambda: arriving(client) == 0, "what was taken from the budget is given back")


@pytest.mark.parametrize("pack", [gzip.compress, framed, streamed])
def test_what_is_unpacked_has_its_place_in_the_budget(start_daemon: Callable[..., Daemon],
                                                      pack: Callable[[bytes], bytes]) -> None:
    """A body that says nothing of its size while it arrives, and finds no room for what it unpacks to."""
    daemon = start_daemon(QUEEND_MAX_BODY_BYTES=16 * MIB, QUEEND_MAX_ARRIVING_BYTES=25 * MIB)
    coding = "gzip" if pack is gzip.compress else "zstd"
    data = pack(bytes(12 * MIB))
    with daemon.client() as client, Wire(daemon.address) as other:
        other.send(b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (14 * MIB))
        other.send(bytes(1000))
        until(lambda: arriving(client) >= 14 * MIB, "another body is arriving")
        answer = client.request("POST", "/api/v1/push", data, {"Content-Encoding": coding})
        assert answer.status == 503 and answer.headers["retry-after"], answer
        assert coded(client, "POST", "/api/v1/push", items("room", 100), coding, pack).status == 201
        other.close()
        until(lambda: arriving(client) == 0, "what was taken from the budget is given back")
        assert client.request("POST", "/api/v1/push", data, {"Content-Encoding": coding}).status == 400


def test_nothing_is_unpacked_for_who_may_not_ask(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)
    with daemon.client() as client:
        for headers, status in (({}, 401), (bearer(token(role="read-write", key="x" * 40)), 401),
                                (bearer(token()), 403)):
            with daemon.client() as one:
                assert coded(one, "POST", "/api/v1/push", b"\0" * 5000, "gzip", bytes, **headers).status == status
        good = bearer(token(role="read-write"))
        for size in (4, 2 * MIB):
            answer = coded(client, "POST", "/api/v1/push", items(queue, size), "gzip", gzip.compress, **good)
            assert answer.status == 201, answer
