"""Answers of the control plane in gzip, where a request accepts it."""
from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from support.client import Client
from support.daemon import Daemon

OPENAPI, METRICS = "/openapi.json", "/metrics/prometheus"


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon()


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip;q=0.5", "GZIP", "deflate, *", "x-gzip", "identity;q=0, gzip"])
def test_a_long_answer_is_packed_for_who_accepts_it(daemon: Daemon, accepted: str) -> None:
    with daemon.client() as client:
        plain = client.get(OPENAPI)
        packed = client.request("GET", OPENAPI, headers={"Accept-Encoding": accepted})
        assert packed.headers["content-encoding"] == "gzip" and packed.headers["content-type"] == "application/json"
        assert gzip.decompress(packed.body) == plain.body and len(packed.body) < len(plain.body) / 3
        assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
        scraped = client.request("GET", METRICS, headers={"Accept-Encoding": accepted})
        assert scraped.headers["content-encoding"] == "gzip" and b"\n# TYPE " in gzip.decompress(scraped.body)


@pytest.mark.parametrize("accepted", ["", "br, zstd", "gzip;q=0", "gzip; q=0.000, *", "*;q=0", "identity", "gzip2"])
def test_it_is_plain_for_everybody_else(daemon: Daemon, accepted: str) -> None:
    with daemon.client() as client:
        answer = client.request("GET", OPENAPI, headers={"Accept-Encoding": accepted})
        assert "content-encoding" not in answer.headers and answer.json["openapi"]


def test_short_answers_and_those_of_the_data_plane_are_plain(daemon: Daemon) -> None:
    with daemon.client() as client:
        client.push("packed", *["some text " * 100] * 20)
        for target in ("/livez", "/api/v1/resources/queues/none", "/api/v1/pop/queue/packed?batch=20"):
            answer = client.request("GET", target, headers={"Accept-Encoding": "gzip"})
            assert "content-encoding" not in answer.headers, target
            assert answer.json, target


def test_each_form_has_its_own_tag(daemon: Daemon) -> None:
    """A cache that holds both must not mix them: a strong tag is of the bytes that were sent."""
    asks = {"Accept-Encoding": "gzip"}
    with daemon.client() as client:
        plain, packed = client.get(OPENAPI), client.request("GET", OPENAPI, headers=asks)
        assert plain.headers["etag"] != packed.headers["etag"]
        for answer, headers in ((plain, {}), (packed, asks)):
            known = {**headers, "If-None-Match": answer.headers["etag"]}
            again = client.request("GET", OPENAPI, headers=known)
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", answer.headers["etag"])
            assert again.headers["vary"] == "Accept-Encoding" and "content-encoding" not in again.headers
            head = client.request("HEAD", OPENAPI, headers=headers)
            assert head.headers["content-length"] == str(len(answer.body)) and head.body == b""


def test_errors_and_messages_read_by_offset_are_packed_too(daemon: Daemon) -> None:
    asks = {"Accept-Encoding": "gzip"}
    with daemon.client() as client:
        refused = client.request("GET", "/api/v1/resources/queues/" + "n" * 2000, headers=asks)
        assert refused.status >= 400 and client_json(client, refused)["error"]
        client.push("read", *["some text " * 100] * 20)
        read = client.request("GET", "/api/v1/messages?queue=read&limit=20", headers=asks)
        assert read.status == 200 and len(client_json(client, read)["messages"]) == 20
        assert read.headers["content-encoding"] == "gzip"


def client_json(client: Client, answer: object) -> dict:
    import orjson

    body = answer.body
    return orjson.loads(gzip.decompress(body) if "content-encoding" in answer.headers else body)
