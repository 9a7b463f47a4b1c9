"""What goes wrong around a frame that is read or written: daemons that are full, certificates, what retention took."""
from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from support.client import Client, data
from support.daemon import Daemon
from support.proxy import TlsFront
from support.wait import until

from queend.spark.link import Link, Unreachable
from queend.spark.settings import LinkSettings, Options


def link(urls: str, **options: object) -> Link:
    return Link(LinkSettings.of(Options({"url": urls, **{name: str(value) for name, value in options.items()}})))


def test_a_daemon_that_is_full_is_asked_when_it_said(start_daemon: Callable[..., Daemon], queue: str) -> None:
    full = start_daemon(QUEEND_MAX_CONNECTIONS=1)
    one = link(f"http://127.0.0.1:{full.port},http://localhost:{full.port}", retries=2, retryMs=1)    # two names: to see that it went on
    answers: list[object] = []
    began = time.monotonic()
    with full.client() as holder:
        assert holder.get("/livez").status == 200
        before = one.turn
        asked = threading.Thread(target=lambda: answers.append(one.json("/api/v1/push", {"items": [{"queue": queue, "payload": 1}]})))
        asked.start()
        until(lambda: one.turn > before, "the daemon refuses")
    asked.join(60)
    one.close()
    assert [item["status"] for item in answers[0]] == ["queued"]
    assert time.monotonic() - began >= 5     # the Retry-After of a daemon that has no room for a connection


class Front(TlsFront):
    """HTTPS in front of a daemon."""

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            try:
                with self.context.wrap_socket(client, server_side=True) as tls:
                    self.versions.append(tls.version())
                    self._pump(tls, server)
            except (ssl.SSLError, OSError) as error:
                self.failures.append(str(error))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an authority, of a server it vouches for, and of an authority nobody knows."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    for name in ("known", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign",
                "-keyout", f"{name}.key", "-out", f"{name}.crt")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost\nauthorityKeyIdentifier=keyid\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "known.crt", "-CAkey", "known.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "server.crt")
    return folder


@pytest.fixture
def front(daemon: Daemon, certificates: Path) -> Iterator[Front]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    one = Front(daemon.port, context)
    yield one
    one.close()


def test_https_with_its_own_authority(spark: SparkSession, client: Client, queue: str, front: Front, certificates: Path) -> None:
    """Several addresses, tried in turn; the first has nobody."""
    url, ca = f"https://localhost:1,https://localhost:{front.port}", str(certificates / "known.crt")
    spark.sql("select '1' value").coalesce(1).write.format("queend").options(url=url, queue=queue, ca=ca, retryMs="1").mode("append").save()
    assert [row.value for row in spark.read.format("queend").options(url=url, subscribe=queue, ca=ca, retryMs="1").schema("value string").load().collect()] == ["1"]
    assert front.versions and data(client.pop(queue)) == [1]
    with pytest.raises(Unreachable, match='certificate.*the option "ca" names the authorities'):
        link(f"https://localhost:{front.port}", ca=certificates / "other.crt").json("/api/v1/offsets", {"queue": queue})
    with pytest.raises(Unreachable, match="after 3 attempts.*certificate"):
        link(f"https://localhost:{front.port},https://localhost:1", ca=certificates / "other.crt", retries=2, retryMs=1).json("/api/v1/offsets", {"queue": queue})


def test_a_batch_of_what_retention_took(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, *range(4))
    client.push(queue, *range(4, 10))
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:    # as retention does it
        connection.execute("""INSERT INTO queend.floors SELECT p.id, 4 FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s
                              ON CONFLICT (partition_id) DO UPDATE SET floor = 4""", (queue,))

    def read(**options: str) -> list[int]:
        frame = spark.read.format("queend").options(url=daemon.url, subscribe=queue, **options).schema("value string").load()
        return [int(row.value) for row in frame.collect()]

    assert read() == list(range(4, 10))
    where = json.dumps({queue: {"Default": 2}})
    with pytest.raises(Exception, match="DataLost.*starting offset 2 is not there, the log has 4 to 10; with failOnDataLoss=false"):
        read(startingOffsets=where)
    assert read(startingOffsets=where, failOnDataLoss="false") == list(range(4, 10))
