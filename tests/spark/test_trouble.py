"""What goes wrong around a frame that is read or written: daemons that are full, certificates, what retention took."""
from __future__ import annotations

import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from support.certificates import Authority, readable, settings_of
from support.cli import Cli
from support.client import Client, data
from support.daemon import Daemon
from support.log import heads, stored
from support.ports import free_port
from support.proxy import TlsFront
from support.wait import until

from queend.spark.link import Link, Unreachable, reach
from queend.spark.plan import DataLost, Range
from queend.spark.records import Columns, Records, usual
from queend.spark.settings import LinkSettings, OptionError, Options
from queend.spark.wanted import SourceSettings


def link(urls: str, **options: object) -> Link:
    return Link(LinkSettings.of(Options({"url": urls, **{name: str(value) for name, value in options.items()}})))


def test_a_daemon_that_is_full_is_asked_when_it_said(start_daemon: Callable[..., Daemon], queue: str) -> None:
    full = start_daemon(QUEEND_MAX_CONNECTIONS=1)
    # two names: to see that it went on
    one = link(f"http://127.0.0.1:{full.port},http://localhost:{full.port}", retries=2, retryMs=1)
    answers: list[object] = []
    began = time.monotonic()
    with full.client() as holder:
        assert holder.get("/livez").status == 200
        before = one.turn
        item = {"queue": queue, "payload": 1}
        asked = threading.Thread(target=lambda: answers.append(one.json("/api/v1/push", {"items": [item]})))
        asked.start()
        until(lambda: one.turn > before, "the daemon refuses")
    asked.join(60)
    one.close()
    assert [item["status"] for item in answers[0]] == ["queued"]
    assert time.monotonic() - began >= 5     # the Retry-After of a daemon that has no room for a connection


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an authority, of a server it vouches for, and of an authority nobody knows."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    for name in ("known", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
                "keyUsage=critical,keyCertSign",
                "-keyout", f"{name}.key", "-out", f"{name}.crt")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key", "-out",
            "server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost\nauthorityKeyIdentifier=keyid\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "known.crt", "-CAkey", "known.key", "-CAcreateserial", "-days",
            "2", "-extfile", "names", "-out", "server.crt")
    return folder


@pytest.fixture
def front(daemon: Daemon, certificates: Path) -> Iterator[TlsFront]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    one = TlsFront(daemon.port, context)
    yield one
    one.close()


def test_https_with_its_own_authority(spark: SparkSession, client: Client, queue: str, front: TlsFront,
                                      certificates: Path) -> None:
    """Several addresses, tried in turn; the first has nobody."""
    url, ca = f"https://localhost:1,https://localhost:{front.port}", str(certificates / "known.crt")
    frame, options = spark.sql("select '1' value").coalesce(1), {"url": url, "ca": ca, "retryMs": "1"}
    frame.write.format("queend").options(queue=queue, **options).mode("append").save()
    read = spark.read.format("queend").options(subscribe=queue, **options).schema("value string").load()
    assert [row.value for row in read.collect()] == ["1"]
    assert front.versions and data(client.pop(queue)) == [1]
    with pytest.raises(Unreachable, match='certificate.*the option "ca" names the authorities'):
        link(f"https://localhost:{front.port}", ca=certificates / "other.crt").json("/api/v1/offsets", {"queue": queue})
    with pytest.raises(Unreachable, match="(?=.*localhost:1: .*refused)given up after 3 attempts.*certificate"):
        link(f"https://localhost:{front.port},https://localhost:1", ca=certificates / "other.crt", retries=2,
             retryMs=1).json("/api/v1/offsets", {"queue": queue})


def test_a_daemon_that_requires_certificates(spark: SparkSession, start_daemon: Callable[..., Daemon], queue: str,
                                             tmp_path: Path) -> None:
    """The certificate travels with the tasks; its file is only on the driver."""
    authority = Authority(readable(tmp_path))
    own = start_daemon(**settings_of(authority.server(), QUEEND_TLS_CLIENT_CA=authority.file,
                                     QUEEND_TLS_CLIENT_REQUIRED="true"))
    pair = authority.client("spark")
    both = tmp_path / "both.pem"
    both.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    known = {"url": f"https://localhost:{own.port}", "ca": str(authority.file)}
    frame = spark.sql("select '1' value").coalesce(1)
    frame.write.format("queend").options(queue=queue, cert=str(both), **known).mode("append").save()
    for one in (pair.cert, pair.key):      # without an end of line, as mounted secrets often are
        one.write_bytes(one.read_bytes().rstrip())
    read = spark.read.format("queend").options(subscribe=queue, cert=str(pair.cert), key=str(pair.key), **known)
    assert [row.value for row in read.schema("value string").load().collect()] == ["1"]

    ca = str(authority.file)
    with pytest.raises(Unreachable, match='requires a certificate of its clients: the option "cert" names'):
        link(known["url"], ca=ca).json("/api/v1/offsets", {"queue": queue})
    with pytest.raises(Unreachable, match='no daemon answers.*it requires a certificate of its clients: the option "c'):
        reach(link(known["url"], ca=ca, retryTimeoutMs=0).settings)
    with pytest.raises(OptionError, match='"key" requires the option "cert"'):
        link(known["url"], ca=ca, key=pair.key)
    empty, binary = tmp_path / "empty.pem", tmp_path / "binary.der"
    empty.touch()
    binary.write_bytes(b"\x30\x82\xff\xfe")
    for cert, key in ((pair.cert, None), (pair.key, None), (pair.cert, authority.pair.key), ("/no/such.pem", None),
                      (pair.cert, pair.encrypted_key(b"secret")), (empty, None), (pair.cert, binary)):
        with pytest.raises(OptionError, match='"cert" must be a file with a certificate in PEM format'):
            link(known["url"], ca=ca, cert=cert, **({"key": key} if key else {}))
    settings = link(known["url"], ca=ca, cert=both, token="hidden").settings
    assert "PRIVATE KEY" in (settings.own or "")
    assert "PRIVATE KEY" not in repr(settings) and "hidden" not in repr(settings)


