"""Notices between daemons of one database about what they committed (docs/peers.md). The data plane sends them over UDP
(core/peer). Here are the repeated look-up of peers' names, packets over HTTP instead, and requests of a packet to the
control plane."""
from __future__ import annotations

import asyncio
import errno
import http.client
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from .. import log
from .._core import peers_addresses, peers_begin, peers_fileno, peers_stats, peers_take, peers_tell
from ..dial import Pair, connection
from ..settings.certificates import named
from ..settings.lists import peers_read, urls_read
from ..settings.model import Settings
from .maintenance import Maintenance
from .running import Running

RESOLVE_S = 30.0
TIMEOUT_S = 2.0
PAUSE_S = 1.0             # after a post that failed: packets meanwhile are dropped, and the peer notices the gap
AT_ONCE = 16              # packets of one post
NOTICES = "application/x-queend-notices"      # media type of notices of another daemon
PATH = "/internal/api/notify"
MOST = 64                 # addresses
HERE = ("127.", "::1")
EVERY = ("", "::", "[::]")
SO_RCVBUFFORCE = 33       # socket(7); the module has no name for it


class Peers(Running):
    """The background service. Requires `begin` before the core starts, `open` and `close` on the running loop."""

    def __init__(self, settings: Settings, maintenance: Maintenance):
        self.settings, self.maintenance = settings, maintenance
        self.names = peers_read(settings.queen_udp_peers, settings.queen_udp_notify_port)
        self.urls = urls_read(settings.queen_peers, settings.scheme())
        self.on = bool(settings.queen_sync_enabled and (self.names or self.urls))
        self.links: list[Link] = []
        self._known: dict[str, set[str]] = {}      # addresses of a name, as last found
        self._unknown: set[str] = set()

    def begin(self) -> None:
        """Starts receiving and sending as soon as the core runs. Raises OSError if a port is not available."""
        if not self.on:
            return
        settings = self.settings
        if not settings.queen_sync_secret:
            log.line("warn", "peers_without_secret", "QUEEN_SYNC_SECRET is not set: everyone who can send packets with "
                                                     "the address of a peer can cause useless queries")
        sockets = bound(settings.address(), settings.queen_udp_notify_port,
                        settings.queen_sync_recv_buffer_mb) if self.names else []
        port = settings.queen_udp_notify_port if self.names else settings.port or os.getpid()
        name = re.sub(r"[^!-~]", "?", f"{socket.gethostname()}:{port}")[-31:]      # its end tells similar names apart
        peers_begin(name, settings.queen_sync_secret.encode(), sockets, settings.queen_sync_heartbeat_ms,
                    settings.queen_sync_dead_threshold_ms, bool(self.urls))
        log.line("info", "peers", f"{name} notifies {', '.join([settings.queen_udp_peers, *self.urls]).strip(', ')}")

    def tell(self, maintenance: bool = False) -> None:
        """Asks every peer to look at what was committed; maintenance: at the switches."""
        if self.on:
            peers_tell(maintenance)

    def open(self) -> None:
        if self.on:
            super().open()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(peers_fileno(), self._take)
        batch_s, own = self.settings.peer_notify_batch_ms / 1000, own_pair(self.settings)
        self.links = [Link(url, batch_s, own) for url in self.urls]
        try:
            while True:
                await self._resolve()
                await asyncio.sleep(RESOLVE_S)
        finally:
            loop.remove_reader(peers_fileno())
            for link in self.links:
                await link.close()

    def _take(self) -> None:
        switched, packets = peers_take()
        if switched:
            self.maintenance.wake()
        if packets:
            for link in self.links:
                link.put(packets)

    async def _resolve(self) -> None:
        found: dict[tuple[str, int], None] = {}
        for host, port in self.names:
            for address in await self._look_up(host):
                found[address, port] = None
        if len(found) > MOST:
            log.line("warn", "peers_too_many", f"{len(found)} addresses; only {MOST} are notified")
        if self.settings.address().startswith(HERE) and any(not one.startswith(HERE) for one, _ in found):
            log.line("warn", "peers_out_of_reach", f"this daemon listens on {self.settings.address()}, which peers "
                                                   "cannot reach; set HOST")
        peers_addresses(list(found))

    async def _look_up(self, host: str) -> set[str]:
        """Returns its addresses; the earlier ones while no server resolves the name."""
        try:
            known = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:      # UnicodeError: it cannot be the name of a host
            if host not in self._unknown:
                log.line("warn", "peer_unknown", f"{host}: {error}")
            self._unknown.add(host)
            return self._known.get(host, set())
        self._unknown.discard(host)
        self._known[host] = {str(one[4][0]).partition("%")[0] for one in known}
        return self._known[host]

    def figures(self) -> dict[str, Any] | None:
        """Returns counts of sent and received notices since the start; None without peers."""
        if not self.on:
            return None
        return {**peers_stats(), "links": [link.figures() for link in self.links]}


