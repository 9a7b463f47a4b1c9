"""POST /api/v1/configure: create a queue, or change options of one."""
from __future__ import annotations

from typing import Any

import orjson
import psycopg
from fastapi import Request
from psycopg.types.json import Jsonb

from ..auth.levels import WRITE
from .answer import Json, Refusal, body_object
from .options import BACKOFF, BadOption, OPTIONS, SWITCH, checked
from .route import Routes
from .shapes import DONE
from .words import FLAG, ID, INTEGER, TEXT, like, whole

router = Routes("queues")
OPTIONS_SHAPE = whole(
    "retryBackoff", **dict.fromkeys(("ttl", "maxSize", "priority", "leaseTime", "retryDelay", "retryLimit",
                                     "windowBuffer", "delayedProcessing", "retentionSeconds",
                                     "completedRetentionSeconds",
                                     "maxWaitTimeSeconds"), INTEGER),
    **dict.fromkeys(("deadLetterQueue", "dlqAfterMaxRetries", "retentionEnabled", "encryptionEnabled"), FLAG),
    retryBackoff=BACKOFF)

MODES = ("merge", "replace")


@router.declare("POST /api/v1/configure", WRITE,
                like(whole(configured=DONE, queueId=ID, partitionId=ID, queue=TEXT, namespace=TEXT, task=TEXT,
                           options=OPTIONS_SHAPE), {"configured": True,
                                                    "queueId": "797a957c-35c2-82ab-9eb6-1136a4b4fea3",
                                                    "partitionId": "6adeecbc-e3c4-8e66-800e-544443089915",
                                                    "queue": "orders", "namespace": "shop", "task": "billing",
                                                    "options": {"ttl": 3600, "maxSize": 0, "priority": 0,
                                                                "leaseTime": 60, "retryDelay": 1000, "retryLimit": 5,
                                                                "windowBuffer": 0, "delayedProcessing": 0,
                                                                "retentionSeconds": 0, "completedRetentionSeconds": 0,
                                                                "maxWaitTimeSeconds": 0, "deadLetterQueue": False,
                                                                "dlqAfterMaxRetries": False, "retentionEnabled": False,
                                                                "encryptionEnabled": False}}),
                where="body.queue",
                body={"required": True, "content": {"application/json": {"schema": {"type": "object",
                    "required": ["queue"], "properties": {"queue": {"type": "string", "minLength": 1, "maxLength": 255},
                                                          "namespace": {"type": "string"}, "task": {"type": "string"},
                                                          "mode": {"enum": list(MODES)},
                                                          "options": {"type": "object",
                                                                      "properties": {**{option.name: option.schema()
                                                                          for option in OPTIONS},
                                                                          SWITCH: {"enum": ["on", "off"]}}}}}}}},
                example={"queue": "orders", "namespace": "shop", "task": "billing",
                         "options": {"leaseTime": 60, "retryLimit": 5}})
async def configure(request: Request) -> Json:
    """Creates the queue if there is none. What is not named stays as it is; with `mode` `replace` it returns to its default."""
    body = await body_object(request)
    queue = body.get("queue")
    if not isinstance(queue, str) or not queue:
        raise Refusal(400, "queue is required", "queue_required")
    for field in ("queue", "namespace", "task"):
        _check_name(field, body.get(field))
    mode = body.get("mode")
    if mode not in (None, *MODES):
        raise Refusal(400, "mode must be merge or replace", "invalid_mode", success=False)
    control = request.app.state.control
    try:
        options = checked(body.get("options"))
    except BadOption as error:
        raise _bad(str(error)) from None
    options["mode"] = mode or ("reset" if control.settings.queend_configure_replaces else "merge")
    async with control.pool.connection() as connection:
        try:
            row = await (await connection.execute("SELECT queend.configure(%s, %s, %s, %s)", (
                queue, _text(body.get("namespace")), _text(body.get("task")), Jsonb(options, orjson.dumps)))).fetchone()
        # an option with a form of its own, checked where it is kept
        except psycopg.errors.InvalidParameterValue as error:
            raise _bad(f"options.{error.diag.message_primary}") from None
    control.core.notify(queue, moved=False)
    return Json(row[0])


def _bad(error: str) -> Refusal:
    return Refusal(400, error, "invalid_option", success=False)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _check_name(field: str, value: Any) -> None:
    if isinstance(value, str) and (len(value) > 255 or "\0" in value):
        raise Refusal(400, f"{field} must have at most 255 characters and no NUL", "invalid_name")
