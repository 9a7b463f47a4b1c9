"""Turns a bearer token into a grant: signature, times, issuer and audience, role, queues."""
from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jwt
from jwt.warnings import InsecureKeyLengthWarning

from .. import log
from .jwks import KeySet
from .keys import HS256, SPELLED, Key, key_of_pem
from .levels import ADMIN, READ, WRITE
from .permits import Rules, rules_of
from .refused import EXPIRED, VERIFICATION_FAILED, Refused, unverified

if TYPE_CHECKING:
    from ..settings.model import Settings

warnings.filterwarnings("ignore", category=InsecureKeyLengthWarning)   # logged at start instead
TOKEN_BYTES = 16 << 10
SECRET_BYTES = 32
SUBJECT_BYTES = 255
NEVER_US = 1 << 62
WORDS = {  # names of failed checks
    jwt.ExpiredSignatureError: EXPIRED, jwt.ImmatureSignatureError: "Token is not valid yet",
    jwt.InvalidSignatureError: "Invalid token signature",
    jwt.InvalidIssuerError: "Invalid token issuer: iss must be the text that JWT_ISSUER names",
    jwt.InvalidAudienceError: "Invalid token audience: aud must be or contain the text that JWT_AUDIENCE names",
}
NEEDED_BY = {"iss": "JWT_ISSUER", "aud": "JWT_AUDIENCE"}
MOMENTS = ("exp", "nbf", "iat")


def why_refused(error: jwt.InvalidTokenError) -> str:
    """Describes a failed check of a token whose signature was checked: names the claim, never its value."""
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"Token has no {error.claim}, which {NEEDED_BY.get(error.claim, 'the daemon')} requires"
    if type(error) in (jwt.DecodeError, jwt.InvalidIssuedAtError):
        for claim in MOMENTS:
            if f"({claim})" in str(error):
                return f"{claim} must be a number of seconds since 1970"
    if isinstance(error, jwt.ImmatureSignatureError) and "(iat)" in str(error):
        return "Token is not valid yet: its iat is in the future"
    return WORDS.get(type(error), "Malformed token")


class WrongSignature(Refused):
    """The key does not verify the signature of the token."""


def usable(key: Key | None, spelled: str) -> Key:
    """Returns a key of the key set if it is known and may be used with this algorithm. Raises Refused."""
    if key is None or key.only not in (None, spelled):
        raise unverified("Unknown key")
    return key


@dataclass(frozen=True)
class Grant:
    """The rights of a token. level: 0 without a role. rules: None without limits. expires_us: since the epoch, skew
    included."""

    level: int
    subject: str
    expires_us: int
    rules: Rules | None