def own_pair(settings: Settings) -> Pair | None:
    """Returns the files of the certificate that this daemon shows to its peers: that of its port."""
    files = named(settings)
    return (str(files[0]), str(files[1])) if files else None


class Link:
    """The connection to a peer over HTTP: one post at a time, each with all packets that came meanwhile."""

    def __init__(self, url: str, batch_s: float, own: Pair | None = None):
        """own: files of the certificate that is shown to the peer."""
        self.url, self.batch_s, self.own = url, batch_s, own
        self.posts = self.failed = 0
        self.failing = False
        self._waiting: list[bytes] = []
        self._some = asyncio.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = ThreadPoolExecutor(1, "peer")      # a peer that hangs delays no other
        self._task = asyncio.create_task(self._run())

    def put(self, packets: list[bytes]) -> None:
        """Queues packets. The newest AT_ONCE wait; a peer that misses one looks at everything."""
        self._waiting = [*self._waiting, *packets][-AT_ONCE:]
        self._some.set()

    def figures(self) -> dict[str, Any]:
        return {"url": self.url, "posts": self.posts, "failed": self.failed, "failing": self.failing}

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._some.wait()
            self._some.clear()
            packets, self._waiting = self._waiting, []
            try:
                await loop.run_in_executor(self._thread, self._post, b"".join(packets))
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.failed += 1
                if not self.failing:
                    log.line("warn", "peer_not_told", f"{self.url}: {type(error).__name__}: {error}")
                self.failing = True
            else:
                self.posts += 1
                self.failing = False
            await asyncio.sleep(PAUSE_S if self.failing else self.batch_s)

    def _post(self, body: bytes) -> None:
        if self._connection is None:
            self._connection = connection(self.url, TIMEOUT_S, self.own)
        try:
            path = urlsplit(self.url).path.rstrip("/") + PATH
            self._connection.request("POST", path, body, {"Content-Type": NOTICES})
            answer = self._connection.getresponse()
            text = answer.read(1 << 16)
            if answer.status >= 300:
                raise http.client.HTTPException(f"{answer.status} {text[:200].decode(errors='replace')}")
        except BaseException:
            self._connection.close()
            self._connection = None
            raise


def has_notices(headers: list[tuple[bytes, bytes]]) -> bool:
    """Returns whether a request's body is packets of another daemon. Both the guard and the route call this."""
    return [value for name, value in headers if name == b"content-type"] == [NOTICES.encode()]


def bound(host: str, port: int, buffer_mb: int) -> list[tuple[int, bool]]:
    """Returns UDP sockets where HTTP listens, one of each family: (descriptor, whether it is of IPv6). "" is every
    address."""
    wanted: dict[int, Any] = {}
    try:
        found = socket.getaddrinfo(None if host in EVERY else host, port, type=socket.SOCK_DGRAM,
                                   flags=socket.AI_PASSIVE)
    except OSError as error:
        raise OSError(f"HOST: {host} is no address of this machine: {error.strerror}") from None
    for kind, _, _, _, address in found:
        wanted.setdefault(kind, address)
    made: list[socket.socket] = []
    try:
        for family, address in wanted.items():
            one = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            made.append(one)
            try:      # beyond the system's limit, if this process may
                one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, buffer_mb << 20)
            except PermissionError:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_mb << 20)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
    except OSError as error:
        for one in made:
            one.close()
        at_fault = "HOST" if error.errno == errno.EADDRNOTAVAIL else "QUEEN_UDP_NOTIFY_PORT"
        raise OSError(f"{at_fault}: cannot receive notices on UDP port {port}: {error.strerror}") from None
    return [(one.detach(), one_family == socket.AF_INET6) for one, one_family in zip(made, wanted, strict=True)]