def test_a_job_refuses_a_certificate_that_is_not_usable(tmp_path: Path) -> None:
    """Before Spark starts."""
    done = Cli("https://localhost:1", tmp_path)("spark", "archive", "orders", str(tmp_path), "--cert", "/no/such.pem")
    assert done.status == 1 and 'option "cert" must be a file' in done.err and "/no/such.pem" in done.err, done


def test_a_batch_of_what_retention_took(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, *range(4))
    client.push(queue, *range(4, 10))
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:    # as retention does it
        connection.execute("""INSERT INTO queend.floors
                           SELECT p.id, 4 FROM queend.partitions p
                           JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s
                              ON CONFLICT (partition_id) DO UPDATE SET floor = 4""", (queue,))

    def read(**options: str) -> list[int]:
        frame = spark.read.format("queend").options(url=daemon.url, subscribe=queue,
                                                    **options).schema("value string").load()
        return [int(row.value) for row in frame.collect()]

    assert read() == list(range(4, 10))
    where = json.dumps({queue: {"Default": 2}})
    with pytest.raises(Exception, match="DataLost.*starting offset 2 is not there, the log has 4 to 10; with "
                                        "failOnDataLoss=false"):
        read(startingOffsets=where)
    assert read(startingOffsets=where, failOnDataLoss="false") == list(range(4, 10))


def test_a_daemon_that_is_away_is_awaited(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """By time, not by count: how many attempts a restart takes depends on the machine."""
    own = start_daemon(PORT=free_port())
    one, answers = link(own.url, retryMs=1), []
    own.kill()
    before = one.turn
    item = {"queue": queue, "payload": 1}
    asked = threading.Thread(target=lambda: answers.append(one.json("/api/v1/push", {"items": [item]})))
    asked.start()
    until(lambda: one.turn - before > 13, "more than a dozen attempts")
    own = start_daemon(own.conninfo, PORT=own.port)
    asked.join(60)
    one.close()
    assert [item["status"] for item in answers[0]] == ["queued"]


def test_nobody_is_asked_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Unreachable, match="given up after [0-9]+ attempts in [0-9]+ s; http://127.0.0.1:1: .*refused"):
        link("http://127.0.0.1:1", retryTimeoutMs=4000).json("/api/v1/offsets", {"queue": "none"})
    assert [one.getMessage() for one in caplog.records] == [caplog.messages[0]]
    assert "retrying for up to" in caplog.messages[0]
    with pytest.raises(Unreachable, match="given up after 1 attempt in"):
        link("http://127.0.0.1:1", retryTimeoutMs=0).json("/api/v1/offsets", {"queue": "none"})


def test_the_daemon_is_killed_in_the_middle_of_a_write(spark: SparkSession, start_daemon: Callable[..., Daemon],
                                                       queue: str) -> None:
    rows, own, seen = 40_000, start_daemon(PORT=free_port()), []

    def restart() -> None:
        with own.client() as client:
            until(lambda: sum(heads(client, queue).values()), "the first rows")
        own.kill()
        again = start_daemon(own.conninfo, PORT=own.port)
        with again.client() as client:
            seen.append(sum(heads(client, queue).values()))

    other = threading.Thread(target=restart)
    other.start()
    frame = spark.range(0, rows, 1, 2).selectExpr("concat('k', spark_partition_id()) key", "string(id) value")
    frame.write.format("queend").options(url=own.url, queue=queue, batchRows="200").mode("append").save()
    other.join(60)
    assert 0 < seen[0] < rows, "the daemon was not killed in the middle"
    with own.client() as client:
        for part in range(2):
            assert stored(client, queue, f"k{part}") == list(range(part * rows // 2, (part + 1) * rows // 2))


def test_a_log_with_a_gap_is_not_read_as_if_it_had_none(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """By hand, which no way through the daemon leads to: a row in the middle is gone, or the floor is not where one
    begins."""
    own = start_daemon()
    settings = SourceSettings.of(Options({"url": own.url, "subscribe": queue}), streaming=False)
    records = Records(settings, Columns(usual(False)), [Range(queue, "Default", 0, 9)])
    with own.client() as client, psycopg.connect(own.conninfo, autocommit=True) as connection:
        for at in (0, 3, 6):
            client.push(queue, *range(at, at + 3))
        assert sum(batch.num_rows for batch in records) == 9
        connection.execute("DELETE FROM queend.log WHERE base = 3")
        with pytest.raises(DataLost, match=f"queue '{queue}', partition 'Default'.*has a gap behind record 0"):
            list(Records(settings, records.columns, [Range(queue, "Default", 0, 9)]))
        connection.execute("INSERT INTO queend.floors SELECT partition_id, 1 FROM queend.log LIMIT 1")
        with pytest.raises(DataLost, match="has a gap behind record 1"):
            list(Records(settings, records.columns, [Range(queue, "Default", 1, 3)]))
