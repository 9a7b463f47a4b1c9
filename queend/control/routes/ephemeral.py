"""Ephemeral queues: options, reset, deletion, figures. Push, pop and ack are routes of the core (core/ephemeral)."""
from __future__ import annotations

from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response

from ...auth.levels import READ, READS, WRITE
from ...auth.permits import allows
from ...services.declarations import DEFAULTS
from ..http.answer import Json, PathName, Refusal, is_whole
from ..http.body import body_object
from ..http.rights import limits
from ..http.route import Routes
from ..http.schema import FLAG, INTEGER, NAME, TEXT, array, body, like, parameter, record, whole
from ..http.schemas import integers

router = Routes("ephemeral")

LINES = {"queend-durable": "false"}
RANGES = {"maxBytes": (1, 1 << 40), "maxLength": (1, 10_000_000), "ttlSeconds": (0, 86_400),
          "leaseSeconds": (1, 86_400), "retryLimit": (0, 1000)}
WINDOW = {"ms": (0, 60_000), "count": (0, 10_000)}
POLICIES = ("reject", "dropOldest")


def number(low: int, high: int) -> dict[str, Any]:
    return {**INTEGER, "minimum": low, "maximum": high}


OPTIONS = {name: {**number(*RANGES[name]), "default": DEFAULTS[name]} for name in RANGES} | {
    "policy": {"enum": list(POLICIES), "default": "reject"},
    "windowBuffer": {"type": "object", "properties": {name: number(*of) for name, of in WINDOW.items()}}}
SHOWN = whole(**{name: OPTIONS[name] for name in DEFAULTS if name != "windowBuffer"},
              windowBuffer=whole(**integers("ms", "count")))
QUEUE_SHAPE = whole(queue=TEXT, tier=TEXT, durable=FLAG, declared=FLAG,
                    **integers("depth", "bytes", "partitions", "groups", "waiting"),
                    drops=whole(**integers("bounds", "ttl", "retry")), options=SHOWN)


def core_of(request: Request) -> Any:
    """Returns the core; refuses the request if this daemon has no ephemeral queues, in the core's words."""
    core = request.app.state.control.core
    figures = core.ephemeral_figures()
    if figures["limit"] == 0:
        raise Refusal(503, "Ephemeral queues are switched off (QUEEND_EPHEMERAL_BYTES is 0)", "ephemeral_disabled",
                      {"retry-after": "1"})
    if figures["peers"]:
        raise Refusal(503, "Ephemeral queues need a daemon without peers: each lives in the memory of one daemon",
                      "ephemeral_unavailable", {"retry-after": "1"})
    return core


async def named(request: Request) -> tuple[str, dict[str, Any]]:
    """Returns the queue that the body names, and the body."""
    sent = await body_object(request)
    return name_of(sent.get("queue")), sent


def name_of(queue: Any) -> str:
    if not isinstance(queue, str) or not queue or len(queue.encode()) > 255 or "\0" in queue:
        raise Refusal(400, "queue must be valid text of 1 to 255 bytes", "queue_required")
    return queue


def checked(options: Any) -> dict[str, Any]:
    """Returns the options that a request gives. null restores a default. Refuses an unknown option."""
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise bad("options must be an object")
    for name, value in options.items():
        if name not in DEFAULTS:
            raise bad(f"options.{name} is unknown; known are {', '.join(DEFAULTS)}")
        if value is None:
            continue
        if name == "policy":
            if value not in POLICIES:
                raise bad("options.policy must be reject or dropOldest")
        elif name == "windowBuffer":
            _check_window(value)
        else:
            _check_number(f"options.{name}", value, RANGES[name])
    return options


def _check_window(value: Any) -> None:
    if not isinstance(value, dict) or value.keys() - WINDOW.keys():
        raise bad("options.windowBuffer must be an object with ms and count")
    for name, of in value.items():
        _check_number(f"options.windowBuffer.{name}", of, WINDOW[name])


def _check_number(name: str, value: Any, bounds: tuple[int, int]) -> None:
    if not is_whole(value) or not bounds[0] <= value <= bounds[1]:
        raise bad(f"{name} must be a whole number from {bounds[0]} to {bounds[1]}")


def bad(error: str) -> Refusal:
    return Refusal(400, error, "invalid_option")


