"""Key sets from a real https server on loopback, with a certificate of our own."""
from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.callers import Caller, told
from support.http import Wire, request
from support.socket_feed import SocketFeed
from support.tokens import bearer, ed_key, jwk, rsa_key, token
from support.wait import PATIENCE, until

from queend.auth import jwks
from queend.auth.jwks import FetchError, KeySet, body_of, fetch, public
from queend.auth.refused import Refused

ITEM = {"items": [{"queue": "q", "payload": 1}]}


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Path:
    """Of localhost, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
            "subjectAltName=DNS:localhost", "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem")
    folder.chmod(0o755)
    return folder


class Server:
    """Serves the list `keys` there is when it is asked; counts who asks."""

    def __init__(self, certificate: Path):
        self.keys: list[dict] = []
        self.body: bytes | None = None       # instead of the keys
        self.status, self.headers = 200, {}
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                keys = outer.keys
                outer.asked += 1
                outer.gate.wait(PATIENCE)
                body = outer.body if outer.body is not None else json.dumps({"keys": keys}).encode()
                try:
                    self.send_response(outer.status)
                    for name, value in {"Content-Length": str(len(body)), **outer.headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass                      # it left

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_port
        self.url = f"https://localhost:{self.port}/keys?of=us"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.gate.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def server(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    server = Server(certificate)
    yield server
    server.close()


def settings(server: Server, certificate: Path, **more: str) -> dict[str, str]:
    return {"JWT_ENABLED": "true", "JWT_ALGORITHM": "auto", "JWT_JWKS_URL": server.url,
            "QUEEND_JWT_JWKS_PRIVATE": "true", "SSL_CERT_FILE": str(certificate / "cert.pem"), **more}


def signed(kid: str | None, key: object = None, **claims: object) -> str:
    key = key or rsa_key()
    return token("EdDSA" if key in (ed_key(), ed_key("two")) else "RS256", key, {"kid": kid} if kid else {},
                 role="read-write", **claims)


def test_both_kinds_of_keys(start_daemon, server, certificate):
    server.keys = [{"kty": "EC"}, jwk(rsa_key(), "r"), jwk(ed_key(), "e", alg="EdDSA"),
                   jwk(rsa_key("five"), "r512", alg="RS512")]
    daemon = start_daemon(**settings(server, certificate))
    for text in (signed("r"), signed("e", ed_key()), signed(None), signed(None, ed_key()),
                 token("RS512", rsa_key("five"), {"kid": "r512"}, role="read-write")):
        with Caller(daemon, text) as caller:
            assert told(caller, "POST", "/api/v1/push", ITEM)[0] == 201
            assert told(caller, "GET", "/api/v1/resources/queues")[0] == 200
    for text, words in ((signed("r", rsa_key("two")), "signature"), (signed("e"), "Unknown key"),
                        (signed(None, rsa_key("five")), "signature"),
                        (token("RS256", rsa_key("five"), {"kid": "r512"}, role="read-write"), "Unknown key"),
                        (token("HS256", "x" * 40, {"kid": "r"}, role="admin"), "Unsupported algorithm")):
        with Caller(daemon, text) as caller:
            status, error = told(caller, "POST", "/api/v1/push", ITEM)
            assert status == 401 and words in error
    daemon.stop()


def test_a_new_key_is_fetched_when_it_is_first_seen(start_daemon, server, certificate):
    server.keys = [jwk(rsa_key(), "one")]
    daemon = start_daemon(**settings(server, certificate, QUEEND_JWT_JWKS_PAUSE_MS="0"))
    with Caller(daemon, signed("one")) as one, Caller(daemon, signed("two", ed_key())) as two:
        assert told(one, "POST", "/api/v1/push", ITEM)[0] == 201
        assert told(two, "POST", "/api/v1/push", ITEM) == (401, "Token verification failed: Unknown key")
        server.keys.append(jwk(ed_key(), "two"))
        assert told(two, "POST", "/api/v1/push", ITEM)[0] == 201
        # the first key goes: its tokens are verified again and found wanting, though nobody's signature has changed
        server.keys.pop(0)
        asked = server.asked
        with Caller(daemon, signed("three")) as three:
            assert told(three, "POST", "/api/v1/push", ITEM)[0] == 401
        assert server.asked > asked
        assert told(one, "POST", "/api/v1/push", ITEM) == (401, "Token verification failed: Unknown key")
        assert told(two, "POST", "/api/v1/push", ITEM)[0] == 201
    daemon.stop()


def push(text: str, queue: str, *payloads: int) -> bytes:
    items = [{"queue": queue, "partition": "p", "payload": one} for one in payloads]
    return request("POST", "/api/v1/push", json.dumps({"items": items}).encode(), bearer(text))


def test_a_push_does_not_overtake_one_whose_token_is_verified(start_daemon, server, certificate, queue):
    server.keys = [jwk(rsa_key(), "one")]
    daemon = start_daemon(**settings(server, certificate, QUEEND_JWT_JWKS_PAUSE_MS="0"))
    with Caller(daemon, signed("one")) as caller, Wire(daemon.address) as wire:
        caller.push(queue, 0, partition="p")
        server.gate.clear()
        server.keys.append(jwk(ed_key(), "two"))
        asked = server.asked
        wire.send(push(signed("two", ed_key()), queue, 1) + push(signed("one"), queue, 2))
        until(lambda: server.asked > asked, "the token of the first push is being verified")
        caller.push(queue, 0, partition="other")
        server.gate.set()
        assert [wire.receive().status for _ in range(2)] == [201, 201]
        assert [one["data"] for one in caller.pop(queue, "p", batch=3, autoAck=True)] == [0, 1, 2]
    daemon.stop()


def test_requests_behind_one_whose_token_is_not_verified_are_served(start_daemon, server, certificate, queue):
    """It is refused, because as many tokens are being verified as may be, or its client leaves."""
    server.keys = [jwk(rsa_key(), "one")]
    daemon = start_daemon(**settings(server, certificate, QUEEND_JWT_JWKS_PAUSE_MS="0", QUEEND_MAX_QUEUED_JOBS="1"))
    with Caller(daemon, signed("one")) as caller, Wire(daemon.address) as first, Wire(daemon.address) as second:
        caller.push(queue, 0, partition="p")
        server.gate.clear()
        asked = server.asked
        first.send(push(signed("two", ed_key()), queue, 1))
        until(lambda: server.asked > asked, "its token is being verified")
        second.send(push(signed("two", ed_key()), queue, 2) + push(signed("one"), queue, 3))
        answer = second.receive()
        assert (answer.status, answer.json) == (503, {"error": "The control plane is busy"})
        assert second.receive().status == 201
        second.send(push(signed("two", ed_key()), queue, 4))
        server.gate.set()
        assert first.receive().status == 401
        first.send(push(signed("one"), queue, 5))
        assert first.receive().status == 201
        assert [one["data"] for one in caller.pop(queue, "p", batch=9, autoAck=True)] == [0, 3, 5]
    daemon.stop()


def test_unknown_keys_do_not_make_it_ask_again_and_again(start_daemon, server, certificate):
    server.keys = [jwk(rsa_key(), "one")]
    daemon = start_daemon(**settings(server, certificate))
    with Caller(daemon, signed("one")) as one:
        assert told(one, "POST", "/api/v1/push", ITEM)[0] == 201
        for n in range(50):
            with Caller(daemon, signed(f"unknown-{n}")) as other:
                assert told(other, "POST", "/api/v1/push", ITEM) == (401, "Token verification failed: Unknown key")
        assert server.asked == 1
        assert told(one, "POST", "/api/v1/push", ITEM)[0] == 201
    daemon.stop()


def test_rotation_without_anybody_asking(start_daemon, server, certificate):
    """The set is fetched by itself; the same id with another key is another key."""
    server.keys = [jwk(rsa_key(), "k")]
    daemon = start_daemon(**settings(server, certificate, JWT_JWKS_REFRESH_INTERVAL="1"))
    with Caller(daemon, signed("k")) as old:
        assert told(old, "POST", "/api/v1/push", ITEM)[0] == 201
        server.keys = [jwk(rsa_key("two"), "k")]
        until(lambda: daemon.line("keys_changed"), "the new set is taken")
        assert told(old, "POST", "/api/v1/push", ITEM)[0] == 401
        old.token = signed("k", rsa_key("two"))
        assert told(old, "POST", "/api/v1/push", ITEM)[0] == 201
        # a set that cannot be had leaves the one there is
        server.status = 500
        until(lambda: daemon.line("key_set_not_fetched"), "a fetch has failed")
        assert told(old, "POST", "/api/v1/push", ITEM)[0] == 201
    daemon.stop()


@pytest.mark.parametrize("kid", ["k", None])
def test_a_wrong_signature_fetches_the_set(start_daemon, server, certificate, kid):
    """An issuer that gives the id to another key, or uses none, is understood before the next regular fetch."""
    server.keys = [jwk(rsa_key(), kid or "one")]
    daemon = start_daemon(**settings(server, certificate, QUEEND_JWT_JWKS_PAUSE_MS="0"))
    with Caller(daemon, signed(kid)) as old, Caller(daemon, signed(kid, rsa_key("two"))) as new:
        wrong = (401, "Token verification failed: Invalid token signature")
        assert told(old, "POST", "/api/v1/push", ITEM)[0] == 201
        assert told(new, "POST", "/api/v1/push", ITEM) == wrong
        server.keys = [jwk(rsa_key("two"), kid or "two")]
        assert told(new, "POST", "/api/v1/push", ITEM)[0] == 201
        assert told(old, "POST", "/api/v1/push", ITEM) == wrong
    daemon.stop()


def test_wrong_signatures_do_not_make_it_ask_again_and_again(start_daemon, server, certificate):
    server.keys = [jwk(rsa_key(), "k")]
    daemon = start_daemon(**settings(server, certificate))
    with Caller(daemon, signed("k")) as good, Caller(daemon, signed("k", rsa_key("two"))) as bad:
        assert told(good, "POST", "/api/v1/push", ITEM)[0] == 201
        assert {told(bad, "POST", "/api/v1/push", ITEM)[0] for _ in range(50)} == {401}
        assert server.asked == 1
    daemon.stop()


def test_a_reload_fetches_the_set(start_daemon, server, certificate):
    """A key that was withdrawn ends with a reload, although no setting has changed."""
    server.keys = [jwk(rsa_key(), "one"), jwk(ed_key(), "two")]
    daemon = start_daemon(**settings(server, certificate))
    with Caller(daemon, signed("one")) as one, Caller(daemon, signed("two", ed_key())) as two:
        assert told(one, "POST", "/api/v1/push", ITEM)[0] == 201
        server.keys.pop(0)
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: daemon.line("keys_changed"), "the set is fetched")
        assert told(one, "POST", "/api/v1/push", ITEM) == (401, "Token verification failed: Unknown key")
        assert told(two, "POST", "/api/v1/push", ITEM)[0] == 201
        assert server.asked == 2
    daemon.stop()


def test_a_reload_fetches_the_set_again_if_a_fetch_is_running(start_daemon, server, certificate):
    """The answer that is under way has the key that was withdrawn meanwhile."""
    server.keys = [jwk(rsa_key(), "one")]
    daemon = start_daemon(**settings(server, certificate, JWT_JWKS_TIMEOUT_MS="60000", QUEEND_JWT_JWKS_PAUSE_MS="0"))
    with Caller(daemon, signed("one")) as one, Caller(daemon, signed("two", ed_key())) as two:
        assert told(one, "POST", "/api/v1/push", ITEM)[0] == 201
        asked = server.asked
        server.gate.clear()
        two.send("POST", "/api/v1/push", json.dumps(ITEM).encode())
        until(lambda: server.asked == asked + 1, "the set is asked for")
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: daemon.line("reloaded"), "the daemon was told")
        server.keys = [jwk(ed_key(), "two")]
        server.gate.set()
        assert two.receive().status in (201, 401)
        until(lambda: daemon.line("keys_changed"), "the set is fetched again")
        assert told(one, "POST", "/api/v1/push", ITEM) == (401, "Token verification failed: Unknown key")
    daemon.stop()


def test_requests_that_wait_for_keys_while_the_settings_change(start_daemon, server, certificate, tmp_path):
    """They are answered under the new settings, also if the fetch that they waited for fails at that moment."""
    server.keys, server.status = [jwk(rsa_key(), "one")], 500
    server.gate.clear()
    file = tmp_path / "queend.toml"
    file.write_text('jwt_issuer = "old"\n')
    daemon = start_daemon(**settings(server, certificate, QUEEND_CONFIG=str(file), QUEEND_JWT_JWKS_PAUSE_MS="0",
                                     JWT_JWKS_TIMEOUT_MS="3600000"))
    text = signed("one", iss="new")
    with Caller(daemon, text) as push, Caller(daemon, text) as page:
        until(lambda: server.asked == 1, "the old settings fetch the set")
        push.send("POST", "/api/v1/push", json.dumps(ITEM).encode())
        page.send("GET", "/api/v1/resources/queues")
        file.write_text('jwt_issuer = "new"\n')
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: server.asked == 2, "the new settings fetch the set")
        server.gate.set()
        assert push.receive().status == page.receive().status == 503
        server.status = 200
        assert told(push, "POST", "/api/v1/push", ITEM)[0] == 201
        assert told(page, "GET", "/api/v1/resources/queues")[0] == 200
    daemon.stop()


def test_changed_settings_keep_the_keys(start_daemon, server, certificate, tmp_path, queue):
    """The set cannot be had when a role is renamed: tokens are verified with the keys there are, and streams go on."""
    server.keys = [jwk(rsa_key(), "one")]
    file = tmp_path / "queend.toml"
    file.write_text('jwt_role_read_only = "reader"\n')
    daemon = start_daemon(**settings(server, certificate, QUEEND_CONFIG=str(file)))
    text = signed("one")
    with Caller(daemon, text) as caller:
        caller.push(queue, 1)
        with SocketFeed(daemon.address, queue, headers=bearer(text)) as stream:
            message = stream.message()
            server.status = 500
            file.write_text('jwt_role_read_only = "viewer"\n')
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda: daemon.line("key_set_not_fetched"), "the set cannot be had")
            caller.push(queue, 2)
            assert stream.ack(message)["success"]
            assert stream.message()["data"] == 2
    daemon.stop()


@pytest.mark.parametrize("known", [True, False], ids=["a set", "no set"])
def test_a_daemon_that_stops_does_not_wait_for_the_set(start_daemon, server, certificate, known):
    server.keys = [jwk(rsa_key(), "one")]
    server.status = 200 if known else 500
    daemon = start_daemon(**settings(server, certificate, QUEEND_SHUTDOWN_GRACE_MS="100", QUEEND_JWT_JWKS_PAUSE_MS="0",
                                     JWT_JWKS_TIMEOUT_MS="3600000"))
    with Caller(daemon, signed("one")) as one, Caller(daemon, signed("two", ed_key())) as two:
        assert told(one, "POST", "/api/v1/push", ITEM)[0] == (201 if known else 503)
        server.gate.clear()
        asked = server.asked
        two.send("POST", "/api/v1/push", json.dumps(ITEM).encode())
        until(lambda: server.asked > asked, "the set is asked for")
        daemon.end()
        assert two.receive().status == 503


def test_without_keys_nobody_is_let_in_and_later_all_are(start_daemon, server, certificate):
    server.status = 404
    daemon = start_daemon(**settings(server, certificate, QUEEND_JWT_JWKS_PAUSE_MS="0"))
    with Caller(daemon, signed("one")) as caller:
        answer = caller.request("POST", "/api/v1/push", ITEM)
        assert answer.status == 503 and answer.headers["retry-after"] == "1"
        assert caller.get("/api/v1/resources/queues").status == 503
        assert daemon.client().get("/health").status == 200
        server.status, server.keys = 200, [jwk(rsa_key(), "one")]
        assert told(caller, "POST", "/api/v1/push", ITEM)[0] == 201
    daemon.stop()


def test_held_requests_of_clients_that_left(start_daemon, server, certificate):
    """The set does not come while clients come and go; known tokens are served meanwhile."""
    server.keys = [jwk(rsa_key(), "one")]
    daemon = start_daemon(**settings(server, certificate, QUEEND_JWT_JWKS_PAUSE_MS="0"))
    with Caller(daemon, signed("one")) as good:
        assert told(good, "POST", "/api/v1/push", ITEM)[0] == 201
        server.gate.clear()
        waiting = [Caller(daemon, signed(f"new-{n}", ed_key())) for n in range(20)]
        for caller in waiting:
            caller.send("POST", "/api/v1/push", json.dumps(ITEM).encode())
        until(lambda: server.asked == 2, "the set is asked for once, by all of them")
        for caller in waiting[:10]:
            caller.wire.abort()
            caller.wire = None
        assert told(good, "POST", "/api/v1/push", ITEM)[0] == 201
        server.keys += [jwk(ed_key(), f"new-{n}") for n in range(20)]
        server.gate.set()
        assert [caller.receive().status for caller in waiting[10:]] == [201] * 10
        for caller in waiting:
            caller.close()
    daemon.stop()


# ---- limits of a fetch
# -------------------------------------------------------------------------------------------------

def fetched(url: str, private: bool = True) -> bytes:
    return asyncio.run(asyncio.wait_for(fetch(url, private), 20))


def test_a_fetch(server):
    server.keys = [{"a": 1}]
    assert json.loads(fetched(server.url)) == {"keys": [{"a": 1}]}


def test_private_addresses_are_refused(server):
    for url in (server.url, f"https://127.0.0.1:{server.port}/", "https://10.0.0.1/", "https://169.254.169.254/latest",
                "https://[::1]/", "https://[::ffff:127.0.0.1]/"):
        with pytest.raises(FetchError, match="not public"):
            fetched(url, private=False)
    assert server.asked == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
                                     "100.64.0.1", "0.0.0.0", "::1", "::", "fe80::1%eth0",
                                     "fc00::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
                                     "64:ff9b:1::a00:1", "2002:7f00:1::1", "2002:a9fe:a9fe::",
                                     "::127.0.0.1", "::10.0.0.1",
                                     "2001:0:4136:e378:8000:63bf:3fff:fdd2", "fec0::1", "ff02::1", "64:ff9b::e000:1",
                                     "224.0.0.1", "255.255.255.255", "::ffff:0:10.0.0.1", "::ffff:0:7f00:1",
                                     "2a00:1450::5efe:10.0.0.1", "2a00:1450::200:5efe:a9fe:a9fe",
                                     "64:ff9b:1:a00:0:100:808:808", "64:ff9b:1::808:808", "3fff::1", "5f00::1",
                                     "192.0.0.9", "192.88.99.1", "::ffff:192.88.99.1", "168.63.129.16"])
def test_what_is_not_public(address):
    assert not public(address)


def test_what_is_public():
    assert public("8.8.8.8") and public("2606:4700::1111") and public("64:ff9b::808:808") and public("2002:808:808::1")
    assert public("::ffff:8.8.8.8") and public("::ffff:0:8.8.8.8") and public("2a00:1450::5efe:8.8.8.8")


def test_redirects_are_not_followed(server):
    server.status, server.headers = 302, {"Location": server.url}
    with pytest.raises(FetchError, match="302"):
        fetched(server.url)
    assert server.asked == 1


def test_a_certificate_of_nobody_is_refused(server, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(ssl.SSLError):
        fetched(server.url)


def test_a_certificate_of_another_is_refused(server):
    with pytest.raises(ssl.SSLError):
        fetched(f"https://127.0.0.1:{server.port}/")


def test_too_large_an_answer_is_refused(server):
    server.body = b" " * (jwks.BYTES_MOST + 1)
    with pytest.raises(FetchError, match="more than"):
        fetched(server.url)


def test_an_answer_that_never_ends_is_given_up(server):
    server.gate.clear()

    async def run() -> KeySet:
        keys = KeySet(server.url, 3600, 0.2, 0, True, lambda: None)
        keys.open()
        with pytest.raises(Refused) as told:
            await keys.find("RS256", "one")
        assert told.value.status == 503
        await keys.close()

    asyncio.run(run())


@pytest.mark.parametrize("known", [True, False], ids=["a set", "no set"])
def test_a_set_that_is_closed_answers_what_waits_for_it(server, known):
    """The request goes on, with other settings or to its refusal. It is not cancelled: then it had no answer."""
    server.gate.clear()

    async def run() -> None:
        keys = KeySet(server.url, 3600, 3600, 0, True, lambda: None)
        if known:
            keys._take(json.dumps({"keys": [jwk(rsa_key(), "other")]}).encode())
        keys.open()
        waiting = asyncio.create_task(keys.find("RS256", "one"))
        await asyncio.to_thread(until, lambda: server.asked, "the set is asked for")
        await keys.close()
        (told,) = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(told, Refused) and told.status == 503

    asyncio.run(run())


@pytest.mark.parametrize("answer",
                         [b"", b"HTTP/1.1", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                          b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"])
def test_half_an_answer_is_none(answer):
    with pytest.raises(FetchError):
        body_of(answer)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"keys":1}', b'{"keys":[]}', b'{"keys":[{"kty":"EC"}]}',
                                  json.dumps({"keys": [{}] * 101}).encode()])
def test_what_is_no_key_set_changes_nothing(server, body):
    keys = KeySet(server.url, 3600, 5, 0, True, lambda: None)
    keys._take(json.dumps({"keys": [jwk(rsa_key(), "a")]}).encode())
    with pytest.raises(FetchError):
        keys._take(body)
    assert [key.id for key in keys.keys] == ["a"]


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(OSError):
            fetched(f"https://localhost:{free.getsockname()[1]}/")
