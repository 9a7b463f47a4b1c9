"""Hands the certificate of the port to the core, at the start and at SIGHUP."""
from __future__ import annotations

from typing import Any

from .. import log
from ..settings.certificates import certificates
from ..settings.model import Settings


def secure(core: Any, settings: Settings) -> None:
    """Reads the files and uses them for new connections, if the port speaks TLS. Logs a certificate that clients
    refuse, or will soon. Raises ValueError if the files are not usable; then the core keeps what it has."""
    found = certificates(settings)
    if found is None:
        return
    try:
        core.secure(found.certificate, found.key, found.authorities, found.required)
    except ValueError as error:
        raise ValueError(f"QUEEND_TLS_CERT, QUEEND_TLS_KEY: {error}") from None
    if trouble := found.trouble():
        log.line("warn", "certificate_trouble", f"QUEEND_TLS_CERT: {settings.queend_tls_cert}: {trouble}")