class Verifier:
    """Verifies tokens with the keys of the settings. Requires `open` and `close` on the running loop. changed: called
    when cached grants are void. before: the verifier of the settings before; the keys of its key set are used until the
    set is fetched, if it is the same set."""

    def __init__(self, settings: Settings, changed: Callable[[], None], before: Verifier | None = None):
        self.settings = settings
        self.secret = settings.jwt_secret.encode()
        self.key = key_of_pem(settings.jwt_public_key) if settings.jwt_public_key else None
        self.set = None
        if settings.jwt_jwks_url and self.key is None:
            self.set = KeySet(settings.jwt_jwks_url, settings.jwt_jwks_refresh_interval,
                              settings.jwt_jwks_timeout_ms / 1000,
                              settings.queend_jwt_jwks_pause_ms / 1000, settings.queend_jwt_jwks_private, changed)
            if before and before.set:
                self.set.take_over(before.set)
        self.algorithms = self._algorithms()
        if 0 < len(self.secret) < SECRET_BYTES and HS256 in self.algorithms:
            log.line("warn", "secret_short", f"JWT_SECRET has fewer than {SECRET_BYTES} bytes: it can be guessed from "
                                             "a token")
        self.roles = {settings.jwt_role_admin: ADMIN, settings.jwt_role_read_write: WRITE,
                      settings.jwt_role_read_only: READ}
        self.reader = jwt.PyJWT({"verify_aud": bool(settings.jwt_audience), "verify_iss": bool(settings.jwt_issuer),
                                 "verify_jti": False, "verify_sub": False})

    def _algorithms(self) -> dict[str, str]:
        """Returns the accepted algorithm names of a header → the algorithm. `auto` accepts those that have a key."""
        wanted = self.settings.jwt_algorithm
        names = [wanted] if wanted != "auto" else [name for name in SPELLED if (
            self.secret if name == HS256 else self.key.algorithm == name if self.key else self.set)]
        return {spelled: name for name in names for spelled in SPELLED[name]}

    def open(self) -> None:
        if self.set:
            self.set.open()

    async def close(self) -> None:
        if self.set:
            await self.set.close()

    def refresh(self) -> None:
        """Fetches the key set again, if there is one, without waiting for it."""
        if self.set:
            self.set.refresh()

    async def verify(self, bearer: bytes) -> Grant:
        """Returns the grant of a token. Raises Refused. Waits only if a key set has to be fetched."""
        if len(bearer) > TOKEN_BYTES:
            raise Refused(401, f"Token decode error: more than {TOKEN_BYTES} bytes")
        try:
            header = jwt.get_unverified_header(bearer)
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            raise Refused(401, "Token decode error: no JSON Web Token") from None
        spelled: Any = header.get("alg")
        if not isinstance(spelled, str) or spelled not in self.algorithms:
            raise self._wrong(spelled)
        algorithm, kid = self.algorithms[spelled], header.get("kid")
        if algorithm == HS256:
            return self._grant(self._claims(bearer, self.secret, spelled))
        if self.key:
            return self._grant(self._claims(bearer, self.key.public, spelled))
        assert self.set
        kid = kid if isinstance(kid, str) else None
        key = usable(await self.set.find(algorithm, kid), spelled)
        try:
            claims = self._claims(bearer, key.public, spelled)
        except WrongSignature:
            # The issuer may have given the id to another key since the last fetch.
            other = await self.set.find_instead(key, algorithm, kid)
            if other is None:
                raise
            claims = self._claims(bearer, usable(other, spelled).public, spelled)
        return self._grant(claims)

    def _claims(self, bearer: bytes, key: Any, spelled: str) -> dict[str, Any]:
        """Returns the claims of a token that this key verifies. Raises Refused, WrongSignature."""
        settings = self.settings
        try:
            return self.reader.decode(bearer, key, algorithms=[spelled], audience=settings.jwt_audience or None,
                                      issuer=settings.jwt_issuer or None, leeway=settings.jwt_clock_skew)
        except jwt.InvalidSignatureError as error:
            raise WrongSignature(401, VERIFICATION_FAILED + why_refused(error)) from None
        except jwt.InvalidTokenError as error:
            raise unverified(why_refused(error)) from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise unverified("Malformed token") from None

    def _wrong(self, spelled: Any) -> Refused:
        # The header comes from the client: the answer quotes only what looks like the name of an algorithm.
        sound = isinstance(spelled, str) and len(spelled) <= 16 and spelled.isascii() and spelled.isalnum()
        name = spelled if sound else "another algorithm"
        if self.settings.jwt_algorithm == "auto":
            return Refused(401, f"Unsupported algorithm: {name}")
        return Refused(401, f"Token uses {name}, expected {self.settings.jwt_algorithm}")

    def _grant(self, claims: dict[str, Any]) -> Grant:
        settings = self.settings
        named = claims.get(settings.jwt_roles_array_claim)
        roles = [claims.get(settings.jwt_roles_claim), *(named if isinstance(named, list) else ())]
        level = max((self.roles.get(role, 0) for role in roles if isinstance(role, str) and role), default=0)
        subject = "" if claims.get("sub") is None else claims["sub"]
        if (not isinstance(subject, str) or len(subject.encode(errors="surrogatepass")) > SUBJECT_BYTES
                or "\0" in subject or any("\ud800" <= c <= "\udfff" for c in subject)):
            raise unverified(f"sub must be a text of at most {SUBJECT_BYTES} bytes")
        limits = settings.queend_jwt_queues_claim
        rules: list[tuple[bytes, int, bytes | None]] | None
        if limits and limits in claims:
            rules = rules_of(limits, claims[limits])      # null is malformed
        else:
            rules = [] if settings.jwt_require_queues else None
        expires = NEVER_US
        if settings.jwt_require_exp and "exp" not in claims:
            raise unverified("Token has no exp, which JWT_REQUIRE_EXP requires")
        if "exp" in claims:
            expires = min(NEVER_US, (int(claims["exp"]) + settings.jwt_clock_skew) * 1_000_000)
        if expires <= time.time() * 1e6:      # expired since the check
            raise unverified(EXPIRED)
        return Grant(level, subject, expires, rules)
