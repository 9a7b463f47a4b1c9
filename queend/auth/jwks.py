"""A key set fetched over https, refreshed regularly, and fetched again for an unknown key, within limits."""
from __future__ import annotations

import asyncio
import http.client
import io
import ipaddress
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orjson

from .. import __version__, log
from .keys import BadKey, Key, key_of_jwk
from .refused import Refused

BYTES_MOST = 256 << 10
KEYS_MOST = 100
RETRY_S = 10.0                 # after a fetch that failed, at most


class FetchError(Exception):
    """The key set could not be fetched; the message says why."""


class KeySet:
    """A key set. Requires `open` and `close` on the running loop. changed: called when a key was removed or
    replaced."""

    def __init__(self, url: str, refresh_s: float, timeout_s: float, pause_s: float, private: bool,
                 changed: Callable[[], None]):
        self.url, self.private, self.changed = url, private, changed
        self.refresh_s, self.timeout_s, self.pause_s = refresh_s, timeout_s, pause_s
        self.keys: list[Key] | None = None      # None: no fetch succeeded yet
        self.failed = False
        self.begun = -float("inf")              # when the last fetch began
        self.fetching: asyncio.Task | None = None
        self.stale = False                      # the running fetch began before a refresh was asked for
        self.closed = False
        self.keeper: asyncio.Task | None = None

    def take_over(self, before: KeySet) -> None:
        """Uses the keys of another key set until the first fetch, if that set was fetched in the same way."""
        if (before.url, before.private) == (self.url, self.private):
            self.keys = before.keys

    def open(self) -> None:
        self.keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Ends the running fetch. What waits for it goes on with the keys there are."""
        self.closed = True
        for task in (self.keeper, self.fetching):
            if task:
                task.cancel()
                await asyncio.wait([task])

    async def find(self, algorithm: str, kid: str | None) -> Key | None:
        """Returns the key of this id; without an id the first key of the algorithm. An unknown id starts a new fetch,
        at most once every pause_s. Raises Refused(503) while there is no key set, and for an unknown id after
        `close`."""
        if self.fetching and self.keys is None:
            await asyncio.wait([self.fetching])
        key = self._known(algorithm, kid)
        if key is None:
            await self._fetch_within_limits()
            key = self._known(algorithm, kid)
        if self.keys is None or self.closed and key is None:
            raise Refused(503, "The keys that verify tokens cannot be fetched")
        return key

    async def find_instead(self, wrong: Key, algorithm: str, kid: str | None) -> Key | None:
        """Returns the key that has replaced `wrong` under the same id, None if none has. `wrong` did not verify a
        signature: starts a new fetch, at most once every pause_s."""
        await self._fetch_within_limits()
        key = self._known(algorithm, kid)
        return None if key is None or key.same(wrong) else key

    def refresh(self) -> None:
        """Starts a fetch, whatever pause_s says. If one is running, another one follows: the answer to the running one
        may be older than the change that the refresh is for."""
        self.stale = self.fetching is not None
        self._fetch_soon()

    async def _fetch_within_limits(self) -> None:
        # waits without `shield`, which would pass the end of a fetch by `close` on to the request
        if self.fetching or not self.closed and time.monotonic() - self.begun >= self.pause_s:
            await asyncio.wait([self._fetch_soon()])

    def _known(self, algorithm: str, kid: str | None) -> Key | None:
        return next((key for key in self.keys or () if key.algorithm == algorithm and kid in (None, key.id)), None)

    async def _keep(self) -> None:
        while True:
            await asyncio.wait([self._fetch_soon()])
            # A failed fetch is repeated sooner, because tokens of new keys wait for it.
            await asyncio.sleep(self.refresh_s if self.keys is not None and not self.failed else min(self.refresh_s,
                RETRY_S))

    def _fetch_soon(self) -> asyncio.Task:
        """Returns the running fetch, or a new one. The task never raises."""
        if self.fetching is None:
            self.begun = time.monotonic()
            self.fetching = asyncio.create_task(self._fetch())
        return self.fetching

    async def _fetch(self) -> None:
        self.failed = True
        try:
            async with asyncio.timeout(self.timeout_s):
                body = await fetch(self.url, self.private)
            self._take(body)
            self.failed = False
        except TimeoutError:
            log.line("warn", "key_set_not_fetched", f"no answer within {self.timeout_s:g} s")
        except (FetchError, OSError, ssl.SSLError) as error:
            log.line("warn", "key_set_not_fetched", str(error))
        # the answer is untrusted: if it breaks a parser, the next fetch tries again
        except Exception as error:
            log.line("error", "key_set_not_fetched", repr(error))
        finally:
            self.fetching = None
            if self.stale and not self.closed:
                self.refresh()

    def _take(self, body: bytes) -> None:
        try:
            members = orjson.loads(body)["keys"]
            assert isinstance(members, list)
        except (orjson.JSONDecodeError, KeyError, TypeError, AssertionError):
            raise FetchError("the answer is not a JSON Web Key Set") from None
        if len(members) > KEYS_MOST:
            raise FetchError(f"the key set has more than {KEYS_MOST} keys")
        keys = []
        for i, member in enumerate(members):
            try:
                keys.append(key_of_jwk(member))
            except BadKey as error:
                log.line("debug", "key_not_used", f"key {i}: {error}")
        if not keys:
            raise FetchError("the key set contains no RSA or Ed25519 signature key")
        before, self.keys = self.keys or [], keys
        if any(not any(old.same(new) for new in keys) for old in before):
            self.changed()
            log.line("info", "keys_changed", "a key was removed from the key set: all tokens are verified again")


async def fetch(url: str, private: bool) -> bytes:
    """Returns the body at an https URL. Follows no redirect, and asks no private address unless `private`. Raises
    FetchError, OSError."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    found = await asyncio.get_running_loop().getaddrinfo(host, port, proto=6)
    addresses = [str(entry[4][0]) for entry in found]
    if not private and any(not public(address) for address in addresses):
        raise FetchError(f"{host} has an address that is not public")
    # Connects to the address that was checked, because a second look-up might return another one.
    reader, writer = await _connect(addresses, port, host)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        name = f"[{host}]" if ":" in host else host
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {name}{f':{parts.port}' if parts.port else ''}\r\nAccept: "
                     f"application/json\r\n"
                     f"User-Agent: queend/{__version__}\r\nConnection: close\r\n\r\n".encode("latin-1", "replace"))
        answer = bytearray()
        while piece := await reader.read(BYTES_MOST):
            answer += piece
            if len(answer) > BYTES_MOST:
                raise FetchError(f"the answer has more than {BYTES_MOST} bytes")
    finally:
        writer.close()
    return body_of(bytes(answer))


