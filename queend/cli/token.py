"""queend token: mints tokens, and prints what one says."""
from __future__ import annotations

import base64
import json
import os
import sys
import time
from enum import StrEnum
from typing import Annotated, Any, Optional

import typer

from .output import dump
from .remote import USAGE, Stop, ending, seconds
from .terminal import say

token = typer.Typer(no_args_is_help=True, help="Create and inspect tokens: mint, inspect.")


class Role(StrEnum):
    read_only = "read-only"
    read_write = "read-write"
    admin = "admin"


@token.command()
@ending
def mint(subject: Annotated[str, typer.Argument(help="Subject of the token (sub).")],
         role: Annotated[Role, typer.Option(help="Role of the token.")] = Role.read_only,
         lasts: Annotated[str, typer.Option("--for", metavar="DURATION", help="Lifetime of the token.")] = "1d",
         queues: Annotated[Optional[list[str]], typer.Option(
             "--queues", metavar="PATTERN=VERBS", help="Limit the token to queues that match the pattern, with these "
                                                       "verbs, separated by commas: push, pop, read, manage, *; "
                                                       "pop:page-* limits pop to groups that match. Repeat it for more "
                                                       "patterns.")] = None) -> None:
    """Create a token for HS256, signed with the environment's JWT_SECRET, and print it. Claims follow JWT_ISSUER,
    JWT_AUDIENCE, JWT_ROLES_CLAIM, JWT_ROLE_ADMIN, JWT_ROLE_READ_WRITE, JWT_ROLE_READ_ONLY and QUEEND_JWT_QUEUES_CLAIM
    (for --queues) of the environment, which must be those of the daemon."""
    secret = os.environ.get("JWT_SECRET")
    if not secret:
        raise Stop("JWT_SECRET is not set", USAGE,
                   "set it to the secret of the daemon; tokens of other algorithms come from their own issuer")
    import jwt

    from ..auth.token import SECRET_BYTES, SUBJECT_BYTES

    lifetime = int(seconds(lasts, "--for", 1))
    if len(subject.encode()) > SUBJECT_BYTES:
        raise Stop(f"the subject has more than {SUBJECT_BYTES} bytes", USAGE, "the daemon would refuse the token")
    if len(secret.encode()) < SECRET_BYTES:
        say(f"JWT_SECRET has fewer than {SECRET_BYTES} bytes: it can be guessed from a token", err=True)
    now = int(time.time())
    named = os.environ.get("JWT_ROLE_" + role.name.upper()) or role.value
    claims: dict[str, Any] = {"sub": subject, os.environ.get("JWT_ROLES_CLAIM") or "role": named, "iat": now,
                              "exp": now + lifetime}
    claims |= {claim: os.environ[name] for claim, name in (("iss", "JWT_ISSUER"), ("aud", "JWT_AUDIENCE"))
               if os.environ.get(name)}
    if queues:
        claims |= _limits(queues)
    say(jwt.encode(claims, secret, algorithm="HS256"))


def _limits(queues: list[str]) -> dict[str, Any]:
    """Returns the claim that limits a token to queues."""
    from ..auth.permits import rules_of
    from ..auth.refused import Refused

    claim = os.environ.get("QUEEND_JWT_QUEUES_CLAIM")
    if not claim:
        raise Stop("QUEEND_JWT_QUEUES_CLAIM is not set", USAGE,
                   "set it as for the daemon; otherwise the daemon would not limit the token")
    limits: dict[str, list[str]] = {}
    for one in queues:
        pattern, equals, verbs = one.rpartition("=")
        if not equals or not pattern or not verbs:
            raise Stop(f"--queues {one} lacks a queue or a verb", USAGE,
                       "expected PATTERN=VERBS, like orders=push,pop")
        limits.setdefault(pattern, []).extend(verbs.split(","))
    try:
        rules_of(claim, limits)
    except Refused as error:
        raise Stop(error.error.removeprefix("Token verification failed: "), USAGE) from None
    return {claim: limits}


@token.command()
@ending
def inspect(file: Annotated[Optional[str], typer.Argument(help="File with the token; - reads standard input. Default: "
            "QUEEND_TOKEN.")] = None) -> None:
    """Print the header and the claims of a token. The signature is not checked."""
    text = os.environ.get("QUEEND_TOKEN", "") if file is None else ""
    try:
        if file is not None:
            text = sys.stdin.read(1 << 16) if file == "-" else open(file, encoding="ascii").read(1 << 16)
        if not text.strip():
            raise Stop("there is no token", USAGE, "" if file else "set QUEEND_TOKEN, or name a file")
        header, payload, _ = text.strip().split(".")
        head, claims = _object(header), _object(payload)
    except OSError as error:
        raise Stop(f"cannot read the token in {file}: {error.strerror}", USAGE) from None
    except (ValueError, RecursionError):
        raise Stop("this is no JSON Web Token", USAGE,
                   "expected three parts of base64url with dots between them, without `Bearer`") from None
    say(*dump({"header": head, "claims": claims}, 2).split("\n"))
    if isinstance(claims.get("exp"), (int, float)) and claims["exp"] < time.time():
        raise Stop("the token has expired")


def _object(part: str) -> dict[str, Any]:
    """Returns the JSON object in a part of a token. Raises ValueError."""
    found = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    if not isinstance(found, dict):
        raise ValueError
    return found
