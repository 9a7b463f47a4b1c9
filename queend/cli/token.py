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
from .push import milliseconds
from .remote import USAGE, Stop, ending
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
    """Create a token for HS256, signed with the environment's JWT_SECRET, and print it. --queues is stored in the claim
    that the environment's QUEEND_JWT_QUEUES_CLAIM names."""
    secret = os.environ.get("JWT_SECRET")
    if not secret:
        raise Stop("JWT_SECRET is not set", USAGE,
                   "set it to the secret of the daemon; tokens of other algorithms come from their own issuer")
    import jwt

    now = int(time.time())
    claims: dict[str, Any] = {"sub": subject, "role": role.value, "iat": now, "exp": now + milliseconds(lasts) // 1000}
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
        head, claims = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
                        for part in text.strip().split(".")[:2])
    except OSError as error:
        raise Stop(f"cannot read the token in {file}: {error.strerror}", USAGE) from None
    except ValueError as error:
        raise Stop(f"invalid token: {error}" if text.strip() else "there is no token", USAGE,
                   "" if file or text.strip() else "set QUEEND_TOKEN, or name a file") from None
    say(*dump({"header": head, "claims": claims}, 2).split("\n"))
    if isinstance(claims, dict) and isinstance(claims.get("exp"), (int, float)) and claims["exp"] < time.time():
        raise Stop("the token has expired")