@router.declare("POST /api/v1/ephemeral/configure", WRITE, whole(queue=TEXT, configured=FLAG, durable=FLAG,
                                                                 options=SHOWN),
                where="body.queue", own=True, status_code=201, body=body(record(
                    ["queue"], queue={**NAME, "minLength": 1}, options={"type": "object", "properties": OPTIONS})),
                example={"queue": "presence", "options": {"ttlSeconds": 60, "policy": "dropOldest"}})
async def ephemeral_configure(request: Request) -> Json:
    """Declares an ephemeral queue: the options are stored in the database, the messages never are. Options that are not
    named keep their values; `null` restores a default."""
    core_of(request)
    queue, sent = await named(request)
    options = await request.app.state.control.declarations.declare(queue, checked(sent.get("options")))
    if options is None:
        raise Refusal(409, "There are too many ephemeral queues, or their memory is full", "bound_reached")
    return Json({"queue": queue, "configured": True, "durable": False, "options": options}, 201, LINES)


@router.declare("POST /api/v1/ephemeral/reset", WRITE, whole(queue=TEXT, dropped=INTEGER, durable=FLAG),
                where="body.queue", own=True, body=body(record(["queue"], queue={**NAME, "minLength": 1})),
                example={"queue": "presence"})
async def ephemeral_reset(request: Request) -> Json:
    """Drops all messages of an ephemeral queue. Its leases and the ids of its messages become void; its options
    stay."""
    core = core_of(request)
    queue, _ = await named(request)
    return Json({"queue": queue, "dropped": core.ephemeral_reset(queue.encode()), "durable": False}, headers=LINES)


@router.declare("DELETE /api/v1/ephemeral/queue/{queue}", WRITE,
                whole(queue=TEXT, deleted=FLAG, declared=FLAG, durable=FLAG), own=True, exact=True)
async def ephemeral_delete(request: Request, queue: PathName) -> Json:
    """Deletes an ephemeral queue, its messages, and its options. `deleted` is false if the queue was unknown,
    `declared` says whether it had options."""
    core = core_of(request)
    name_of(queue)
    declared = await request.app.state.control.declarations.forget(queue)
    deleted = core.ephemeral_delete(queue.encode())
    return Json({"queue": queue, "deleted": deleted, "declared": declared, "durable": False}, headers=LINES)


@router.declare("GET /api/v1/ephemeral/queues", READ, whole(
    queues=array(QUEUE_SHAPE), count=INTEGER, cellBytes=INTEGER, limitBytes=INTEGER, durable=FLAG), where="itself",
    own=True)
async def ephemeral_queues(request: Request) -> Json:
    """Lists the ephemeral queues of this daemon, declared ones and those that a push or pop created. `cellBytes` is the
    memory of all of them, `limitBytes` its bound. With a token that is limited to queues, only those that it may read
    are listed."""
    core, rules = core_of(request), limits(request)
    queues = orjson.loads(core.ephemeral_queues())
    queues = sorted((one for one in queues if rules is None or allows(rules, one["queue"], READS, None)),
                    key=lambda one: one["queue"])
    figures = core.ephemeral_figures()
    return Json({"queues": queues, "count": len(queues), "cellBytes": figures["bytes"], "limitBytes": figures["limit"],
                 "durable": False}, headers=LINES)


@router.declare("GET /api/v1/ephemeral/queues/{queue}/depth", READ, like(whole(
    queue=TEXT, group={"type": ["string", "null"]},
    partitions=array(whole(partition=TEXT, **integers("pending", "bytes"))),
    groups=array(whole(group=TEXT, **integers("pending", "leased", "skipped"))),
    **integers("pending", "partitionsPending", "bytes"), tier=TEXT, durable=FLAG),
    {"queue": "presence", "group": None, "partitions": [{"partition": "Default", "pending": 2, "bytes": 34}],
     "groups": [], "pending": 2, "partitionsPending": 1, "bytes": 34, "tier": "memory", "durable": False}),
                [parameter("group", NAME, "the group whose messages are counted; default: all that the queue holds")],
                own=True)
async def ephemeral_depth(request: Request, queue: PathName) -> Response:
    """Returns how many messages an ephemeral queue holds: those that the group has not completed, or without `group`
    all of them. 404 with the code `ephemeral_queue_not_found` if this daemon has no such queue."""
    core, group = core_of(request), request.query_params.get("group") or None
    rest = core.ephemeral_depth(queue.encode(), None if group is None else group.encode())
    if rest is None:
        raise Refusal(404, "Ephemeral queue not found", "ephemeral_queue_not_found")
    head = orjson.dumps({"queue": queue, "group": group})
    return Response(head[:-1] + b"," + rest, headers=LINES, media_type="application/json")
