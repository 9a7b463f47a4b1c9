"""The HTTP parser: what it reads, what it refuses and with which status, whatever the grouping of the bytes; and the
same judged by another parser (llhttp, through httptools)."""
import datetime
import random
import re

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import hostile
from support.damaged import damage

from queend import _core as core

HOST = b"Host: h\r\n"


def get(target=b"/", *headers, version=b"HTTP/1.1"):
    return b"GET " + target + b" " + version + b"\r\n" + HOST + b"".join(h + b"\r\n" for h in headers) + b"\r\n"


def post(body=b"", *headers):
    return b"POST /p HTTP/1.1\r\n" + HOST + b"".join(h + b"\r\n" for h in headers) + b"\r\n" + body


def chunked(*chunks, trailer=b"\r\n"):
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return post(body + b"0\r\n" + trailer, b"Transfer-Encoding: chunked")


def read(data, **limits):
    """Requests and refusal; the same however the bytes are grouped."""
    whole = core.probe_http([data], **limits)
    single = core.probe_http([data[i:i + 1] for i in range(len(data))], **limits)
    assert single[0] == whole[0], data
    assert (single[1] is None) == (whole[1] is None), (data, single[1], whole[1])
    return whole[0], whole[1]


def status(data, **limits):
    requests, refusal = read(data, **limits)
    return refusal[0] if refusal else (200 if requests else 0)


def test_a_request_in_full():
    body = b'[{"a":1}]'
    requests, refusal = read(
        b"POST /api/v1/push?x=1&y=%20 HTTP/1.1\r\nHost: queue.example:6632\r\nContent-Type:application/json\r\n"
                             b"X-Blank:\r\nX-Tabs:\t a\tb \t\r\ncontent-LENGTH: 9\r\n\r\n" + body)
    assert refusal is None
    assert requests == [{
        "method": "POST", "target": b"/api/v1/push?x=1&y=%20", "path": b"/api/v1/push", "query": b"x=1&y=%20",
        "headers": [(b"host", b"queue.example:6632"), (b"content-type", b"application/json"), (b"x-blank", b""),
                    (b"x-tabs", b"a\tb"), (b"content-length", b"9")],
        "keep_alive": True, "http10": False, "expects": False, "body": body}]


def test_pipelined_requests_of_every_kind_of_body():
    data = (get(b"/1") + post(b"abc", b"Content-Length: 3") + chunked(b"hello ", b"world")
            + post(b"", b"Content-Length: 0") + get(b"/5"))
    requests, refusal = read(data)
    assert refusal is None
    assert [r["body"] for r in requests] == [b"", b"abc", b"hello world", b"", b""]


@pytest.mark.parametrize("data, answer", [
    (get(b"/a?"), (b"/a", b"")), (get(b"/a?b?c"), (b"/a", b"b?c")), (get(b"/%00/%zz"), (b"/%00/%zz", b"")),
    (get("/é".encode()), ("/é".encode(), b"")),
    (get(b"http://h/a?b"), (b"/a", b"b")), (get(b"HTTPS://h:1/"), (b"/", b"")), (get(b"//a"), (b"//a", b"")),
    (get(b"/a;b=c:d@e"), (b"/a;b=c:d@e", b"")),
    (b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", (b"*", b"")), (b"\r\n\r\n" + get(b"/x"), (b"/x", b"")),
])
def test_targets(data, answer):
    requests, refusal = read(data)
    assert refusal is None and (requests[0]["path"], requests[0]["query"]) == answer


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])
def test_methods(method):
    requests, _ = read(f"{method} / HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    assert requests[0]["method"] == method


@pytest.mark.parametrize("version, header, kept", [
    (b"HTTP/1.1", None, True), (b"HTTP/1.1", b"Connection: close", False), (b"HTTP/1.1", b"Connection: Close", False),
    (b"HTTP/1.1", b"Connection: keep-alive, close", False), (b"HTTP/1.1", b"Connection: ,, foo ,close ", False),
    (b"HTTP/1.1", b"Connection: closed", True), (b"HTTP/1.0", None, False),
    (b"HTTP/1.0", b"Connection: keep-alive", True), (b"HTTP/1.0", b"Connection: Keep-Alive, close", False),
])
def test_keep_alive(version, header, kept):
    requests, _ = read(get(b"/", *([header] if header else []), version=version))
    assert requests[0]["keep_alive"] is kept and requests[0]["http10"] is (version == b"HTTP/1.0")


HOSTILE = [case for case in hostile.cases() if case.parser]


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.name)
def test_hostile_bytes_get_their_status(case):
    (code,), data = case.answers, case.data
    if len(data) < 100_000:
        assert status(data) == code
    requests, refusal, _ = core.probe_http([data])
    assert (requests, refusal[0]) == ([], code)
    # after a good request the same holds, and the good one stands
    requests, refusal, _ = core.probe_http([get(b"/good") + data])
    assert [r["path"] for r in requests] == [b"/good"] and refusal[0] == code


def test_bounds():
    assert status(get(b"/" + b"a" * 8191)) == 200
    assert status(get(b"/" + b"a" * 8192)) == 414
    assert core.probe_http([b"GET /" + b"a" * 8192])[1][0] == 414            # before it ends
    fill = b"X: " + b"y" * (32768 - len(get()) - 5)
    assert core.probe_http([get(b"/", fill)])[1] is None
    assert core.probe_http([get(b"/", fill + b"y")])[1][0] == 431
    assert core.probe_http([get(b"/", fill + b"y" * 10_000)[:-4]])[1][0] == 431      # before it ends
    assert status(get(b"/", *[b"X: 1"] * 99)) == 200
    assert status(post(b"a" * 100, b"Content-Length: 100"), max_body=100) == 200
    assert status(post(b"a" * 101, b"Content-Length: 101"), max_body=100) == 413
    assert status(chunked(b"a" * 60, b"b" * 40), max_body=100) == 200
    assert status(chunked(b"a" * 60, b"b" * 41), max_body=100) == 413


