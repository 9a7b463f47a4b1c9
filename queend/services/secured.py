"""Hands the certificate of the port to the core: at the start, at SIGHUP, when its files have changed, and once a day,
so that no key of tickets lives longer."""
from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from .. import log
from ..settings.certificates import Certificates, certificates, named
from ..settings.model import Settings

LOOK_S = 60.0
DAY_S = 86_400.0
Stamp = tuple[tuple[int, int, int] | None, ...]


class Secured:
    """The certificate in use. core: the core."""

    def __init__(self, settings: Settings, core: Any):
        self.settings, self.core = settings, core
        self.found: Certificates | None = None
        self._used_at = 0.0
        self._stamp: Stamp = ()

    def use(self) -> None:
        """Reads the files and uses them for new connections, if the port speaks TLS. Logs a certificate that clients
        refuse, or will soon. Raises ValueError if the files are not usable; then the core keeps what it has."""
        self._stamp = self._stamps()
        found = certificates(self.settings)
        if found is None:
            return
        try:
            self.core.secure(found.certificate, found.key, found.authorities, found.required)
        except ValueError as error:
            raise ValueError(f"QUEEND_TLS_CERT, QUEEND_TLS_KEY: {error}") from None
        self.found, self._used_at = found, time.monotonic()
        self._told()

    def look(self) -> None:
        """Uses the files again if they have changed since they were read, or after a day. Logs files that are not
        usable once; they are read again when they have changed again."""
        if self.found is None:
            return
        changed = self._stamps() != self._stamp
        if not changed and time.monotonic() - self._used_at < DAY_S:
            return
        try:
            self.use()
        except ValueError as error:
            log.line("error", "certificate_refused", f"{error}; the former certificate stays in use")
            self._used_at = time.monotonic()
            self._told()
            return
        if changed:
            log.line("info", "certificate_renewed", f"valid until {self.found.expires:%Y-%m-%d %H:%M} UTC")

    async def watch(self) -> None:
        """Looks at the files once in LOOK_S."""
        while named(self.settings):
            await asyncio.sleep(LOOK_S)
            await asyncio.to_thread(self.look)

    def expires_s(self) -> float | None:
        """Returns the seconds until the certificate in use expires, negative after that; None if the port is plain."""
        return (self.found.expires - datetime.now(UTC)).total_seconds() if self.found else None

    def _told(self) -> None:
        if self.found and (trouble := self.found.trouble()):
            log.line("warn", "certificate_trouble", f"QUEEND_TLS_CERT: {self.settings.queend_tls_cert}: {trouble}")

    def _stamps(self) -> Stamp:
        """Returns what changes with the files."""
        found: list[tuple[int, int, int] | None] = []
        for path in named(self.settings) or ():
            try:
                seen = path.stat() if path else None
            except OSError:
                seen = None
            found.append((seen.st_mtime_ns, seen.st_ino, seen.st_size) if seen else None)
        return tuple(found)
