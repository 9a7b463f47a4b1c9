"""Addresses without a daemon: a query in a real session ends with one sentence that names the address."""
from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon
from support.ports import free_port


@pytest.fixture
def black_hole() -> Iterator[int]:
    """The port of a listener that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield listener.getsockname()[1]


class Page(BaseHTTPRequestHandler):
    """What another program's server answers to everything."""

    def do_GET(self) -> None:
        body = b"<html>it works</html>" if self.path == "/health" else b'{"status": "UP"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def foreign() -> Iterator[int]:
    """The port of an HTTP server that is not queend."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def usual() -> Iterator[int]:
    """The port of an address that nobody gave, where nothing but a black hole is."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", 6632))
        except OSError:
            pytest.skip("port 6632 is taken on this machine")
        listener.listen(64)
        yield 6632


@pytest.fixture(params=["wrong port", "missing url", "black hole", "another server"])
def wrong(request: pytest.FixtureRequest) -> tuple[dict[str, str], str]:
    """Options, and what is said."""
    if request.param == "missing url":
        return {}, f"http://127.0.0.1:{request.getfixturevalue('usual')}: timed out"
    port, said = {"wrong port": (free_port, ".*refused"),
                  "black hole": (lambda: request.getfixturevalue("black_hole"), "timed out"),
                  "another server": (lambda: request.getfixturevalue("foreign"),
                                     "a server that is not queend answers there, with status 200")}[request.param]
    url = f"http://127.0.0.1:{port()}"
    return {"url": url}, f"{url}: {said}"


def test_a_query_without_a_daemon_ends(spark: SparkSession, wrong: tuple[dict[str, str], str],
                                       tmp_path: Path) -> None:
    options, said = wrong
    sentence = f'no daemon answers [(]{said}[)]; set the option "url" to its address, like http://HOST:6632'
    with pytest.raises(Exception, match=sentence):
        spark.read.format("queend").options(subscribe="q", **options).load().count()
    with pytest.raises(Exception, match=sentence):
        spark.range(1).selectExpr("'1' AS value").write.format("queend").options(queue="q", **options).mode(
            "append").save()
    query = spark.readStream.format("queend").options(subscribe="q", **options).load().writeStream.format(
        "memory").queryName("nowhere").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match=sentence):
        query.processAllAvailable()


def test_the_next_address_is_asked(spark: SparkSession, daemon: Daemon, client: Client,
                                   queue: str) -> None:
    client.push(queue, 1, 2)
    urls = f"http://127.0.0.1:{free_port()},{daemon.url}"
    assert spark.read.format("queend").options(url=urls, subscribe=queue).load().count() == 2
