"""A TLS client whose encrypted bytes a test sends as it likes: in pieces, late, cut off; and records that no client
would make."""
from __future__ import annotations

import hmac
import socket
import ssl
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, HashAlgorithm
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from .wait import PATIENCE


class Records:
    """A session on a socket of its own. `sealed` holds what the session wants to send; nothing leaves by itself."""

    def __init__(self, port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.came, self.sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.came, self.sealed, server_hostname="localhost", session=session)

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def hello(self) -> bytes:
        """The first bytes of a handshake."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self.sealed.read()

    def shake(self, size: int = 1 << 20) -> Records:
        """The whole handshake, in pieces of so many bytes."""
        while True:
            try:
                self.tls.do_handshake()
                return self.send(size=size)
            except ssl.SSLWantReadError:
                self.send(size=size)
                self.receive_some()

    def send(self, data: bytes = b"", size: int = 1 << 20) -> Records:
        """Encrypts and sends, in pieces of so many bytes."""
        if data:
            self.tls.write(data)
        raw = self.sealed.read()
        for at in range(0, len(raw), size):
            self.socket.sendall(raw[at:at + size])
        return self

    def receive_some(self) -> None:
        """Takes encrypted bytes. An end of the connection becomes one of the session."""
        if raw := self.socket.recv(1 << 18):
            self.came.write(raw)
        else:
            self.came.write_eof()

    def read(self, n: int) -> bytes:
        """Exactly n plain bytes; fewer if the server ends the session with close_notify before."""
        out = b""
        while len(out) < n:
            try:
                got = self.tls.read(min(n - len(out), 1 << 18))
            except ssl.SSLWantReadError:
                self.receive_some()
                continue
            except ssl.SSLZeroReturnError:
                break
            if not got:
                break
            out += got
        return out

    def ends(self) -> bytes:
        """All plain bytes until the server's close_notify. Raises SSLEOFError if the connection ends without."""
        return self.read(1 << 40)

    def farewell(self) -> Records:
        """Sends close_notify; the connection stays open."""
        try:
            self.tls.unwrap()
        except (ssl.SSLWantReadError, ssl.SSLSyscallError):
            pass
        return self.send()


class OldSealer:
    """Makes records of a client in TLS 1.2 itself (RFC 5246, 5288), behind those that a session has sent."""

    def __init__(self, log: Path, client: Records, random: bytes, sent: int):
        """random: of the server; sent: records with data."""
        line = [line for line in log.read_text().splitlines() if line.startswith("CLIENT_RANDOM")][-1]
        own, master = map(bytes.fromhex, line.split()[1:])
        cipher = client.tls.cipher()[0]
        name, size = ("sha384", 32) if cipher.endswith("SHA384") else ("sha256", 16)
        seed, block = b"key expansion" + random + own, b""
        at = seed
        while len(block) < 2 * size + 4:
            at = hmac.digest(master, at, name)
            block += hmac.digest(master, at + seed, name)
        self.key, self.salt, self.sent = block[:size], block[2 * size:2 * size + 4], 1 + sent    # and Finished

    def record(self, kind: int, plain: bytes) -> bytes:
        """One record; kind: 22 for a message of the handshake, 23 for data."""
        number = self.sent.to_bytes(8, "big")
        self.sent += 1
        head = bytes([kind]) + b"\3\3"
        sealed = AESGCM(self.key).encrypt(self.salt + number, plain, number + head + len(plain).to_bytes(2, "big"))
        return head + (len(sealed) + 8).to_bytes(2, "big") + number + sealed


class Sealer:
    """Makes records of a client in TLS 1.3 itself (RFC 8446), with the secrets of a session that has sent `sent`
    records of data. log: the session's keylog_filename."""

    def __init__(self, log: Path, cipher: str, sent: int = 0):
        lines = [line.split() for line in log.read_text().splitlines()]
        self.secret = bytes.fromhex([line[2] for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0"][-1])
        self.hash: HashAlgorithm = SHA384() if cipher.endswith("SHA384") else SHA256()
        self.size = 32 if "256_GCM" in cipher else 16
        self.sent = sent

    def _derived(self, label: str, size: int) -> bytes:
        name = b"tls13 " + label.encode()
        info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
        return HKDFExpand(self.hash, size, info).derive(self.secret)

    def record(self, kind: int, plain: bytes) -> bytes:
        """One record; kind: 22 for a message of the handshake, 23 for data."""
        number = int.from_bytes(self._derived("iv", 12), "big") ^ self.sent
        self.sent += 1
        head = b"\x17\x03\x03" + (len(plain) + 17).to_bytes(2, "big")
        return head + AESGCM(self._derived("key", self.size)).encrypt(number.to_bytes(12, "big"),
                                                                       plain + bytes([kind]), head)

    def new_keys(self, asks: bool = True) -> bytes:
        """A KeyUpdate. asks: the server is to send one of its own."""
        return b"".join(self.new_keys_in_two(0, asks))

    def new_keys_in_two(self, cut: int, asks: bool = True) -> tuple[bytes, bytes]:
        """A KeyUpdate in two records; cut: bytes of the first one, 0: there is only the second one."""
        message = b"\x18\0\0\1" + bytes([asks])
        made = self.record(22, message[:cut]) if cut else b"", self.record(22, message[cut:])
        self.secret, self.sent = self._derived("traffic upd", self.hash.digest_size), 0
        return made
