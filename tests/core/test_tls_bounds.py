"""What a TLS client can take that plain clients cannot: memory of handshakes, answers that the session makes by itself.
Turns of the loop are in tests/e2e/test_https.py, where a worker can be stopped."""
from __future__ import annotations

import os
import re
import ssl
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.certificates import Authority, trusting
from support.edge import Edge, answers, body, start
from support.http import request
from support.records import OldSealer, Records, Sealer
from support.sanitizer import PRELOAD
from support.wait import PATIENCE, until

__all__ = ["start"]

HELLO_MOST = 16_384


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secure(start, authority):
    """Starts cores that speak TLS. asks: they ask clients for certificates."""
    pair = authority.server()

    def begin(asks: bool = False, pair=pair, **settings) -> Edge:
        edge = start(pair=pair, **settings)
        if asks:
            edge.core.secure(pair.cert.read_bytes(), pair.key.read_bytes(), authority.file.read_bytes())
        return edge

    return begin


@pytest.fixture
def context(authority: Authority) -> ssl.SSLContext:
    return trusting(authority)


def counted(edge: Edge, name: str) -> int:
    return sum(worker[name] for worker in edge.core.stats()["workers"])


def resident() -> int:
    """Memory of this process, bytes. A sanitizer keeps what is freed: with one, it means nothing."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def taken(client: Records, text: bytes) -> bytes:
    """Plain bytes until they have the text."""
    found = b""
    while text not in found[-len(text) - (1 << 18):]:
        try:
            found += client.tls.read(1 << 18)
        except ssl.SSLWantReadError:
            client.receive_some()
    return found


def get(path: str, more: dict[str, str] | None = None) -> bytes:
    return request("GET", path, headers=more)


# -- sizes of messages -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("size, pieces", [(HELLO_MOST + 1, 1), (0x20144, 1), (0x20144, 5), (0xFFFFFF, 2)])
def test_a_large_hello_is_refused_once_its_size_is_known(secure, size, pieces):
    """OpenSSL would make room for 128 KiB of it. pieces: records that its header comes in."""
    edge = secure()
    head = b"\x01" + size.to_bytes(3, "big") + b"\x03"
    with edge.connect() as sock:
        for i in range(pieces):
            part = head[5 * i // pieces:5 * (i + 1) // pieces]
            sock.sendall(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part)
        assert sock.recv(100) == b"\x15\x03\x03\0\x02\x02\x50"
        assert sock.recv(100) == b""
    assert counted(edge, "tls_failed") == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("names, taken", [(55, True), (70, False)])
def test_sizes_of_hellos(secure, authority, version, names, taken):
    edge = secure()
    context = trusting(authority, minimum_version=version, maximum_version=version)
    context.set_alpn_protocols(["http/1.1", *(f"{i:0255}" for i in range(names))])
    with edge.connect() as plain:
        if not taken:
            with pytest.raises(ssl.SSLError, match="(?i)internal error"):
                context.wrap_socket(plain, server_hostname="localhost")
            return
        with context.wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(get("/x"))
            assert answers(sock, 1)[0][0] == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("names, taken", [(300, True), (1500, False)])
def test_sizes_of_certificates_of_clients(secure, authority, version, names, taken):
    edge = secure(asks=True)
    own = authority.client("x", [f"{i}.example.org" for i in range(names)], stem=f"large{names}")
    context = trusting(authority, own, minimum_version=version, maximum_version=version)
    try:
        with context.wrap_socket(edge.connect(), server_hostname="localhost") as sock:
            sock.sendall(get("/x"))
            assert answers(sock, 1)[0][0] == 200 and taken
    except ssl.SSLError as error:
        # which of the two depends on the version of OpenSSL
        assert not taken and re.search("illegal parameter|bad certificate", str(error).lower())


# -- answers of the session itself -------------------------------------------------------------------------------------

def test_answers_of_the_session_count_with_their_memory(secure, authority, tmp_path):
    """Each new key that a client asks for while it reads nothing leaves a record of 27 bytes in the daemon, and what
    keeps it."""
    edge = secure(workers=1)
    context = trusting(authority, minimum_version=ssl.TLSVersion.TLSv1_3, keylog_filename=str(tmp_path / "keys"))
    with Records(edge.port, context).shake() as client:
        answered = 0
        while edge.core.stats()["clients"]["untaken"] == 0:
            client.send(get("/big/300000"))
            answered += 1
            edge.wait(answered)
            time.sleep(0.05)
        sealer = Sealer(tmp_path / "keys", client.tls.cipher()[0], sent=answered)
        before = resident()
        client.socket.settimeout(0)
        came = counted(edge, "bytes_in")
        for _ in range(100):
            keys = b"".join(sealer.new_keys() for _ in range(40))     # with more in one read, the session would end
            client.socket.send(keys)
            came += len(keys)
            until(lambda: counted(edge, "bytes_in") >= came, "they are read")
        assert PRELOAD is not None or resident() - before < 4 << 20        # 4000 of 1.9 KB would be 7.6 MB
        client.socket.settimeout(PATIENCE)
        client.read(answered * 300_000)
        client.socket.sendall(sealer.record(23, get("/after")))
        assert b"200 OK" in taken(client, b"/after")
    until(lambda: edge.core.stats()["clients"]["untaken"] == 0, "nothing waits")


@pytest.mark.parametrize("last", [False, True])
def test_refused_renegotiations_are_bounded(secure, authority, tmp_path, last):
    """Each leaves an alert in the daemon while the client reads nothing. last: also behind the last request."""
    edge = secure(workers=1)
    context = trusting(authority, maximum_version=ssl.TLSVersion.TLSv1_2, keylog_filename=str(tmp_path / "keys"))
    with Records(edge.port, context) as client:
        hello = client.hello()
        client.socket.sendall(hello)
        answer = client.socket.recv(1 << 16)
        client.came.write(answer)
        client.shake()
        client.send(get("/big/20000000") + get("/hold/me", {"Connection": "close"} if last else None))
        until(lambda: edge.core.stats()["clients"]["untaken"] > 1 << 20, "the answer waits")
        sealer = OldSealer(tmp_path / "keys", client, answer[11:43], 1)
        for _ in range(3000):
            came = counted(edge, "bytes_in")
            client.socket.sendall(sealer.record(22, hello[5:]))
            end = time.monotonic() + 0.5
            while counted(edge, "bytes_in") == came and time.monotonic() < end:
                time.sleep(0.0005)
            if counted(edge, "bytes_in") == came:
                break         # the daemon reads no more
        else:
            raise AssertionError("the daemon goes on reading")
        assert counted(edge, "connections") == 1
        client.socket.close()
    edge.release()


@pytest.mark.parametrize("kind, number", [(23, 40), (23, 1000), (21, 40)])
def test_records_without_data_end_a_session(keyed, kind, number):
    """Also if they come one by one. kind: data, alerts."""
    edge, client, sealer = keyed("/x")
    taken(client, b"}")
    try:
        for _ in range(number):
            client.socket.sendall(sealer.record(kind, b""))
    except (BrokenPipeError, ConnectionResetError):
        pass
    until(lambda: counted(edge, "connections") == 0, "the connection ends")


@pytest.mark.parametrize("records, ends", [(63, False), (65, True), (200_000, True)])
def test_many_new_keys_in_one_read_end_a_session(secure, authority, tmp_path, records, ends):
    """They cost the daemon more than the client, and no bound of a turn would count them."""
    edge = secure(workers=1)
    context = trusting(authority, minimum_version=ssl.TLSVersion.TLSv1_3, keylog_filename=str(tmp_path / "keys"))
    with Records(edge.port, context).shake() as client:
        client.send(get("/before"))
        edge.wait(1)
        sealer = Sealer(tmp_path / "keys", client.tls.cipher()[0], sent=1)
        try:
            client.socket.sendall(b"".join(sealer.new_keys(asks=False) for _ in range(records)))
            client.socket.sendall(sealer.record(23, get("/after", {"Connection": "close"})))
            assert b"/after" in client.ends() and not ends
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            assert ends


@pytest.fixture
def keyed(secure, authority, tmp_path):
    """A core, a client of it that has sent one request, and what makes its next records."""
    with ExitStack() as stack:
        def begin(path: str, more: dict[str, str] | None = None, **settings) -> tuple[Edge, Records, Sealer]:
            edge = secure(workers=1, **settings)
            context = trusting(authority, minimum_version=ssl.TLSVersion.TLSv1_3,
                               keylog_filename=str(tmp_path / "keys"))
            client = stack.enter_context(Records(edge.port, context).shake())
            client.send(get(path, more))
            edge.wait(1)
            return edge, client, Sealer(tmp_path / "keys", client.tls.cipher()[0], sent=1)

        yield begin


def sent(edge: Edge, client: Records, records: bytes) -> None:
    """Sends them, and waits until the core has read them."""
    before = counted(edge, "bytes_in")
    client.socket.sendall(records)
    until(lambda: counted(edge, "bytes_in") >= before + len(records), "they are read")


def sizes(raw: bytes) -> list[int]:
    """Bytes of each of these records, without their heads."""
    found = []
    while raw:
        found.append(int.from_bytes(raw[3:5], "big"))
        raw = raw[5 + found[-1]:]
    return found


def test_a_new_key_in_two_records_with_an_answer_between_them_ends_the_connection(keyed):
    """OpenSSL encrypts nothing until its rest has come. No client is known that does so: the message has five bytes."""
    edge, client, sealer = keyed("/hold/me")
    sent(edge, client, sealer.new_keys_in_two(4)[0])
    edge.release()
    until(lambda: counted(edge, "connections") == 0, "it is closed")
    until(lambda: not any(edge.core.stats()["clients"][name] for name in ("arriving", "untaken")), "so is its memory")


def test_short_records_count_with_what_surrounds_them(secure, context):
    """A turn of the loop is bounded by bytes. Each record takes longer to open than one byte of data to read."""
    edge = secure(workers=1)
    text = request("POST", "/x", b"b" * 2000, {"Connection": "close"})
    with Records(edge.port, context).shake() as client:
        before, sent = counted(edge, "bytes_in"), 0
        for i in range(len(text)):
            client.tls.write(text[i:i + 1])
        sealed = client.sealed.read()
        client.socket.sendall(sealed)
        sent += len(sealed)
        assert b"200 OK" in client.ends()
        assert counted(edge, "bytes_in") - before >= sent > 20 * len(text)


# -- after the last request --------------------------------------------------------------------------------------------

def test_one_answer_after_the_last_request_when_there_is_no_room(secure, context):
    """A record that is incomplete after `Connection: close` is no request, and is not answered."""
    edge = secure(workers=1, max_arriving=1 << 20, max_body=1 << 18)
    with Records(edge.port, context).shake() as client:
        client.send(get("/hold/me", {"Connection": "close"}))
        edge.wait(1, "held")
        others = [Records(edge.port, context) for _ in range(60)]
        for other in others:
            other.socket.sendall(other.hello()[:50])
        until(lambda: counted(edge, "no_room") > 0, "there is no room")
        client.tls.write(b"x" * 16_000)
        sent(edge, client, client.sealed.read()[:12_000])
        edge.release()
        assert client.ends().count(b"HTTP/1.1 ") == 1
        for other in others:
            other.socket.close()


@pytest.mark.parametrize("cut", [1, 3, 5, 4000, 15_000, 16_500, 30_000])
def test_what_follows_the_last_request_is_dropped(secure, context, cut):
    """It is decrypted nevertheless, for the end of the session behind it. cut: bytes that come with the request."""
    edge = secure(workers=1)
    with Records(edge.port, context).shake() as client:
        client.tls.write(get("/hold/me", {"Connection": "close"}))
        last = client.sealed.read()
        client.tls.write(b"x" * 40_000)
        more = client.sealed.read()
        sent(edge, client, last + more[:cut])
        sent(edge, client, more[cut:])
        client.farewell()
        edge.wait(1, "held")
        edge.release()
        assert client.ends().count(b"HTTP/1.1 ") == 1
    until(lambda: edge.core.stats()["clients"]["arriving"] == 0, "its memory is free")
    assert len(edge.seen) == 1


def test_a_new_key_after_the_last_request_is_answered(keyed):
    """By one of the server before its next data (RFC 8446, 4.6.3)."""
    edge, client, sealer = keyed("/hold/me", {"Connection": "close"})
    sent(edge, client, sealer.new_keys())
    edge.release()
    raw = b"".join(iter(lambda: client.socket.recv(1 << 18), b""))
    assert sizes(raw)[-3::2] == [0x16, 0x13]      # as long as a KeyUpdate; the answer between them; close_notify
    client.came.write(raw)
    assert b"200 OK" in client.ends()


# -- connections that are paused ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("before", [0, 50_000])
def test_what_comes_while_a_connection_is_paused_is_kept(secure, context, before):
    """before: bytes of a body that came first: after a large one, heads are read in small pieces."""
    edge = secure(workers=1)
    text = b"".join(request("POST", f"/{i}", b"b" * (i * 37 % 900)) for i in range(400))
    with Records(edge.port, context).shake() as client:
        if before:
            client.send(request("POST", "/before", b"y" * before))
            taken(client, b"}")
        client.send(get("/hold/first") + text + request("POST", "/large", b"z" * 60_000) + get("/last"))
        edge.wait(1, "held")
        edge.release()
        found = taken(client, b'"/last"')
        paths = [body((0, {}, part.split(b"\r\n\r\n")[1]))["path"] for part in found.split(b"HTTP/1.1 200 OK")
                 if b"\r\n\r\n{" in part and part.rstrip().endswith(b"}")]
        assert paths[:401] == ["/hold/first", *(f"/{i}" for i in range(400))]
