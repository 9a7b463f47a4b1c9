"""Tokens made by hand from real keys, so that also those exist which no library would make."""
from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SECRET = "a secret of tests, which is long enough for HS256"
HASHES = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@cache
def rsa_key(name: str = "one", bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ed_key(name: str = "one") -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def pem(key: Any) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def jwk(key: Any, kid: str | None = None, **more: Any) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(key, Ed25519PrivateKey):
        members = {"kty": "OKP", "crv": "Ed25519", "x": b64(public.public_bytes(Encoding.Raw, PublicFormat.Raw))}
    else:
        numbers = public.public_numbers()
        members = {"kty": "RSA", "n": b64(numbers.n.to_bytes(public.key_size // 8, "big")),
                   "e": b64(numbers.e.to_bytes(3, "big"))}
    return {**members, **({"kid": kid} if kid else {}), **more}


def sign(algorithm: str, key: Any, text: bytes) -> bytes:
    if algorithm.startswith("HS"):
        return hmac.digest(key.encode() if isinstance(key, str) else key, text, "sha" + algorithm[2:])
    if algorithm == "EdDSA":
        return key.sign(text)
    if algorithm.startswith("RS"):
        return key.sign(text, padding.PKCS1v15(), HASHES[algorithm[2:]]())
    return b""


LATER = 4_000_000_000      # s since 1970


def token(algorithm: str = "HS256", key: Any = SECRET, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A token; times are given in seconds from now (exp=60). It lasts until 2096 unless told otherwise (the
    same at any moment: the name of a test may hold one), with exp=None for ever."""
    now = int(time.time())
    claims.setdefault("exp", LATER - now)
    if claims["exp"] is None:
        del claims["exp"]
    claims = {name: now + value if name in ("exp", "nbf", "iat") and isinstance(value, (int, float)) else value
              for name, value in claims.items()}
    head = {"alg": algorithm, "typ": "JWT", **(header or {})}
    text = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{text}.{b64(sign(algorithm, key, text.encode()))}"


def writer(subject: str = "svc", **claims: Any) -> str:
    return token(sub=subject, role="read-write", **claims)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}
