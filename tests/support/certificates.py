"""Authorities and certificates, made as tests need them."""
from __future__ import annotations

import atexit
import functools
import shutil
import socket
import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (BestAvailableEncryption, Encoding, NoEncryption,
                                                          PrivateFormat)
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)] if common else [])


def alternative(text: str) -> x509.GeneralName:
    """An address, a URI, an address of mail or a DNS name, whichever it looks like."""
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        kind = x509.UniformResourceIdentifier if "://" in text else x509.RFC822Name if "@" in text else x509.DNSName
        return kind(text)


class Pair:
    """A certificate and its key, as files of one folder."""

    def __init__(self, folder: Path, stem: str, certificate: x509.Certificate, key: Key, above: bytes = b""):
        self.made, self.private = certificate, key
        self.cert, self.key = folder / f"{stem}.pem", folder / f"{stem}.key"
        self.cert.write_bytes(certificate.public_bytes(Encoding.PEM) + above)
        self.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def encrypted_key(self, password: bytes) -> Path:
        path = self.key.with_suffix(".locked")
        path.write_bytes(self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8,
                                                    BestAvailableEncryption(password)))
        return path


class Authority:
    """Signs certificates of servers and clients."""

    shared: Pair

    def __init__(self, folder: Path, stem: str = "ca", by: Authority | None = None):
        """by: the authority above this one, whose certificates name this one as well."""
        self.folder = folder
        key = ec.generate_private_key(ec.SECP256R1())
        self.pair = Pair(folder, stem, certificate(name(f"queend tests {stem}"), key, by and by.pair, None, ca=True),
                         key)
        self.named = self.pair.cert.read_bytes() if by else b""

    def between(self, stem: str, folder: Path) -> Authority:
        return Authority(folder, stem, self)

    @property
    def file(self) -> Path:
        return self.pair.cert

    def server(self, stem: str = "server", names: Sequence[str] = ("localhost", "127.0.0.1"), rsa_bits: int = 0,
               days: tuple[float, float] = (-1, 90)) -> Pair:
        return self._signed(stem, stem, names, rsa_bits, days)

    def client(self, common: str = "", names: Sequence[str] = (), days: tuple[float, float] = (-1, 90),
               stem: str = "client") -> Pair:
        return self._signed(stem, common, names, 0, days)

    def _signed(self, stem: str, common: str, names: Sequence[str], rsa_bits: int, days: tuple[float, float]) -> Pair:
        key: Key = (rsa.generate_private_key(65537, rsa_bits) if rsa_bits else
                    ec.generate_private_key(ec.SECP256R1()))
        return Pair(self.folder, stem, certificate(name(common), key, self.pair, names, days), key, self.named)


@functools.cache
def session_authority() -> Authority:
    """One for all daemons of the session, with a certificate in `shared`. The account of the daemon may read it."""
    folder = Path(tempfile.mkdtemp(prefix="queend-certificates-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    authority = Authority(folder)
    authority.shared = authority.server()
    return authority


def certificate(subject: x509.Name, key: Key, by: Pair | None, names: Sequence[str] | None,
                days: tuple[float, float] = (-1, 90), ca: bool = False) -> x509.Certificate:
    """by: the authority; None: signed by its own key. days: from when until when, counted from now. With identifiers of
    the keys, which clients of Python 3.13 want (VERIFY_X509_STRICT)."""
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(by.made.subject if by else subject)
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(now + days[0] * DAY).not_valid_after(now + days[1] * DAY)
    made = made.add_extension(x509.BasicConstraints(ca, None), critical=True)
    made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    above = (by.private if by else key).public_key()
    made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(above), critical=False)
    if ca:
        made = made.add_extension(x509.KeyUsage(
            key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False,
            data_encipherment=False, key_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False), critical=True)
    if names:
        made = made.add_extension(x509.SubjectAlternativeName([alternative(one) for one in names]), critical=False)
    return made.sign(by.private if by else key, SHA256())


class Half(ssl.SSLSocket):
    """One that can still be read after its sending side was shut down."""

    def shutdown(self, how: int) -> None:
        socket.socket.shutdown(self, how)


def trusting(authority: Authority, own: Pair | None = None, **settings: object) -> ssl.SSLContext:
    """A client's context. own: the certificate that the client shows; settings: attributes of the context."""
    context = ssl.create_default_context(cafile=str(authority.file))
    context.sslsocket_class = Half
    if own:
        context.load_cert_chain(own.cert, own.key)
    for key, value in settings.items():
        setattr(context, key, value)
    return context


def readable(folder: Path) -> Path:
    """Lets a daemon of another account read what is in the folder."""
    folder.chmod(0o755)
    return folder


def settings_of(pair: Pair, **more: object) -> dict[str, Any]:
    """The settings of a daemon that shows this certificate."""
    return {"QUEEND_TLS_CERT": pair.cert, "QUEEND_TLS_KEY": pair.key, **more}