def test_chunked_bodies():
    data = post(b"3;name=value\r\nabc\r\n00A;x\r\n0123456789\r\n0;last\r\nTrailer: x\r\nEmpty:\r\n\r\n",
                b"transfer-encoding: Chunked") + get(b"/next")
    requests, refusal = read(data)
    assert refusal is None and [r["body"] for r in requests] == [b"abc0123456789", b""]


def test_expectation():
    requests, _ = read(post(b"a", b"Content-Length: 1", b"Expect: 100-Continue"))
    assert requests[0]["expects"] is True


def test_date():
    for second in (0, 784111777, 951782400, 951868799, 1709164800, 4102444799, 1798761599):
        assert core.probe_http_date(second) == datetime.datetime.fromtimestamp(second, datetime.UTC).strftime(
            "%a, %d %b %Y %H:%M:%S GMT")


class Other:
    """What llhttp makes of the same bytes."""

    def __init__(self):
        self.requests, self.path, self.headers, self.body, self.error = [], b"", [], b"", None
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self):
        self.path, self.headers, self.body = b"", [], b""

    def on_url(self, url):
        self.path += url

    def on_header(self, name, value):
        self.headers.append((name.lower(), value.strip(b" \t")))

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.requests.append({"method": self.parser.get_method().decode(), "target": self.path, "body": self.body,
                              "keep_alive": self.parser.should_keep_alive(),
                              "http10": self.parser.get_http_version() == "1.0"})

    @classmethod
    def read(cls, data):
        self = cls()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            self.error = error
        return self


LENGTH_IN_TRAILER = re.compile(rb"\r\n0\r\n([^\r\n]+\r\n)*[^\r\n]*(content-length|transfer-encoding)", re.I)


def compare(data):
    """What we accept, llhttp accepts and reads alike; we may refuse more (each stricter rule stands in
    tests/hostile/requests.toml). What we take beyond it: raw bytes of other scripts in a target, as curl sends them,
    and any field in a trailer, as none of them counts."""
    requests, refusal, left = core.probe_http([data])
    if any(byte > 127 for request in requests for byte in request["target"]) or LENGTH_IN_TRAILER.search(data):
        return requests, refusal
    other = Other.read(data)
    keys = ("method", "target", "body", "keep_alive", "http10")
    mine = [{key: request[key] for key in keys} for request in requests]
    assert other.requests[:len(mine)] == mine, data
    if refusal is None and all(request["keep_alive"] for request in requests) and not left:
        assert other.error is None and len(other.requests) == len(mine), (data, other.error)
    return requests, refusal


tokens = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~", min_size=1,
                 max_size=20).map(str.encode)
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40).map(str.encode)
plain = st.tuples(tokens.filter(lambda t: t.lower() not in (b"host", b"content-length", b"transfer-encoding",
                                                            b"connection", b"expect", b"upgrade")), values)


@st.composite
def streams(draw):
    out = b""
    for _ in range(draw(st.integers(1, 4))):
        method = draw(st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"PATCH"]))
        target = b"/" + draw(st.text("abc/%20?&=+~", max_size=30)).encode()
        lines = [HOST] + [name + b":" + value + b"\r\n" for name, value in draw(st.lists(plain, max_size=5))]
        kind = draw(st.sampled_from(["none", "length", "chunked"]))
        body = draw(st.binary(max_size=50))
        if kind == "length":
            lines.append(b"Content-Length: %d\r\n" % len(body))
        elif kind == "chunked":
            lines.append(b"Transfer-Encoding: chunked\r\n")
            cut = draw(st.integers(0, len(body)))
            body = b"".join(b"%X\r\n%s\r\n" % (len(part), part) for part in (body[:cut], body[cut:])
                            if part) + b"0\r\n\r\n"
        else:
            body = b""
        out += method + b" " + target + b" HTTP/1.1\r\n" + b"".join(lines) + b"\r\n" + body
    return out


@settings(max_examples=150)
@given(streams(), st.randoms(use_true_random=False))
def test_streams_read_as_another_parser_reads_them(data, chance):
    requests, refusal = compare(data)
    assert refusal is None and requests
    pieces, at = [], 0
    while at < len(data):
        step = chance.randint(1, 30)
        pieces.append(data[at:at + step])
        at += step
    assert core.probe_http(pieces)[:2] == (requests, None)


def test_damaged_streams():
    chance = random.Random(20261121)
    good = [get(b"/a?b=c", b"X: y", b"Connection: keep-alive"), post(b"hello", b"Content-Length: 5"),
            chunked(b"abc", b"defgh", trailer=b"T: v\r\n\r\n")]
    pieces = [b"\r", b"\n", b"\r\n", b"\x00", b" ", b"\t", b":", b"\xff", b"0", b"1", b";", b"chunked",
              b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b",", b"HTTP/1.1"]
    for _ in range(20_000):
        data = bytearray(chance.choice(good) + chance.choice(good))
        damage(data, chance, pieces, 2)
        compare(bytes(data))


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes(data):
    compare(data)
    read(get() + data)


@pytest.mark.parametrize("extension", [b";a", b";a=b", b';a="b c"', b';a="\\"\\\\"', b";a;b=c;d", b';a="";b'])
def test_chunk_extensions_are_passed_over(extension: bytes) -> None:
    requests, refusal = read(post(b"1" + extension + b"\r\nx\r\n0" + extension + b"\r\n\r\n",
                                  b"Transfer-Encoding: chunked"))
    assert refusal is None and [one["body"] for one in requests] == [b"x"]
