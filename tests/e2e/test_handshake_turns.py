"""Handshakes take turns of the loop: those that wait go on in order, and other requests are answered between them."""
from __future__ import annotations

import selectors
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from support.certificates import Authority, Pair, readable, settings_of, trusting
from support.client import Client
from support.daemon import Daemon
from support.frozen import frozen, thread_named
from support.http import request, secure_ports
from support.records import Records
from support.wait import until

CROWD = 150


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(readable(tmp_path_factory.mktemp("certificates")))


class Crowd:
    """Connections that have sent nothing yet, their first messages, and the order in which they are answered."""

    def __init__(self, daemon: Daemon, authority: Authority, client: Client):
        self.worker = thread_named(daemon.pid, "worker 0")
        before = client.metric("queend_worker_connections")
        self.clients = [Records(daemon.port, trusting(authority)) for _ in range(CROWD)]
        until(lambda: client.metric("queend_worker_connections") == before + CROWD, "all are accepted")
        self.hellos = [one.hello() for one in self.clients]
        self.selector = selectors.EpollSelector()
        for number, one in enumerate(self.clients):
            self.selector.register(one.socket, selectors.EVENT_READ, number)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self.selector.close()
        for one in self.clients:
            one.socket.close()

    def begin(self) -> None:
        """Sends all first messages, in order."""
        for one, hello in zip(self.clients, self.hellos, strict=True):
            one.socket.sendall(hello)

    def answered(self, patience: float | None = None) -> list[int]:
        """Returns which sockets have been answered since the last call, in the order of their answers: that in which
        epoll tells. Waits for one at most `patience` seconds, else as long as it takes."""
        found = []
        for key, _ in self.selector.select(patience):
            found.append(key.data)
            self.selector.unregister(key.fileobj)
        return found


@pytest.fixture
def one_worker(start_daemon: Callable[..., Daemon], authority: Authority) -> Iterator[Callable[[Pair], Daemon]]:
    """Starts daemons with one worker."""
    ports = []

    def start(pair: Pair) -> Daemon:
        daemon = start_daemon(**settings_of(pair), NUM_WORKERS=1)
        secure_ports[daemon.port] = trusting(authority)
        ports.append(daemon.port)
        return daemon

    yield start
    for port in ports:
        del secure_ports[port]


@pytest.mark.parametrize("bits", [0, 2048], ids=["P-256", "RSA_2048"])
def test_handshakes_that_wait_go_on_in_order(one_worker: Callable[[Pair], Daemon], authority: Authority,
                                             bits: int) -> None:
    """The worker stands until all have come. A turn has time for about 30 handshakes with a key of P-256, and for about
    6 with the other."""
    daemon = one_worker(authority.server(f"in-order-{bits}", rsa_bits=bits))
    with daemon.client() as client, Crowd(daemon, authority, client) as crowd:
        with frozen(crowd.worker):
            crowd.begin()
        order: list[int] = []
        while len(order) < CROWD:
            order += crowd.answered()
        assert order == list(range(CROWD))


def test_a_burst_of_handshakes_lets_others_have_their_turn(one_worker: Callable[[Pair], Daemon],
                                                           authority: Authority) -> None:
    """A request that comes while handshakes wait is answered after those of two turns: the one that was going on, and
    the one in which it is read; a third one is for what `time_to_shake` measures too slow. The worker stands whenever
    the test looks and sends, so that it does not matter how fast the test is."""
    pair = authority.server("burst", rsa_bits=3072)
    daemon = one_worker(pair)
    of_a_turn = int(0.005 / time_to_shake(pair, authority)) + 1
    with daemon.client() as client, Crowd(daemon, authority, client) as crowd:
        with frozen(crowd.worker):
            crowd.begin()
            client.wire.send(request("OPTIONS", "/x"))
        assert client.wire.receive().status == 204
        between = []
        done = 0
        while done < CROWD:
            with frozen(crowd.worker):
                done += len(crowd.answered(0))
                client.wire.send(request("OPTIONS", "/x"))
                crowd.selector.register(client.wire.socket, selectors.EVENT_READ, CROWD)
            order: list[int] = []
            while CROWD not in order:
                order += crowd.answered()
            assert client.wire.receive().status == 204
            between.append(order.index(CROWD))
            done += len(order) - 1
        assert max(between) <= 3 * of_a_turn, (between, of_a_turn)


def time_to_shake(pair: Pair, authority: Authority) -> float:
    """Returns how long the processor takes for the server's part of a handshake, at best. The interpreter has the
    libssl of the daemon."""
    took = []
    for _ in range(10):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        client = trusting(authority).wrap_bio(to_client, to_server, server_hostname="localhost")
        server = context.wrap_bio(to_server, to_client, server_side=True)
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        began = time.thread_time()
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
        took.append(time.thread_time() - began)
    return min(took)
