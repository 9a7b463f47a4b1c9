"""Rights of a request's token on a queue, for routes that learn only themselves which queue it is."""
from __future__ import annotations

from typing import Any

from fastapi import Request

from ...auth.permits import allows
from ...auth.refused import lacking
from .answer import Refusal


def limits(request: Request) -> Any:
    """Returns the queue rules of the request's token; None if it has no limits, or tokens are off."""
    grant = getattr(request.state, "grant", None)
    return grant and grant.rules


def permit(request: Request, verb: int, *queues: str | None, group: str | None = None) -> None:
    """Refuses a token that lacks one of the verbs for one of these queues, on behalf of the group. None stands for an
    unknown queue: only tokens without limits pass."""
    rules = limits(request)
    for queue in queues if rules is not None else ():
        if queue is None or not allows(rules, queue, verb, group):
            raise Refusal(403, lacking(verb, queue, group), "forbidden")
