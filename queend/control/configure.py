"""POST /api/v1/configure: create a queue or set all its options anew."""
from __future__ import annotations

from typing import Any

import orjson
import psycopg
from fastapi import APIRouter, Request
from psycopg.types.json import Jsonb

from .answer import Json, Refusal, body_object

router = APIRouter()

LARGEST = 2**31 - 1
# smallest and largest value; seconds but for retryDelay (ms), retryLimit, maxSize (messages) and priority (the higher the sooner)
NUMBERS = {**{name: (0, LARGEST) for name in ("leaseTime", "retryLimit", "retryDelay", "maxSize", "ttl", "delayedProcessing", "windowBuffer",
                                             "retentionSeconds", "completedRetentionSeconds", "maxWaitTimeSeconds")},
           "priority": (-1_000_000, 1_000_000)}
FLAGS = ("deadLetterQueue", "dlqAfterMaxRetries", "retentionEnabled", "encryptionEnabled")
BACKOFF = {"oneOf": [
    {"type": "array", "minItems": 1, "maxItems": 32, "items": {"type": "integer", "minimum": 0, "maximum": LARGEST}},
    {"type": "object", "required": ["type", "initial"], "properties": {
        "type": {"const": "exponential"}, "initial": {"type": "integer", "minimum": 1, "maximum": LARGEST},
        "multiplier": {"type": "number", "minimum": 1, "maximum": 1000}, "max": {"type": "integer", "minimum": 1, "maximum": LARGEST},
        "jitter": {"type": "number", "minimum": 0, "maximum": 1}}}]}
TRUTH = {True: True, False: False, "true": True, "false": False}


@router.post("/api/v1/configure", tags=["queues"], openapi_extra={"requestBody": {"required": True, "content": {"application/json": {
    "schema": {"type": "object", "required": ["queue"], "properties": {
        "queue": {"type": "string", "minLength": 1, "maxLength": 255}, "namespace": {"type": "string"}, "task": {"type": "string"},
        "options": {"type": "object", "properties": {
            **{name: {"type": "integer", "minimum": least, "maximum": most} for name, (least, most) in NUMBERS.items()},
            **{name: {"type": "boolean"} for name in FLAGS}, "retryBackoff": BACKOFF}}}}}}}})
async def configure(request: Request) -> Json:
    """Creates the queue if there is none; every option not sent returns to its default."""
    body = await body_object(request)
    queue = body.get("queue")
    if not isinstance(queue, str) or not queue:
        raise Refusal(400, "queue is required", "queue_required")
    for field in ("queue", "namespace", "task"):
        _check_name(field, body.get(field))
    options = checked_options(body.get("options"))
    control = request.app.state.control
    async with control.pool.connection() as connection:
        try:
            row = await (await connection.execute("SELECT queend.configure(%s, %s, %s, %s)", (
                queue, _text(body.get("namespace")), _text(body.get("task")), Jsonb(options, orjson.dumps)))).fetchone()
        except psycopg.errors.InvalidParameterValue as error:      # an option with a form of its own, checked where it is kept
            raise _bad(f"options.{error.diag.message_primary}") from None
    control.core.notify(queue, moved=False)
    return Json(row[0])


def checked_options(value: Any) -> dict[str, Any]:
    """The known options with their own types; numbers and booleans may come as text. Refuses everything else by name.

    `retryBackoff` is passed on as it came: queend.backoff_read knows its forms.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _bad("options must be an object")
    options: dict[str, Any] = {}
    for name, given in value.items():
        if given is None:
            continue
        if name in NUMBERS:
            options[name] = _number(name, given)
        elif name in FLAGS:
            if not isinstance(given, (bool, str)) or given not in TRUTH:
                raise _bad(f"options.{name} must be true or false")
            options[name] = TRUTH[given]
        elif name == "retryBackoff":
            options[name] = given
    return options


def _number(name: str, given: Any) -> int:
    if isinstance(given, str) and given.isascii() and given.removeprefix("-").isdigit() and len(given) < 20:
        given = int(given)
    least, most = NUMBERS[name]
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise _bad(f"options.{name} must be an integer from {least} to {most}")
    return given


def _bad(error: str) -> Refusal:
    return Refusal(400, error, "invalid_option", success=False)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _check_name(field: str, value: Any) -> None:
    if isinstance(value, str) and (len(value) > 255 or "\0" in value):
        raise Refusal(400, f"{field} must have at most 255 characters and no NUL", "invalid_name")
