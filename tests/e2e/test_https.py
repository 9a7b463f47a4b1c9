"""TLS as its users meet it: a daemon with a certificate, and clients that know nothing of us."""
from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority, Pair, readable, settings_of, trusting
from support.cli import Cli
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.feed import Feed, stream_target
from support.forked import PACKAGE
from support.http import request, secure_ports
from support.records import Records
from support.socket_feed import SocketFeed, handshake
from support.tokens import SECRET, bearer, token
from support.wait import until

from queend.client import Client as Queend

STRONG = {f"ECDHE-{key}-{cipher}" for key in ("ECDSA", "RSA") for cipher in (
    "AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(readable(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the daemon does not know."""
    return Authority(readable(tmp_path_factory.mktemp("strangers")), "strangers")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.server()


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon], authority: Authority, server: Pair) -> Iterator[Daemon]:
    """Asks clients for a certificate, but requires none."""
    daemon = start_daemon(**settings_of(server, QUEEND_TLS_CLIENT_CA=authority.file))
    secure_ports[daemon.port] = trusting(authority)      # for the clients of the tests
    yield daemon
    del secure_ports[daemon.port]


def https(daemon: Daemon, context: ssl.SSLContext) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("127.0.0.1", daemon.port, context=context, timeout=60)


def call(connection: http.client.HTTPSConnection, method: str, target: str, body: Any = None,
         **headers: str) -> tuple[int, Any]:
    connection.request(method, target, None if body is None else json.dumps(body),
                       {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text else None


def openssl(daemon: Daemon, *options: object, asked: bytes = b"") -> str:
    """What OpenSSL's own client tells of a handshake, and of the answer to what is asked."""
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{daemon.port}", *map(str, options)],
                          input=asked, capture_output=True, timeout=60)
    return (done.stdout + done.stderr).decode(errors="replace")


# -- clients that know nothing of us -----------------------------------------------------------------------------------

def test_a_client_of_the_standard_library(daemon: Daemon, authority: Authority, queue: str) -> None:
    connection = https(daemon, trusting(authority))
    assert call(connection, "POST", "/api/v1/push", {"items": [{"queue": queue, "payload": 1}]})[0] == 201
    wire = connection.sock
    status, popped = call(connection, "GET", pop_target(queue, wait=True))
    (message,) = popped["messages"]
    assert (status, message["data"]) == (200, 1)
    assert call(connection, "POST", "/api/v1/ack", ack_of(message))[1][0]["success"]
    assert connection.sock is wire
    connection.close()


@pytest.mark.parametrize("version", ["--tlsv1.2 --tls-max 1.2", "--tlsv1.3"])
def test_curl(daemon: Daemon, authority: Authority, queue: str, version: str) -> None:
    done = subprocess.run(["curl", "--silent", "--show-error", "--cacert", authority.file, *version.split(),
                           "--write-out", " %{http_code} %{ssl_verify_result}", f"{daemon.url}/livez",
                           f"{daemon.url}/readyz"], capture_output=True, text=True, timeout=60)
    assert re.fullmatch(r'(\{.*?\} 200 0){2}', done.stdout.replace("\n", "")), done


def test_the_command_line(daemon: Daemon, authority: Authority, tmp_path: Path) -> None:
    cli = Cli(daemon.url, tmp_path)
    cli.ok("status", "--ca", str(authority.file))
    cli.ok("status", SSL_CERT_FILE=str(authority.file))
    done = cli("status")
    assert done.status == 6 and "is not trusted" in done.err and "--ca" in done.err
    done = cli("status", "--url", daemon.url.replace("https", "http"))
    assert done.status == 1 and "This port speaks TLS; use an https:// URL" in done.err


@pytest.mark.parametrize("names, days, hint", [
    (["queue.example"], (-1, 90), "use a name of the certificate in the URL"),
    (["127.0.0.1"], (-9, -1), "the server needs another certificate")], ids=["other_name", "expired"])
def test_the_command_line_says_why_a_certificate_is_refused(start_daemon: Callable[..., Daemon], authority: Authority,
                                                            tmp_path: Path, names: list[str],
                                                            days: tuple[float, float], hint: str) -> None:
    daemon = start_daemon(**settings_of(authority.server("refused", names, days=days)))
    done = Cli(daemon.url, tmp_path)("status", "--ca", str(authority.file))
    assert done.status == 6 and "is not trusted" in done.err and hint in done.err and "--ca" not in done.err, done


def test_the_command_line_with_a_certificate(start_daemon: Callable[..., Daemon], authority: Authority, server: Pair,
                                             tmp_path: Path) -> None:
    daemon = start_daemon(**settings_of(server, QUEEND_TLS_CLIENT_CA=authority.file,
                                        QUEEND_TLS_CLIENT_REQUIRED="true"))
    cli, own = Cli(daemon.url, tmp_path), authority.client("admin", stem="admin")
    both = tmp_path / "admin.pem"
    both.write_bytes(own.cert.read_bytes() + own.key.read_bytes())
    cli.ok("status", "--ca", str(authority.file), "--cert", str(both))
    done = cli("status", "--ca", str(authority.file))
    assert done.status == 6 and "--cert" in done.err, done
    done = cli("status", "--ca", str(authority.file), "--cert", "/no/such.pem")
    assert done.status == 2 and "/no/such.pem" in done.err


@pytest.mark.parametrize("before", [False, True], ids=["behind_the_command", "before_the_command"])
def test_a_context_saves_the_certificate_of_its_client(start_daemon: Callable[..., Daemon], authority: Authority,
                                                       server: Pair, tmp_path: Path, before: bool) -> None:
    """The certificate of another saved server, or of `--url`, is not shown. `--cert` wins over the saved one."""
    daemon = start_daemon(**settings_of(server, QUEEND_TLS_CLIENT_CA=authority.file,
                                        QUEEND_TLS_CLIENT_REQUIRED="true"))
    cli, own = Cli(None, tmp_path), authority.client("admin", stem="saved")
    both = tmp_path / "admin.pem"
    both.write_bytes(own.cert.read_bytes() + own.key.read_bytes())
    options = ["--ca", os.path.relpath(authority.file), "--cert", os.path.relpath(both)]
    words = ["context", "add", "secure", daemon.url]
    cli.ok(*(options + words if before else words + options))
    cli.ok("status")
    cli.ok("context", "add", "bare", daemon.url, "--ca", str(authority.file))
    for done in (cli("status", "--context", "bare"), cli("status", "--url", daemon.url, "--ca", str(authority.file))):
        assert done.status == 6 and "requires a certificate" in done.err, done
    done = cli("status", "--cert", "/no/such.pem")
    assert done.status == 2 and "/no/such.pem" in done.err


@pytest.mark.parametrize("required", ["false", "true"])
def test_the_health_check_of_a_container(start_daemon: Callable[..., Daemon], authority: Authority, server: Pair,
                                         tmp_path: Path, required: str) -> None:
    """It reads the settings where the daemon does."""
    daemon = start_daemon(**settings_of(server, QUEEND_TLS_CLIENT_CA=authority.file,
                                        QUEEND_TLS_CLIENT_REQUIRED=required))
    (tmp_path / "queend_tls_cert").write_text(str(server.cert))
    (tmp_path / "queend_tls_key").write_text(str(server.key))
    (tmp_path / "queend_tls_client_ca").write_text(str(authority.file))

    def status(port: int) -> int:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "PORT": str(port),
                       "CREDENTIALS_DIRECTORY": str(tmp_path)}
        return subprocess.run([sys.executable, "-m", "queend.daemon.alive"], env=environment, capture_output=True,
                              timeout=60).returncode

    assert status(daemon.port) == 0
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert status(port) == 1