async def _connect(addresses: list[str], port: int, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to the first address that accepts the connection."""
    trusted = ssl.create_default_context()
    for address in addresses[:-1]:
        try:
            return await asyncio.open_connection(address, port, ssl=trusted, server_hostname=host)
        except OSError:
            continue
    return await asyncio.open_connection(addresses[-1], port, ssl=trusted, server_hostname=host)


def body_of(answer: bytes) -> bytes:
    """Returns the body of a whole HTTP answer with status 200."""
    received: Any = _Received(answer)
    response = http.client.HTTPResponse(received)
    try:
        response.begin()
        if response.status != 200:
            raise FetchError(f"status {response.status}")
        return response.read()
    except http.client.HTTPException:
        raise FetchError("the answer is not a complete HTTP response") from None


class _Received:
    """Gives HTTPResponse its bytes after all of them were received."""

    def __init__(self, answer: bytes):
        self.answer = answer

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.answer)


# Prefixes behind which the last 32 bits are an IPv4 address: compatible (RFC 4291), translated (RFC 7915), NAT64 (RFC
# 6052).
CONTAINING = [ipaddress.ip_network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")]
# Interfaces of ISATAP (RFC 5214): the upper half of the identifier.
ISATAP = (0x00005EFE, 0x02005EFE)
# Networks that are not public, though `ipaddress` may call some of them global. In this order: NAT64 of a site, where
# the IPv4 address may stand anywhere (RFC 8215); documentation (RFC 9637); segment routing (RFC 9602); protocol
# assignments (RFC 6890); relays of 6to4 (RFC 7526). The last is the address at which machines of a cloud reach their
# host.
CLOSED = [ipaddress.ip_network(text) for text in (
    "64:ff9b:1::/48", "3fff::/20", "5f00::/16", "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")]


def public(address: str) -> bool:
    """Returns whether an address is public. An address that contains another one counts as that one: a gateway forwards
    to it."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if any(ip in one for one in CLOSED):
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        low = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        is_low = any(ip in one for one in CONTAINING) or int(ip) >> 32 & 0xFFFFFFFF in ISATAP
        contained = ip.ipv4_mapped or ip.sixtofour or (low if is_low else None)
        if contained is not None:
            return public(str(contained))
        if ip.teredo is not None or ip.is_site_local:
            return False
    return ip.is_global and not ip.is_multicast
