"""The certificate of the port, from the files that the settings name (docs/production.md)."""
from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Settings

FILE_MOST = 65_536      # bytes; the handshake sends all certificates of the file
SOON = timedelta(days=14)


@dataclass(frozen=True)
class Certificates:
    """Texts in PEM format. authorities: of client certificates; empty: clients are not asked for one. begins, expires:
    of the server's certificate."""

    certificate: bytes
    key: bytes
    authorities: bytes
    required: bool
    begins: datetime
    expires: datetime

    def trouble(self) -> str:
        """Returns why clients refuse the certificate, or will within SOON; an empty text if they accept it."""
        now = datetime.now(UTC)
        if self.expires <= now:
            return f"it expired at {self.expires:%Y-%m-%d %H:%M} UTC"
        if self.begins > now:
            return f"it is not valid before {self.begins:%Y-%m-%d %H:%M} UTC"
        return f"it expires at {self.expires:%Y-%m-%d %H:%M} UTC" if self.expires - now < SOON else ""


def named(settings: Settings) -> tuple[Path, Path, Path | None] | None:
    """Returns the files of the certificate, its key and the authorities of clients; None if the port does not speak
    TLS. Reads none of them: commands of accounts that may not read the key check the settings, too. Raises ValueError
    if a setting lacks another one."""
    certificate, key, authorities = settings.queend_tls_cert, settings.queend_tls_key, settings.queend_tls_client_ca
    if settings.queend_tls_client_required and not authorities:
        raise ValueError("QUEEND_TLS_CLIENT_REQUIRED requires QUEEND_TLS_CLIENT_CA")
    if authorities and not certificate:
        raise ValueError("QUEEND_TLS_CLIENT_CA requires QUEEND_TLS_CERT and QUEEND_TLS_KEY")
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise ValueError("QUEEND_TLS_CERT requires QUEEND_TLS_KEY" if certificate else
                         "QUEEND_TLS_KEY requires QUEEND_TLS_CERT")
    return certificate, key, authorities


def certificates(settings: Settings) -> Certificates | None:
    """Returns what the files contain now; None if the port does not speak TLS. Raises ValueError, naming the setting
    and the file."""
    files = named(settings)
    return _parsed(*files, settings.queend_tls_client_required) if files else None


def _parsed(certificate: Path, key: Path, authorities: Path | None, required: bool) -> Certificates:
    from cryptography import x509  # here: only this needs the library
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    def chain(name: str, path: Path, text: bytes) -> list[x509.Certificate]:
        try:
            return x509.load_pem_x509_certificates(text)
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError(f"{name}: {path} has no certificates in PEM format, or a malformed one") from None

    texts = _read("QUEEND_TLS_CERT", certificate), _read("QUEEND_TLS_KEY", key)
    first = chain("QUEEND_TLS_CERT", certificate, texts[0])[0]
    try:
        private = load_pem_private_key(texts[1], None)
    except TypeError:
        raise ValueError(f"QUEEND_TLS_KEY: the key in {key} is protected by a password; expected one without") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(f"QUEEND_TLS_KEY: {key} has no private key in PEM format, or a malformed one") from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if private.public_key().public_bytes(*form) != first.public_key().public_bytes(*form):
        raise ValueError(f"QUEEND_TLS_KEY: the key in {key} does not belong to the first certificate in {certificate}")
    trusted = b""
    if authorities:
        trusted = _read("QUEEND_TLS_CLIENT_CA", authorities)
        chain("QUEEND_TLS_CLIENT_CA", authorities, trusted)
    return Certificates(*texts, trusted, required, first.not_valid_before_utc, first.not_valid_after_utc)


def _read(name: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_MOST + 1)
    except OSError as error:
        raise ValueError(f"{name}: {path}: {error.strerror}") from None
    if len(text) > FILE_MOST:
        raise ValueError(f"{name}: {path} is larger than {FILE_MOST} bytes")
    return text