def test_peers_with_certificates(start_daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    """A peer without a scheme is reached as this daemon is. Each shows its own certificate to the others."""
    authority = Authority(readable(tmp_path))
    pair = authority.server()
    more = {"QUEEND_TLS_CLIENT_CA": authority.file, "QUEEND_TLS_CLIENT_REQUIRED": "true",
            "SSL_CERT_FILE": authority.file}
    other = start_daemon(**settings_of(pair, **more))
    daemon = start_daemon(**settings_of(pair, **more, QUEEN_PEERS=f"localhost:{other.port}"))
    context = trusting(authority, authority.client("admin", stem="admin"))
    queue = "of-peers"
    assert call(https(daemon, context), "POST", "/api/v1/push", {"items": [{"queue": queue, "payload": 1}]})[0] == 201
    until(lambda: posts(daemon, context) > 0, "the peer is told")


def posts(daemon: Daemon, context: ssl.SSLContext) -> int:
    connection = https(daemon, context)
    connection.request("GET", "/metrics/prometheus")
    text = connection.getresponse().read().decode()
    connection.close()
    return sum(int(float(one)) for one in re.findall(r'queen_transport_messages_total\{dir="sent"\} (\S+)', text))


def test_the_python_client(daemon: Daemon, authority: Authority, queue: str) -> None:
    with Queend(daemon.url, tls=trusting(authority)) as client:
        client.push(queue, {"n": 1})
        assert [message.data for message in client.pop(queue, wait=10)] == [{"n": 1}]


@pytest.mark.parametrize("size", [10 << 20])
def test_large_messages(client: Client, queue: str, size: int) -> None:
    text = os.urandom(size // 2).hex()
    client.push(queue, text)
    client.push(queue, "after")
    assert data(client.pop(queue, autoAck=True)) == [text]
    assert data(client.pop(queue, autoAck=True)) == ["after"]


def test_streams(daemon: Daemon, client: Client, queue: str) -> None:
    with (Feed(daemon.address, queue, consumerGroup="a", autoAck=True, subscriptionMode="all") as events,
          SocketFeed(daemon.address, queue) as stream):
        for n in (1, 2):
            client.push(queue, n, "x" * 100_000)
            assert [events.expected("message").json["data"] for _ in range(2)] == [n, "x" * 100_000]
            messages = stream.messages(2)
            assert data(messages) == [n, "x" * 100_000]
            assert all(stream.ack(message)["success"] for message in messages)


def test_what_a_client_does_not_read_stays_with_the_group(client: Client, daemon: Daemon, authority: Authority,
                                                          queue: str) -> None:
    number = 40
    client.push(queue, *(str(n).ljust(100_000) for n in range(number)))
    before = client.metric("queend_worker_streamed_total")
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(daemon.address)
        with trusting(authority).wrap_socket(plain, server_hostname="localhost") as unread:
            unread.sendall(request("GET", stream_target(queue, consumerGroup="g", subscriptionMode="all", autoAck=True,
                                                        batch=1)))
            until(lambda: client.metric("queend_worker_streamed_total") > before, "it is served")
            rest = client.pop(queue, consumerGroup="g", batch=number, wait=True, timeout=100_000)
    assert number - 5 <= len(rest) < number


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("kind", ["events", "socket", "poll", "last poll"])
def test_a_client_that_ends_its_session_ends_what_it_waits_for(client: Client, daemon: Daemon, authority: Authority,
                                                               queue: str, kind: str, version: ssl.TLSVersion) -> None:
    """By close_notify alone: the connection stays open. What is pushed then is for others."""
    asked, what, end = {
        "events": (request("GET", stream_target(queue, subscriptionMode="all")), "streams", b'{"reason":"closed"}'),
        "socket": (handshake(queue)[0], "streams", b"closed"),
        "poll": (request("GET", pop_target(queue, wait=True, timeout=100_000)), "parked", b""),
        "last poll": (request("GET", pop_target(queue, wait=True, timeout=100_000), headers={"Connection": "close"}),
                      "parked", b"")}[kind]
    client.push(queue, 0)
    assert data(client.pop(queue, autoAck=True)) == [0]
    before = client.metric(f"queend_worker_{what}")
    with Records(daemon.port, trusting(authority, maximum_version=version)).shake() as one:
        one.send(asked)
        one.socket.settimeout(60)      # a poll would end by itself after 100 s
        until(lambda: client.metric(f"queend_worker_{what}") > before, "it waits")
        found = one.farewell().ends()
        assert end in found and b"HTTP/1.1 " in found, found
        client.push(queue, 1)
        assert data(client.pop(queue)) == [1]
    assert client.metric(f"queend_worker_{what}") == before


def test_an_event_stream_whose_client_owes_the_rest_of_a_record(client: Client, daemon: Daemon, authority: Authority,
                                                                queue: str) -> None:
    """It holds memory for it, without a time."""
    before = client.metric("queend_worker_streams")
    with Records(daemon.port, trusting(authority)).shake() as one:
        one.send(request("GET", stream_target(queue, heartbeat=1)))
        until(lambda: client.metric("queend_worker_streams") > before, "it is served")
        one.tls.write(b"x" * 100)
        one.socket.sendall(one.sealed.read()[:50])
        until(lambda: client.metric("queend_worker_streams") == before, "it ends")


def test_the_metrics_count_handshakes(client: Client, daemon: Daemon) -> None:
    before, failed = (client.metric(f"queend_worker_tls_{name}_total") for name in ("handshakes", "failed"))
    with socket.create_connection(daemon.address) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert plain.recv(100).startswith(b"HTTP/1.1 400")
    with daemon.client() as other:
        other.get("/livez")
        assert client.metric("queend_worker_tls_handshakes_total") == before + 1
    assert client.metric("queend_worker_tls_failed_total") == failed + 1
    assert "failed handshakes since the last such line" in daemon.told("tls_handshake_failed")["detail"]


# -- protocols and ciphers, by OpenSSL's own tools ---------------------------------------------------------------------

@pytest.mark.parametrize("option, version", [
    ("-tls1", ""), ("-tls1_1", ""), ("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")])
def test_protocols(daemon: Daemon, authority: Authority, option: str, version: str) -> None:
    said = openssl(daemon, option, "-cipher", "ALL:@SECLEVEL=0", "-CAfile", authority.file)
    assert ("Verify return code: 0 (ok)" in said and f"New, {version}" in said) if version else (
        "alert protocol version" in said), said


def test_cipher_suites_of_tls_1_2(start_daemon: Callable[..., Daemon], authority: Authority) -> None:
    """Every suite that OpenSSL knows is offered alone: to a key of elliptic curves, and to one of RSA."""
    known = subprocess.run(["openssl", "ciphers", "-s", "-tls1_2", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"],
                           capture_output=True, text=True, check=True).stdout.strip().split(":")
    known = [one for one in known if not one.startswith("TLS_")]
    assert STRONG < set(known) and len(known) > 50
    for kind, bits in (("ECDSA", 0), ("RSA", 2048)):
        daemon = start_daemon(**settings_of(authority.server(f"server-{kind}", rsa_bits=bits)))
        assert {one for one in known if takes(daemon, authority, one)} == {one for one in STRONG if kind in one}


def takes(daemon: Daemon, authority: Authority, suite: str) -> bool:
    context = trusting(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers(f"{suite}:@SECLEVEL=0")
    with socket.create_connection(daemon.address) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as one:
                return one.cipher()[0] == suite      # type: ignore[index]
        except ssl.SSLError as error:
            assert error.reason in ("SSLV3_ALERT_HANDSHAKE_FAILURE", "NO_CIPHERS_AVAILABLE"), (suite, error)
            return False


def test_compression_is_not_chosen(daemon: Daemon, authority: Authority) -> None:
    """The client prefers DEFLATE. An OpenSSL that was built without it cannot choose it in any case."""
    with Records(daemon.port, trusting(authority, maximum_version=ssl.TLSVersion.TLSv1_2)) as client:
        hello = client.hello()
        at = 5 + 4 + 2 + 32                      # the headers, the version, the random number
        at += 1 + hello[at]                      # the session's id
        at += 2 + int.from_bytes(hello[at:at + 2], "big")
        assert hello[at:at + 2] == b"\1\0"
        body = hello[9:at] + b"\2\1\0" + hello[at + 2:]
        message = b"\1" + len(body).to_bytes(3, "big") + body
        client.socket.sendall(hello[:3] + len(message).to_bytes(2, "big") + message)
        answer = client.socket.recv(1 << 16)
        assert answer[0] == 22 and answer[5] == 2          # ServerHello
        at = 5 + 4 + 2 + 32
        at += 1 + answer[at] + 2
        assert answer[at] == 0


SHOWN = {
    "-tls1_2": ["New, TLSv1.2, Cipher is ECDHE-ECDSA-AES", "Server Temp Key: X25519, 253 bits", "Compression: NONE",
                "Secure Renegotiation IS supported", "ALPN protocol: http/1.1", "Extended master secret: yes",
                "TLS session ticket lifetime hint: 7200 (seconds)", "Verify return code: 0 (ok)"],
    "-tls1_3": ["New, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384", "Server Temp Key: X25519, 253 bits",
                "Compression: NONE", "ALPN protocol: http/1.1", "Early data was not sent",
                "Post-Handshake New Session Ticket arrived", "TLS session ticket lifetime hint: 7200 (seconds)",
                "Max Early Data: 0", "Verify return code: 0 (ok)"]}


@pytest.mark.parametrize("version", SHOWN)
@pytest.mark.parametrize("asks", [False, True], ids=["", "with authorities of clients"])
def test_what_openssl_shows(start_daemon: Callable[..., Daemon], authority: Authority, server: Pair, version: str,
                            asks: bool) -> None:
    """The list of docs/production.md. Where certificates of clients are asked for, there are no tickets."""
    more = {"QUEEND_TLS_CLIENT_CA": authority.file} if asks else {}
    daemon = start_daemon(**settings_of(server, **more))
    said = openssl(daemon, version, "-CAfile", authority.file, "-alpn", "h2,http/1.1", "-groups", "X25519:P-256",
                   "-ign_eof", asked=request("GET", "/livez", headers={"Connection": "close"}))
    for line in SHOWN[version]:
        assert (line in said) == (not asks or "icket" not in line and "Early Data" not in line), (line, said)
    assert "200 OK" in said
    assert ("No client certificate CA names sent" in said) != asks


def test_no_weak_groups(daemon: Daemon, authority: Authority) -> None:
    for group in ("ffdhe2048", "ffdhe8192", "P-521"):
        assert "alert handshake failure" in openssl(daemon, "-tls1_3", "-groups", group)
    for group in ("X25519", "P-256", "P-384"):
        assert "Verify return code: 0 (ok)" in openssl(daemon, "-tls1_3", "-groups", group, "-CAfile", authority.file)


def test_the_chain_is_sent(start_daemon: Callable[..., Daemon], authority: Authority, tmp_path: Path) -> None:
    between = authority.between("between", readable(tmp_path))
    said = openssl(start_daemon(**settings_of(between.server())), "-CAfile", authority.file, "-showcerts")
    assert said.count("BEGIN CERTIFICATE") == 2 and "Verify return code: 0 (ok)" in said


# -- certificates of clients -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("common, names, subject", [
    ("orders", [], "orders"),
    ("orders", ["orders@example.org"], "orders@example.org"),
    ("orders", ["orders@example.org", "orders.example.org"], "orders.example.org"),
    ("orders", ["orders.example.org", "spiffe://example.org/orders", "spiffe://example.org/2"],
     "spiffe://example.org/orders"),
    ("Bestellungen für Köln", [], "Bestellungen für Köln"), ("", ["127.0.0.1"], None), ("a\tb", [], None)])
def test_a_certificate_names_the_producer(daemon: Daemon, authority: Authority, queue: str, common: str,
                                          names: list[str], subject: str | None) -> None:
    connection = https(daemon, trusting(authority, authority.client(common, names)))
    items = [{"queue": queue, "payload": n} for n in range(2)]
    assert call(connection, "POST", "/api/v1/push", {"items": items})[0] == 201
    operation = {"type": "push", "items": [{"queue": queue, "payload": 2}]}
    assert call(connection, "POST", "/api/v1/transaction", {"operations": [operation]})[1]["success"]
    popped = call(connection, "GET", pop_target(queue, batch=9, autoAck=True))[1]
    assert [one.get("producerSub") for one in popped["messages"]] == [subject] * 3
    connection.close()


def test_idempotency_keys_are_those_of_the_name(daemon: Daemon, authority: Authority, queue: str) -> None:
    body = json.dumps({"items": [{"queue": queue, "payload": 1}]})
    replayed = []
    for common in ("one", "two", "one"):
        connection = https(daemon, trusting(authority, authority.client(common, stem=common)))
        connection.request("POST", "/api/v1/push", body, {"Content-Type": "application/json", "Idempotency-Key": "k"})
        answer = connection.getresponse()
        assert answer.status == 201
        replayed.append(answer.headers.get("Idempotency-Replayed") is not None)
        connection.close()
    assert replayed == [False, False, True]


def test_a_client_without_a_certificate_has_no_name(client: Client, queue: str) -> None:
    client.push(queue, 1)
    assert client.pop(queue)[0].get("producerSub") is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_does_not_outlive_the_certificate_of_its_client(daemon: Daemon, authority: Authority,
                                                                  version: ssl.TLSVersion) -> None:
    """A resumed session would not look at it again."""
    ends = time.monotonic() + 3
    own = authority.client("brief", days=(-1, 3 / 86400), stem=f"brief-{version}")
    context = trusting(authority, own, minimum_version=version, maximum_version=version)
    with Records(daemon.port, context).shake() as first:
        first.send(request("GET", "/livez"))
        assert first.read(12) == b"HTTP/1.1 200"
        session = first.tls.session
    time.sleep(max(0.0, ends - time.monotonic()) + 1.5)
    with pytest.raises(ssl.SSLError, match="(?i)certificate expired"):
        Records(daemon.port, context, session).shake().send(request("GET", "/livez")).read(1)


def test_an_authority_need_not_be_a_root(start_daemon: Callable[..., Daemon], authority: Authority, server: Pair,
                                         tmp_path: Path) -> None:
    between = authority.between("clients", readable(tmp_path))
    own = between.client("orders")
    alone = between.folder / "alone.pem"
    alone.write_bytes(between.file.read_bytes())
    daemon = start_daemon(**settings_of(server, QUEEND_TLS_CLIENT_CA=alone, QUEEND_TLS_CLIENT_REQUIRED="true"))
    assert call(https(daemon, trusting(authority, own)), "GET", "/livez")[0] == 200
    other = authority.client("stranger", stem="stranger")
    with pytest.raises(ssl.SSLError, match="(?i)unknown ca"):
        call(https(daemon, trusting(authority, other)), "GET", "/livez")


def test_wrong_certificates_of_clients(daemon: Daemon, authority: Authority, strangers: Authority) -> None:
    for own, reason in ((strangers.client("mallory"), "unknown ca"),
                        (authority.client("late", days=(-9, -1), stem="late"), "certificate expired")):
        context = trusting(authority, own, maximum_version=ssl.TLSVersion.TLSv1_2)
        with pytest.raises(ssl.SSLError, match=f"(?i){reason}"):
            call(https(daemon, context), "GET", "/livez")
        context = trusting(authority, own)      # in TLS 1.3 the client learns of it when it reads
        with pytest.raises(ssl.SSLError, match=f"(?i){reason}"):
            call(https(daemon, context), "GET", "/livez")


def test_a_required_certificate(start_daemon: Callable[..., Daemon], authority: Authority, server: Pair) -> None:
    daemon = start_daemon(**settings_of(server, QUEEND_TLS_CLIENT_CA=authority.file,
                                        QUEEND_TLS_CLIENT_REQUIRED="true"))
    with pytest.raises(ssl.SSLError, match="(?i)certificate required"):
        call(https(daemon, trusting(authority)), "GET", "/livez")
    assert call(https(daemon, trusting(authority, authority.client("orders"))), "GET", "/livez")[0] == 200


def test_a_token_names_the_producer_before_a_certificate(start_daemon: Callable[..., Daemon], authority: Authority,
                                                         server: Pair) -> None:
    daemon = start_daemon(**settings_of(server, QUEEND_TLS_CLIENT_CA=authority.file, JWT_ENABLED="true",
                                        JWT_SECRET=SECRET))
    connection = https(daemon, trusting(authority, authority.client("orders")))
    assert call(connection, "POST", "/api/v1/push", {"items": [{"queue": "q", "payload": 1}]})[0] == 401
    told = bearer(token(role="admin", sub="someone"))
    assert call(connection, "POST", "/api/v1/push", {"items": [{"queue": "q", "payload": 1}]}, **told)[0] == 201
    assert call(connection, "GET", pop_target("q"), **told)[1]["messages"][0]["producerSub"] == "someone"


# -- new certificates --------------------------------------------------------------------------------------------------

def serial(daemon: Daemon, authority: Authority) -> int:
    with trusting(authority).wrap_socket(socket.create_connection(daemon.address), server_hostname="localhost") as one:
        return int(one.getpeercert()["serialNumber"], 16)      # type: ignore[index,arg-type]


def again(daemon: Daemon, event: str) -> str:
    daemon.process.send_signal(signal.SIGHUP)
    return daemon.await_event(event).get("detail", "")


def test_sighup_reads_the_files_again(start_daemon: Callable[..., Daemon], authority: Authority, queue: str) -> None:
    pair = authority.server("renewed")
    daemon = start_daemon(**settings_of(pair))
    old = https(daemon, trusting(authority))
    assert call(old, "POST", "/api/v1/push", {"items": [{"queue": queue, "payload": 1}]})[0] == 201
    wire = old.sock
    waits = https(daemon, trusting(authority))
    waits.request("GET", pop_target(f"{queue}2", wait=True, timeout=60000))
    renewed = authority.server("renewed")
    assert serial(daemon, authority) == pair.made.serial_number
    assert again(daemon, "reloaded") == ""
    assert serial(daemon, authority) == renewed.made.serial_number
    assert call(old, "POST", "/api/v1/push", {"items": [{"queue": f"{queue}2", "payload": 1}]})[0] == 201
    assert waits.getresponse().status == 200
    assert old.sock is wire

    renewed.key.write_bytes(authority.pair.key.read_bytes())
    assert "QUEEND_TLS_KEY" in again(daemon, "reload_refused")
    assert serial(daemon, authority) == renewed.made.serial_number
    renewed.cert.unlink()
    assert f"QUEEND_TLS_CERT: {renewed.cert}: No such file or directory" in again(daemon, "reload_refused")
    assert serial(daemon, authority) == renewed.made.serial_number
    assert call(old, "GET", "/livez")[0] == 200

    late = authority.server("renewed", days=(-9, -1))
    assert str(late.cert) in again(daemon, "certificate_trouble")
    daemon.await_event("reloaded")
    said = openssl(daemon, "-CAfile", authority.file)
    assert "certificate has expired" in said


def test_a_reload_in_the_middle_of_handshakes(start_daemon: Callable[..., Daemon], authority: Authority) -> None:
    """With a broken file, and with a new one: a handshake goes on with the certificate it began with."""
    pair = authority.server("middle")
    daemon = start_daemon(**settings_of(pair))

    def begun() -> list[Records]:
        made = [Records(daemon.port, trusting(authority)) for _ in range(20)]
        for one in made:
            one.socket.sendall(one.hello())
        return made

    clients = begun()
    pair.cert.write_bytes(pair.cert.read_bytes()[:200])
    assert "QUEEND_TLS_CERT" in again(daemon, "reload_refused")
    clients += begun()
    for one in clients:
        one.receive_some()      # so it has begun
    renewed = authority.server("middle")
    again(daemon, "reloaded")
    for one in clients:
        assert one.shake().send(request("GET", "/livez")).read(12) == b"HTTP/1.1 200"
        shown = int(one.tls.getpeercert()["serialNumber"], 16)      # type: ignore[index,arg-type]
        assert shown == pair.made.serial_number
        one.socket.close()
    assert serial(daemon, authority) == renewed.made.serial_number


def test_a_certificate_that_ends_soon_is_told(start_daemon: Callable[..., Daemon], authority: Authority) -> None:
    daemon = start_daemon(**settings_of(authority.server("soon", days=(-80, 3))))
    assert "it expires at" in daemon.told("certificate_trouble")["detail"]
    assert call(https(daemon, trusting(authority)), "GET", "/livez")[0] == 200


def test_the_metrics_tell_when_the_certificate_expires(client: Client) -> None:
    assert 89 * 86400 < client.metric("queend_certificate_expires_seconds") < 90 * 86400


def test_a_file_that_is_not_usable_stops_the_start_and_no_other_command(tmp_path: Path, authority: Authority,
                                                                        server: Pair) -> None:
    cli = Cli("http://127.0.0.1:1", tmp_path)
    settings = {name: str(value) for name, value in settings_of(server, QUEEND_TLS_KEY="/no/such.key").items()}
    cli.ok("config", "--changed", **settings)
    done = cli("serve", **settings, PORT="0", QUEEND_DATA_DIR=str(tmp_path / "data"))
    assert done.status == 1 and "QUEEND_TLS_KEY: /no/such.key: No such file or directory" in done.err


def test_a_new_context_resumes_no_sessions(start_daemon: Callable[..., Daemon], authority: Authority,
                                           server: Pair) -> None:
    """So the keys of tickets live at most for a day (test_certificates)."""
    daemon = start_daemon(**settings_of(server))
    context = trusting(authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    with Records(daemon.port, context).shake() as first:
        session = first.tls.session
    with Records(daemon.port, context, session).shake() as second:
        assert second.tls.session_reused
    again(daemon, "reloaded")
    with Records(daemon.port, context, session).shake() as third:
        assert not third.tls.session_reused


def test_the_address_in_the_log(daemon: Daemon) -> None:
    assert daemon.told("ready")["detail"] == f"https://127.0.0.1:{daemon.port}"


# -- descriptors -------------------------------------------------------------------------------------------------------

def test_clients_that_leave_during_the_handshake(daemon: Daemon, authority: Authority, client: Client) -> None:
    assert client.get("/livez").status == 200
    before = client.metric("queend_worker_connections")
    files = daemon.descriptors()
    for n in range(300):
        with Records(daemon.port, trusting(authority)) as one:
            one.socket.sendall(one.hello()[:100 if n % 2 else 1000])
    until(lambda: client.metric("queend_worker_connections") == before, "they are gone")
    until(lambda: daemon.descriptors() <= files, "so are their sockets")  # a job has one of its own now and then
