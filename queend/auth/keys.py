"""Keys that verify tokens: a shared secret, a public key in PEM, or a fetched set (queend/auth/jwks.py)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

if TYPE_CHECKING:
    from ..settings.model import Settings

HS256, RS256, EDDSA = "HS256", "RS256", "EdDSA"
# what a token's header may name for each algorithm
SPELLED = {HS256: (HS256,), RS256: ("RS256", "RS384", "RS512"), EDDSA: (EDDSA,)}
RSA_BITS = 2048


def usable(settings: Settings) -> None:
    """Raises ValueError, naming the setting, if tokens could not be verified, or would be verified by another key than
    the settings intend."""
    algorithm, url = settings.jwt_algorithm, settings.jwt_jwks_url
    if algorithm == HS256 and not settings.jwt_secret:
        raise ValueError("JWT_SECRET is not set; JWT_ENABLED with JWT_ALGORITHM HS256 requires it")
    if algorithm in (RS256, EDDSA) and not settings.jwt_public_key and not url:
        raise ValueError(f"JWT_PUBLIC_KEY is not set; JWT_ENABLED with JWT_ALGORITHM {algorithm} requires it, or "
                         "JWT_JWKS_URL")
    if algorithm == "auto" and not (settings.jwt_secret or settings.jwt_public_key or url):
        raise ValueError("JWT_ALGORITHM auto requires JWT_SECRET, JWT_PUBLIC_KEY or JWT_JWKS_URL")
    if settings.jwt_secret:
        try:
            jwt.get_algorithm_by_name(HS256).prepare_key(settings.jwt_secret)
        except jwt.InvalidKeyError:
            raise ValueError("JWT_SECRET contains a public or private key of another algorithm, which may be known to "
                             "others") from None
    if settings.jwt_public_key:
        try:
            key = key_of_pem(settings.jwt_public_key)
        except BadKey as error:
            raise ValueError(f"JWT_PUBLIC_KEY: {error}") from None
        if algorithm in (RS256, EDDSA) and key.algorithm != algorithm:
            raise ValueError(f"JWT_PUBLIC_KEY is a key for {key.algorithm}, but JWT_ALGORITHM is {algorithm}")
    if url:
        try:
            parts = urlsplit(url)
            good = (parts.scheme == "https" and parts.hostname and parts.port != 0 and not parts.username
                    and url.isascii() and url.isprintable() and " " not in url)
        except ValueError:
            good = False
        if not good:
            raise ValueError("JWT_JWKS_URL must be an https URL without user and password")


class BadKey(ValueError):
    """A key that cannot be used; the message says why and quotes no part of it."""


@dataclass(frozen=True)
class Key:
    """One public key for RS256 or EdDSA."""

    algorithm: str
    id: str | None
    public: Any
    only: str | None = None    # the only spelling that the key set allows for it

    def same(self, other: Key) -> bool:
        return (self.algorithm, self.id, self.only) == (other.algorithm, other.id,
                                                        other.only) and self.public == other.public


def key_of_pem(pem: str) -> Key:
    """Reads an RSA or Ed25519 key. A literal `\\n` counts as a line end, because environments have trouble with real
    ones."""
    try:
        public = load_pem_public_key(pem.replace("\\n", "\n").strip().encode())
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey("it is not a public key in PEM format") from None
    return Key(_algorithm(public), None, public)


def key_of_jwk(jwk: Any) -> Key:
    """Reads one member of a key set, RSA (n, e) or OKP Ed25519 (x). Raises BadKey for every other."""
    if not isinstance(jwk, dict):
        raise BadKey("it is not an object")
    uses = jwk.get("key_ops", ["verify"])
    if jwk.get("use", "sig") != "sig" or not isinstance(uses, list) or "verify" not in uses:
        raise BadKey("it is not a signature key")
    kid, only = jwk.get("kid"), jwk.get("alg")
    if not isinstance(kid, (str, type(None))) or not isinstance(only, (str, type(None))):
        raise BadKey("kid and alg must be strings")
    try:
        if jwk.get("kty") == "RSA":
            public = jwt.algorithms.RSAAlgorithm.from_jwk({name: jwk[name] for name in ("kty", "n", "e")})
        elif jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519":
            public = jwt.algorithms.OKPAlgorithm.from_jwk({name: jwk[name] for name in ("kty", "crv", "x")})
        else:
            raise BadKey("it is neither an RSA nor an Ed25519 key")
    except BadKey:
        raise
    except Exception:          # the numbers are untrusted: they may break the parsers
        raise BadKey("it is malformed") from None
    key = Key(_algorithm(public), kid, public, only)
    if only is not None and only not in SPELLED[key.algorithm]:
        raise BadKey("its alg does not match its key type")
    return key


def _algorithm(public: Any) -> str:
    if isinstance(public, Ed25519PublicKey):
        return EDDSA
    if not isinstance(public, RSAPublicKey):
        raise BadKey("it is neither an RSA nor an Ed25519 key")
    if public.key_size < RSA_BITS:
        raise BadKey(f"RSA keys must have at least {RSA_BITS} bits")
    return RS256
