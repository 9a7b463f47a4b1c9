"""TLS at the sockets of the core: records in pieces, handshakes that go wrong or nowhere, ends, bounds."""
from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.certificates import Authority, trusting
from support.edge import Edge, answers, body, edge, start
from support.http import request
from support.records import Records
from support.sanitizer import PRELOAD
from support.wait import until

from queend._core import probe_memory_fails, probe_memory_works

__all__ = ["edge", "start"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(authority: Authority):
    return authority.server()


@pytest.fixture
def secure(start, server):
    """Starts cores that speak TLS."""
    return lambda **settings: start(pair=server, **settings)


@pytest.fixture
def context(authority: Authority) -> ssl.SSLContext:
    return trusting(authority)


def connected(edge: Edge, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(edge.connect(), server_hostname="localhost", suppress_ragged_eofs=False)


def counted(edge: Edge, name: str) -> int:
    return sum(worker[name] for worker in edge.core.stats()["workers"])


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes of memory of this process, of which the core is a part. A sanitizer keeps what is freed."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def get(path: str, more: dict[str, str] | None = None) -> bytes:
    return request("GET", path, headers=more)


# -- requests and answers ----------------------------------------------------------------------------------------------

def test_a_request_and_its_answer(secure, context):
    edge = secure()
    with connected(edge, context) as sock:
        for path in ("/x", "/y"):
            sock.sendall(get(path))
            ((status, _, _),) = found = answers(sock, 1)
            assert (status, body(found[0])["path"]) == (200, path)
    assert (counted(edge, "tls_handshakes"), counted(edge, "tls_failed")) == (1, 0)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_bytes_that_come_in_pieces(secure, authority, version, size):
    context = trusting(authority, minimum_version=version, maximum_version=version)
    with Records(secure().port, context).shake(size) as client:
        text = json.dumps({"x": "y" * 30_000}).encode() if size > 1 else b'{"x":"y"}'
        client.send(request("POST", "/x", text) + get("/after"), size)
        found = client.read(1)
        while b"/after" not in found:
            found += client.read(1)
        assert found.count(b"HTTP/1.1 200 OK") == 2


def test_a_request_in_many_records(secure, context):
    edge = secure()
    with connected(edge, context) as sock:
        for one in request("POST", "/x", b"abc" * 10):
            sock.sendall(bytes([one]))
        assert body(answers(sock, 1)[0])["body"] == "abc" * 10


@pytest.mark.parametrize("pieces", [1, 3])
def test_pipelined_requests_are_answered_in_order(secure, context, pieces):
    edge = secure(workers=1)
    with connected(edge, context) as sock:
        text = b"".join(get(f"/{i}") for i in range(300))
        for i in range(pieces):
            sock.sendall(text[len(text) * i // pieces:len(text) * (i + 1) // pieces])
        assert [body(one)["path"] for one in answers(sock, 300)] == [f"/{i}" for i in range(300)]


@pytest.mark.parametrize("size", [0, 1, 16383, 16384, 16385, 131_072, 131_073, 3_000_000])
def test_sizes_of_answers(secure, context, size):
    edge = secure()
    with connected(edge, context) as sock:
        sock.sendall(get(f"/big/{size}") + get("/x") + get(f"/big/{size}"))
        found = answers(sock, 3)
        assert [len(found[0][2]), found[1][0], len(found[2][2])] == [size, 200, size]


@pytest.mark.parametrize("size", [1, 16_000, 40_000, 2_000_000])
def test_sizes_of_bodies(secure, context, size):
    edge = secure()
    text = os.urandom(size // 2 + 1).hex()[:size].encode()
    with connected(edge, context) as sock:
        sock.sendall(request("POST", "/x", text) + request("POST", "/y", text))
        assert [body(one)["body"].encode() == text for one in answers(sock, 2)] == [True, True]


def test_chunks_and_100_continue(secure, context):
    edge = secure()
    with connected(edge, context) as sock:
        sock.sendall(request("POST", "/x", headers={"Transfer-Encoding": "chunked", "Expect": "100-continue"}))
        assert answers(sock, 1)[0][0] == 100
        sock.sendall(b"3\r\nabc\r\n" + b"4e20\r\n" + b"d" * 20_000 + b"\r\n0\r\n\r\n")
        assert body(answers(sock, 1)[0])["body"] == "abc" + "d" * 20_000


# -- ends --------------------------------------------------------------------------------------------------------------

def test_the_server_ends_with_close_notify(secure, context):
    with Records(secure().port, context).shake() as client:
        client.send(get("/x", {"Connection": "close"}))
        assert b"200 OK" in client.ends()


def test_an_idle_connection_ends_with_close_notify(secure, context):
    edge = secure()
    with Records(edge.port, context).shake() as client:
        client.send(get("/x"))
        client.read(20)
        edge.stop()
        client.ends()


@pytest.mark.parametrize("number", [1, 40, 200], ids=["one", "many", "more than are read at once"])
@pytest.mark.parametrize("fin", [False, True])
def test_a_client_that_ends_its_side_gets_its_answers(secure, context, number, fin):
    """The daemon reads at most 64 requests ahead: the end may come in one record with requests that still wait."""
    edge = secure(workers=1)
    with Records(edge.port, context).shake() as client:
        client.tls.write(get("/hold/me"))
        for i in range(1, number):
            client.tls.write(get(f"/{i}"))
        client.farewell()
        if fin:
            client.socket.shutdown(socket.SHUT_WR)
        edge.wait(1, "held")
        edge.release()
        assert client.ends().count(b"HTTP/1.1 200 OK") == number
    until(lambda: counted(edge, "connections") == 0, "the connection ends")


def test_a_connection_that_is_cut_off(secure, context):
    """Without close_notify, in the middle of a record."""
    edge = secure()
    with Records(edge.port, context).shake() as client:
        client.tls.write(request("POST", "/x", b"y" * 10_000))
        client.socket.sendall(client.sealed.read()[:5000])
    until(lambda: counted(edge, "connections") == 0 and not edge.seen, "the connection ends")


def test_a_damaged_record_ends_the_session(secure, context):
    edge = secure()
    with Records(edge.port, context).shake() as client:
        client.tls.write(get("/x"))
        raw = bytearray(client.sealed.read())
        raw[-1] ^= 1
        client.socket.sendall(raw)
        with pytest.raises(ssl.SSLError, match="(?i)alert bad record mac"):
            client.ends()
    assert not edge.seen


# -- handshakes that fail ----------------------------------------------------------------------------------------------

def test_plain_http_is_told_so(secure):
    edge = secure()
    with edge.connect() as sock:
        sock.sendall(get("/x"))
        ((status, headers, text),) = answers(sock)
        assert (status, headers["connection"]) == (400, "close")
        assert json.loads(text) == {"error": "This port speaks TLS; use an https:// URL"}
    assert (counted(edge, "tls_failed"), edge.seen) == (1, [])


@pytest.mark.parametrize("text", [b"\0", b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
                                  b"\x80\x2e\x01\x00\x02", b"\x17\x03\x03\x00\x05hello", b"\xff" * 20_000])
def test_garbage(secure, text):
    edge = secure()
    with edge.connect() as sock:
        sock.sendall(text)
        sock.shutdown(socket.SHUT_WR)
        try:
            while sock.recv(4096):
                pass
        except ConnectionResetError:
            pass
    until(lambda: counted(edge, "connections") == 0, "the connection ends")
    assert counted(edge, "tls_failed") == 1


@pytest.mark.parametrize("cut", [1, 4, 5, 100])
def test_an_incomplete_handshake_has_the_time_of_a_head(secure, context, cut):
    edge = secure(head_timeout_ms=200)
    with Records(edge.port, context) as client:
        client.socket.sendall(client.hello()[:cut])
        assert client.socket.recv(100) == b""
    assert counted(edge, "tls_failed") == 1


def test_a_handshake_without_its_last_flight_has_the_time_of_a_head(secure, context):
    edge = secure(head_timeout_ms=200)
    with Records(edge.port, context) as client:
        client.socket.sendall(client.hello())
        while client.socket.recv(1 << 16):
            pass
    assert counted(edge, "tls_failed") == 1


@pytest.mark.parametrize("cut", [3, 5, 40])
def test_an_incomplete_record_has_the_time_of_a_head(secure, context, cut):
    edge = secure(head_timeout_ms=200)
    with Records(edge.port, context).shake() as client:
        client.tls.write(get("/x"))
        client.socket.sendall(client.sealed.read()[:cut])
        assert b"408 Request Timeout" in client.ends()


def test_other_protocols_of_alpn_are_refused(secure, authority):
    edge = secure()
    context = trusting(authority)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with connected(edge, context) as sock:
        assert sock.selected_alpn_protocol() == "http/1.1"
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError, match="(?i)no application protocol"):
        connected(edge, context)


def test_clients_beyond_the_bound_get_an_alert(secure, context):
    edge = secure(max_connections=1)
    with connected(edge, context) as sock:
        sock.sendall(get("/x"))
        answers(sock, 1)
        with pytest.raises(ssl.SSLError, match="(?i)internal error"):
            connected(edge, context)


def test_clients_that_leave_during_the_handshake_leave_nothing(secure, context):
    edge = secure()

    def leave(n: int) -> None:
        failed = counted(edge, "tls_failed")
        for i in range(n):
            with Records(edge.port, context) as client:
                hello = client.hello()
                client.socket.sendall(hello[:(7, len(hello))[i % 2]])
                if i % 4 == 1:
                    client.receive_some()
                if i % 8 == 5:      # a reset before the daemon has read anything counts as no handshake
                    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        until(lambda: counted(edge, "connections") == 0, "they are gone")
        until(lambda: counted(edge, "tls_failed") == failed + n, "each counts")
        assert edge.core.stats()["clients"]["arriving"] == 0

    leave(200)
    before, size = descriptors(), resident()
    leave(1500)
    until(lambda: descriptors() <= before, "their sockets are closed")
    assert PRELOAD is not None or resident() - size < 8 << 20        # each would keep 20 KiB


def test_handshakes_at_once_are_bounded(secure, context):
    """Each counts in the budget of what arrives, of which an address has half when it is full."""
    edge = secure(max_arriving=1 << 20, max_body=1 << 18)
    with socket.socket():
        clients = [Records(edge.port, context) for _ in range(60)]
        for client in clients:
            client.socket.sendall(client.hello()[:50])
        until(lambda: counted(edge, "no_room") > 0 and counted(edge, "connections") < 60, "some are refused")
        assert edge.core.stats()["clients"]["arriving"] <= 2 << 20
        with socket.create_connection(("127.0.0.1", edge.port), 60, ("127.0.0.2", 0)) as other:
            with context.wrap_socket(other, server_hostname="localhost") as sock:
                sock.sendall(get("/other"))
                assert answers(sock, 1)[0][0] == 200
        for client in clients:
            client.socket.close()
        until(lambda: counted(edge, "connections") == 0, "they are gone")
    with connected(edge, context) as sock:
        sock.sendall(get("/x"))
        assert answers(sock, 1)[0][0] == 200


@contextmanager
def openssl(edge: Edge, authority: Authority, version: str) -> Iterator[subprocess.Popen]:
    """OpenSSL's own client, which takes a line of one letter as a command."""
    with subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{edge.port}", "-CAfile", authority.file,
                           "-verify_return_error", version], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, bufsize=0) as client:
        yield client
        client.terminate()


def say(client: subprocess.Popen, text: bytes, answer: bytes) -> None:
    assert client.stdin and client.stdout
    client.stdin.write(text)
    seen = b""
    while answer not in seen:
        more = client.stdout.read(1)
        assert more, seen
        seen += more


def test_renegotiation_is_refused(secure, authority):
    edge = secure()
    with openssl(edge, authority, "-tls1_2") as client:
        say(client, b"", b"Verify return code: 0 (ok)")
        say(client, b"R\n", b"no renegotiation")
    assert counted(edge, "tls_handshakes") == 1 and not edge.seen


def test_new_keys_in_the_middle_of_a_session(secure, authority):
    edge = secure()
    with openssl(edge, authority, "-tls1_3") as client:
        for _ in range(3):
            say(client, b"K\n", b"KEYUPDATE")
            say(client, get("/keys"), b'"path": "/keys"')


# -- sessions ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_by_any_worker(secure, authority, version):
    edge = secure()
    context = trusting(authority, minimum_version=version, maximum_version=version)
    with connected(edge, context) as sock:
        sock.sendall(get("/x"))
        answers(sock, 1)
        session = sock.session
    for _ in range(2):
        with context.wrap_socket(edge.connect(), server_hostname="localhost", session=session) as sock:
            sock.sendall(get("/y"))
            assert answers(sock, 1)[0][0] == 200
            assert sock.session_reused
    assert counted(edge, "tls_resumed") == 2


def test_a_new_certificate_is_for_new_connections(secure, authority, context):
    edge = secure()
    other = authority.server("other")

    def serial(sock: ssl.SSLSocket) -> int:
        return int(sock.getpeercert()["serialNumber"], 16)

    with connected(edge, context) as old:
        edge.core.secure(other.cert.read_bytes(), other.key.read_bytes())
        with connected(edge, context) as new:
            assert serial(new) == other.made.serial_number != serial(old)
        with pytest.raises(ValueError, match="the key is not usable: key values mismatch"):
            edge.core.secure(other.cert.read_bytes(), authority.pair.key.read_bytes())
        with connected(edge, context) as new:
            assert serial(new) == other.made.serial_number
        old.sendall(get("/x"))
        assert answers(old, 1)[0][0] == 200


def test_a_plain_port_stays_plain(edge, server):
    with pytest.raises(RuntimeError, match="the port is plain"):
        edge.core.secure(server.cert.read_bytes(), server.key.read_bytes())


# -- answers that are not read -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [100_000, 20_000_000])
def test_answers_wait_as_plain_bytes_until_they_are_read(secure, context, size):
    """They count as those of a plain connection, and all of them come in the end."""
    edge = secure(workers=1)
    number = 40_000_000 // size
    before = resident()
    with connected(edge, context) as sock:
        sock.sendall(get(f"/big/{size}") * number)
        edge.wait(min(number, 64))
        until(lambda: edge.core.stats()["clients"]["untaken"] > 1 << 20, "answers wait")
        time.sleep(0.3)
        waits = edge.core.stats()["clients"]["untaken"]
        assert size <= waits <= number * size + (1 << 20)
        # a copy of them in records would be as large again
        assert PRELOAD is not None or resident() - before < waits + (16 << 20)
        assert [len(one[2]) for one in answers(sock, number)] == [size] * number
    until(lambda: edge.core.stats()["clients"]["untaken"] == 0, "nothing waits")


def test_a_client_that_reads_nothing_is_given_up(secure, context):
    edge = secure(workers=1, write_timeout_ms=600)
    with connected(edge, context) as sock:
        sock.sendall(get("/big/30000000"))
        until(lambda: counted(edge, "requests") == 0 and counted(edge, "connections") == 0, "it is given up")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            answers(sock, 2)
    until(lambda: edge.core.stats()["clients"]["untaken"] == 0, "nothing waits")


def test_a_client_that_leaves_with_answers_unread(secure, context):
    edge = secure(workers=1)
    for _ in range(20):
        with connected(edge, context) as sock:
            sock.sendall(get("/big/3000000") * 3)
            sock.recv(1)
    until(lambda: counted(edge, "connections") == 0 and edge.core.stats()["clients"]["untaken"] == 0, "nothing waits")


def test_a_client_that_reads_byte_by_byte_is_given_up(secure, context):
    edge = secure(workers=1, write_timeout_ms=600, least_rate=1024)
    with Records(edge.port, context).shake() as client:
        client.send(get("/big/40000000"))
        until(lambda: client.socket.recv(1) and counted(edge, "not_taken"), "it is given up")
    until(lambda: counted(edge, "connections") == 0 and edge.core.stats()["clients"]["untaken"] == 0, "nothing waits")


def test_clients_that_abort_in_the_middle_of_a_record(secure, context):
    edge = secure(workers=1)

    def abort(number: int) -> None:
        for i in range(number):
            with Records(edge.port, context).shake() as client:
                client.send(get("/big/40000000"))
                for _ in range(i * 3):
                    assert client.socket.recv(10_007)
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        until(lambda: counted(edge, "connections") == 0 == edge.core.stats()["clients"]["untaken"], "nothing waits")

    abort(10)
    files, size = descriptors(), resident()
    abort(30)
    until(lambda: descriptors() <= files, "their sockets are closed")
    assert PRELOAD is not None or resident() - size < 60 << 20      # of 1.2 GB


# -- memory ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("fails", [1, 3])
def test_allocations_that_fail_end_the_connection_at_most(secure, context, fails):
    """One allocation after the other, over a handshake, a body, pipelined answers and the end. The core answers alone:
    the control plane of the tests does not survive a MemoryError."""
    edge = secure(workers=1)
    ended = 0
    for first in range(1, 60):
        probe_memory_fails(first, fails)
        try:
            with connected(edge, context) as sock:
                sock.sendall(request("OPTIONS", "/x", b"y" * 20_000) + get("/livez") * 40)
                ended += [one[0] for one in answers(sock, 41)] != [204] + [200] * 40
        except (ssl.SSLError, OSError, AssertionError):
            ended += 1
        finally:
            probe_memory_works()
    assert 3 < ended < 59
    with connected(edge, context) as sock:
        sock.sendall(get("/x"))
        assert answers(sock, 1)[0][0] == 200
