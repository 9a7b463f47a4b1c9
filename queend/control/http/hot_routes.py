"""The routes that the core answers itself, as OpenAPI describes them: written by hand, with schemas and examples."""
from __future__ import annotations

from typing import Any

from .schema import (ANY, BYTES, FLAG, ID, INTEGER, MAYBE, MESSAGE, NAME, QUERY, SOME_INTEGER, SOME_TIME, TEXT, TIME,
                     TRACEPARENT, WHEN, array, body, parameter, record, ref, titled, whole)
from .schemas import BESIDES, HEADERS, HEADERS_RULE

DELAY = {**INTEGER, "minimum": 0, "maximum": 31622400000}      # ms
NAMED = {"description": "push or ack; of an unknown operation what it named as its type"}
VERDICT = {"consumerGroup": MAYBE, "error": MAYBE, "delayMs": DELAY,
           "status": {"enum": ["completed", "success", "failed", "dlq", "retry"], "default": "completed"}}
ACK_OF = record(["transactionId", "partitionId"], transactionId=NAME, partitionId=ID, leaseId=MAYBE, cumulative=FLAG,
                **VERDICT)
SOMETHING = {**TEXT, "minLength": 1}
KEY_TEXT = {**TEXT, "minLength": 1, "maxLength": 512}
KV_OPERATION = record(
    ["op", "ns"], op={"enum": ["get", "getMany", "getPrefix", "put", "putIfAbsent", "delete", "incr", "check"]},
    ns={**TEXT, "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"}, key=KEY_TEXT, keys=array(KEY_TEXT), prefix=KEY_TEXT,
    after=MAYBE, limit={**INTEGER, "default": 100, "minimum": 1, "maximum": 1000}, keysOnly=FLAG, value=ANY,
    ttlSeconds={**INTEGER, "minimum": 1, "maximum": 3153600000}, forever=FLAG, expect={**INTEGER, "minimum": 0},
    delta={"type": "number", "default": 1}, min={"type": "number"}, max={"type": "number"})
KV_OPERATION["properties"]["required"] = FLAG
SCHEMAS = {
    "ErrorResponse": record(["error"], error=TEXT, code=TEXT),
    "Problem": record(["type", "title", "status", "detail", "instance", "error"], type=TEXT, title=TEXT, status=INTEGER,
                      detail=TEXT, instance=TEXT, error=TEXT, code=TEXT),
    "PushItem": record(["queue"], queue={**NAME, "minLength": 1}, partition={**NAME, "default": "Default"}, payload=ANY,
                       transactionId=NAME, traceId=ID, traceparent=TRACEPARENT, tracestate=TEXT,
                       headers={**HEADERS, "description": HEADERS_RULE}, deliverAt=WHEN, delayMs=DELAY),
    "PushResult": record(["index", "transaction_id", "status", "queueName"], index=INTEGER, transaction_id=TEXT,
                         status={"enum": ["queued", "duplicate", "duplicate_of_deleted", "buffered", "failed"]},
                         message_id=ID, partition_id=ID, trace_id=MAYBE, queueName=TEXT, partition=TEXT, error=TEXT,
                         code=TEXT),
    "PushCounts": record(["count", "queued", "duplicate", "error"], count=INTEGER, queued=INTEGER, duplicate=INTEGER,
                         error=INTEGER),
    "Message": record(["id", "transactionId", "data", "createdAt", "partitionId", "leaseId", "deliveryAttempt",
                       "offset"], id=ID, transactionId=TEXT, traceId=MAYBE, data=ANY, producerSub=MAYBE, createdAt=TIME,
                      partitionId=ID, partition=TEXT, leaseId=TEXT, consumerGroup=TEXT, queue=TEXT,
                      deliveryAttempt=INTEGER, offset=INTEGER, traceparent=TRACEPARENT, tracestate=TEXT,
                      cloudEvent={"type": "object"}, dataEncoding={"enum": ["base64", "none"]}, deliverAt=TIME,
                      **BESIDES),
    "PopResult": record(["messages"], success=FLAG, error=TEXT, queue=TEXT, partition=TEXT, partitionId=MAYBE,
                        leaseId=MAYBE, consumerGroup=TEXT, partitionsClaimed=INTEGER, windowBufferActive=FLAG,
                        messages=array(ref("Message")),
                        reason={"enum": ["queue_not_found", "partition_not_found", "paused", "leased", "empty"]},
                        autopilot=record(["partitions", "batch"], partitions=INTEGER, batch=INTEGER),
                        conflation={"const": True}, conflationConflict={"const": True}),
    "Ack": ACK_OF,
    "WindowAck": record(["windowId"], windowId=TEXT, **VERDICT),
    "AckResult": record(["index", "success"], index=INTEGER, transactionId=TEXT, windowId=TEXT, messages=INTEGER,
                        success=FLAG, error=MAYBE, queueName=MAYBE, partitionName=MAYBE, leaseReleased=FLAG, dlq=FLAG),
    "PushOperation": record(["type", "items"], type={"const": "push"}, items=array(ref("PushItem"))),
    "AckOperation": record(["type", *ACK_OF["required"]], type={"const": "ack"}, **ACK_OF["properties"]),
    "Operation": {"oneOf": [ref("PushOperation"), ref("AckOperation")],
                  "discriminator": {"propertyName": "type", "mapping": {
                      kind: ref(f"{kind.title()}Operation")["$ref"] for kind in ("push", "ack")}}},
    "TransactionResult": record(["transactionId", "success", "results"], transactionId=ID, success=FLAG, reason=TEXT,
                                failedIndex=SOME_INTEGER, error=TEXT, results=array(record(
                                    ["index", "type"], index=INTEGER, type=NAMED, success=FLAG,
                                    transactionId=TEXT, error=MAYBE, dlq=FLAG, messageId=MAYBE, partitionId=MAYBE,
                                    queueName=TEXT, partition=TEXT))),
    "Lease": record(["leaseId", "success", "error", "expiresAt"], leaseId=TEXT, success=FLAG, error=MAYBE,
                    expiresAt=SOME_TIME, newExpiresAt=SOME_TIME, lease_expires_at=SOME_TIME, renewed=INTEGER),
    "KvOperation": KV_OPERATION,
    "KvRow": record(["key", "version"], key=TEXT, value=ANY, version=INTEGER, expiresAt=SOME_TIME, updatedAt=TIME),
    "KvResult": record(["index", "op"], index=INTEGER, op=TEXT, found=FLAG, applied=FLAG,
                       reason={"enum": ["exists", "absent", "version", "limit", "type"]}, key=TEXT, value=ANY,
                       version=INTEGER, expiresAt=SOME_TIME, updatedAt=TIME, rows=array(ref("KvRow")),
                       missing=array(TEXT), truncated=FLAG, nextAfter=MAYBE),
    "KvResults": record([], results=array(ref("KvResult")), ok=FLAG, reason=TEXT, failedIndex=INTEGER, kvReason=TEXT,
                        version=INTEGER, value=ANY),
    "LockOperation": record(
        ["op", "name"], op={"enum": ["acquire", "renew", "release", "get"]}, name={**TEXT, "maxLength": 256},
        owner={**TEXT, "maxLength": 256}, ttlSeconds={**INTEGER, "minimum": 1, "maximum": 3153600000},
        limit={**INTEGER, "minimum": 1, "maximum": 1024, "default": 1}, token=INTEGER,
        slot={**INTEGER, "minimum": 0, "maximum": 1023, "default": 0}),
    "LockHolder": record(["slot", "owner", "token", "since", "expiresAt", "renewedAt"], slot=INTEGER, owner=MAYBE,
                         token=INTEGER, since=TIME, expiresAt=TIME, renewedAt=TIME),
    "LockResult": record(["index", "op"], index=INTEGER, op=TEXT, acquired=FLAG, renewed=FLAG, released=FLAG, held=FLAG,
                         already=FLAG, reason={"enum": ["held", "contended", "lost"]}, slot=INTEGER, token=INTEGER,
                         owner=TEXT, expiresAt=TIME, guard=ref("KvOperation"), holders=array(ref("LockHolder"))),
    "EphemeralMessage": record(["id", "partition", "payload", "attempts"], id=TEXT, partition=TEXT, payload=ANY,
                               attempts=INTEGER),
    "EphemeralOutcome": record(["id", "outcome"], id=TEXT, dropped=FLAG,
                               outcome={"enum": ["acked", "redelivered", "stale", "unknown"]}),
    "TimerOperation": record(
        ["op", "queue", "timerKey"], op={"enum": ["schedule", "reschedule", "cancel"]}, queue=NAME,
        timerKey={**TEXT, "minLength": 1, "maxLength": 512}, payload={**TEXT, "contentEncoding": "base64"},
        payloadZstd=FLAG, delayMs={**INTEGER, "maximum": 31622400000}, txn=NAME, partition=NAME),
    "TimerResult": record(["index", "op", "ok", "status", "queue", "timerKey", "txn", "messageId", "deliverAt"],
                          index=INTEGER, op=TEXT, ok=FLAG,
                          status={"enum": ["scheduled", "rescheduled", "cancelled", "absent", "too_late"]}, queue=TEXT,
                          timerKey=TEXT, txn=MAYBE, messageId=MAYBE, deliverAt=SOME_TIME),
    "CloudEvent": record(["specversion", "id", "source", "type"], specversion={"const": "1.0"}, id=SOMETHING,
                         source={**SOMETHING, "format": "uri-reference"}, type=SOMETHING, subject=SOMETHING, time=TIME,
                         datacontenttype=SOMETHING, dataschema={**TEXT, "format": "uri"},
                         partitionkey={**NAME, "minLength": 1}, data=ANY,
                         data_base64={**TEXT, "contentEncoding": "base64"}),
}


def answers(status: str, text: str, schema: dict[str, Any] | None, *errors: str) -> dict[str, Any]:
    meanings = {"204": "no messages to deliver", "400": "invalid request; the error names the reason; nothing was done",
                "404": "not found",
                "403": "access denied: the token lacks the right, or the request comes from a page of another origin",
                "409": "the request would create a name beyond the limit", "413": "body too large",
                "415": "unsupported media type", "default": "refused; the error names the reason",
                "429": "a bound of the queue or the memory of all ephemeral queues is full; retry after Retry-After",
                "503": "too many requests are waiting, or the database is unavailable; retry after Retry-After"}
    described: dict[str, Any] = {status: {"description": text}}
    if schema:
        described[status]["content"] = {"application/json": {"schema": schema}}
    for code in (*errors, "default"):
        described[code] = {"description": meanings[code]}
        if code != "204":
            described[code]["content"] = {"application/json": {"schema": ref("ErrorResponse")},
                                          "application/problem+json": {"schema": ref("Problem")}}
        if code in ("429", "503"):
            described[code]["headers"] = {"Retry-After": {"description": "seconds", "schema": INTEGER}}
    return described


def post(summary: str, request: dict[str, Any], responses: dict[str, Any],
         parameters: list[dict] | None = None) -> dict[str, Any]:
    return {"post": {"summary": summary, "tags": ["messages"], "parameters": parameters or [], "requestBody": request,
                     "responses": responses}}


POP = [parameter("batch", {**INTEGER, "minimum": 1}, "maximum number of messages in the answer"),
       parameter("partitions", {**INTEGER, "minimum": 1, "maximum": 1000}, "maximum number of partitions in the "
                 "answer"),
       parameter("wait", FLAG, "park the pop until there are messages or the timeout expires"),
       parameter("timeout", {**INTEGER, "default": 30000},
                 "timeout in milliseconds, with wait; from 1000 on the answer is sent 50 ms earlier, to arrive in "
                 "time"),
       parameter("consumerGroup", NAME, "consumer group, an independent set of cursors; without it the queue mode"),
       parameter("leaseSeconds", {**INTEGER, "minimum": 1, "maximum": 86400},
                 "duration of the lease; default: leaseTime of the queue"),
       parameter("autoAck", FLAG, "consume the messages with the delivery"),
       parameter("conflation", FLAG, "a new group gets only the newest message of each partition; requires "
                 "consumerGroup, not with autoAck"),
       parameter("autopilot", FLAG, "let the daemon choose batch and partitions if they are not given"),
       parameter("subscriptionMode", {"enum": ["all", "from_beginning", "new", "new-only"]},
                 "start position of a new group"), parameter("subscriptionFrom", TEXT, "`now` or a timestamp"),
       parameter("format", {"enum": ["json", "cloudevents"]}, "`cloudevents` has the same effect as Accept: "
                 "application/cloudevents-batch+json"),
       parameter("frames", FLAG, "framed answer, for 2.x clients")]
EVENTS = "application/cloudevents-batch+json"
ITEM = {"queue": "orders", "partition": "customer-7", "transactionId": "order-17", "payload": {"n": 1}}
STORED = {"index": 0, "transaction_id": "order-17", "status": "queued", "message_id": MESSAGE["id"],
          "partition_id": MESSAGE["partitionId"], "trace_id": None, "queueName": "orders"}
ACK = {"transactionId": "order-17", "partitionId": MESSAGE["partitionId"], "leaseId": MESSAGE["leaseId"],
       "consumerGroup": "billing", "status": "completed"}
ACKED = {"index": 0, "transactionId": "order-17", "success": True, "error": None, "queueName": "orders",
         "partitionName": "customer-7", "leaseReleased": True, "dlq": False}
EVENT = {"specversion": "1.0", "id": "17", "source": "/shop", "type": "order.placed",
         "time": "2026-01-02T03:04:05.678Z", "partitionkey": "customer-7", "data": {"n": 1}}


def pop(summary: str, *more: dict[str, Any]) -> dict[str, Any]:
    responses = answers("200", "messages, oldest first within each "
                               "partition", ref("PopResult"), "204", "400", "409", "503")
    responses["200"]["content"] |= {EVENTS: {"schema": array(ref("CloudEvent"))},
                                    "application/x-queen-pop": {"schema": BYTES}}
    responses["200"]["content"]["application/json"]["example"] = {
        "success": True, **{key: MESSAGE[key] for key in ("queue", "partition", "partitionId", "leaseId",
                                                          "consumerGroup")}, "partitionsClaimed": 1,
                                                          "messages": [MESSAGE]}
    return {"get": {"summary": summary, "tags": ["messages"], "parameters": [*more, *POP], "responses": responses}}


def stream(summary: str, *more: dict[str, Any]) -> dict[str, Any]:
    described = {"200": {"description": "server-sent events until the client disconnects: one event per message, its "
                                        "data as in a pop, its id `partitionId:offset`. With `Upgrade: websocket`: 101",
                         "content": {"text/event-stream": {"schema": TEXT}}},
                 **{code: one for code, one in answers("200", "", None, "400", "403", "503").items() if code != "200"}}
    named = ("batch", "consumerGroup", "autoAck", "partitions", "subscriptionMode", "subscriptionFrom", "format",
             "leaseSeconds", "conflation")
    own = [parameter("credit", {**INTEGER, "minimum": 1, "maximum": 10000, "default": 100},
                     "maximum number of delivered messages without acknowledgment"),
           parameter("heartbeat", {**INTEGER, "minimum": 1, "maximum": 600, "default": 15},
                     "heartbeat interval in seconds"),
           parameter("release", {**FLAG, "default": False}, "end the leases when the stream ends"),
           parameter("window", {**INTEGER, "minimum": 1, "maximum": 10000},
                     "maximum number of messages of one partition in one event; they are acknowledged by one id")]
    return {"get": {"summary": summary, "tags": ["messages"], "responses": described,
                    "parameters": [*more, *(one for one in POP if one["name"] in named), *own]}}


def shown(operation: dict[str, Any], request: Any, status: str, answer: Any) -> dict[str, Any]:
    """Returns the operation with an example of request and answer."""
    operation["post"]["requestBody"]["content"]["application/json"]["example"] = request
    operation["post"]["responses"][status]["content"]["application/json"]["example"] = answer
    return operation


def queue() -> dict[str, Any]:
    return parameter("queue", NAME, place="path")


ACKED_ONE = {"anyOf": [ref("Ack"), ref("WindowAck")]}
PUSHED = {"oneOf": [titled("PushResults", array(ref("PushResult"))), ref("PushCounts")]}
KEY = {"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string",
    "pattern": "^[!-~]{1,255}$"}, "description": "key that makes retries of the push idempotent"}
CONTEXT = {"name": "traceparent", "in": "header", "required": False, "schema": TRACEPARENT,
           "description": "W3C trace context, stored with the messages"}
FORMAT = parameter("format", {"enum": ["array", "counts"]}, "form of the answer: a result per item, or counts")
WHERE_AND_WHEN = [
    parameter("queue", NAME, "queue of lines and rows that name none"),
    parameter("partition", NAME, "partition of lines and rows that name none"),
    parameter("payload", {"enum": ["item", "line"]}, "content of a line of application/x-ndjson"),
    parameter("deliverAt", TEXT, "delivery time of items that name none: a time with a time zone, or ms since 1970"),
    parameter("delayMs", DELAY, "delivery delay in ms of items that name none")]
EVENTS_BODY = {"required": True, "content": {"application/cloudevents+json": {"schema": ref("CloudEvent"),
    "example": EVENT}, EVENTS: {"schema": array(ref("CloudEvent")), "example": [EVENT]}}}

CYCLE = record(["query_id", "partition_id"], query_id=TEXT, partition_id=TEXT, consumer_group=NAME, release_lease=FLAG,
               state_ops=array(record(["type", "key"], type={"enum": ["upsert", "delete"]}, key=TEXT, value=ANY)),
               push_items=array(record(["queue"], queue=NAME, partition=NAME, payload=ANY, transactionId=NAME,
                                       traceId=TEXT, namespace=NAME, task=NAME)),
               ack=record(["transactionId"], transactionId=NAME, leaseId=MAYBE,
                          status={"enum": ["completed", "success", "failed", "dlq"]}, count=INTEGER, error=TEXT))
CYCLED = whole("error", success=FLAG, query_id=TEXT, partition_id=TEXT, queueName=MAYBE, state_ops_applied=INTEGER,
               push_results=array(ref("PushResult")), error=TEXT, ack_result={
                   "oneOf": [{"type": "null"}, whole(success=FLAG, count=INTEGER, lease_released=FLAG, dlq=FLAG)]})
CYCLE_EXAMPLE = {"query_id": QUERY, "partition_id": MESSAGE["partitionId"],
                 "state_ops": [{"type": "upsert", "key": "total", "value": {"n": 1}}],
                 "push_items": [{"queue": "totals", "payload": {"n": 1}}]}
CYCLED_EXAMPLE = {"success": True, "query_id": QUERY, "partition_id": MESSAGE["partitionId"], "queueName": "orders",
                  "state_ops_applied": 1, "push_results": [{**STORED, "queueName": "totals"}], "ack_result": None}

KEY_PATH = [parameter("ns", TEXT, "namespace", place="path"),
            parameter("key", TEXT, "the key: all that follows, slashes included", place="path")]
KEY_BODY = body(record(["value"], value=ANY, ttlSeconds={**INTEGER, "minimum": 1, "maximum": 3153600000}, forever=FLAG,
                       expect=INTEGER))
KEY_BODY["content"]["application/json"]["example"] = {"value": {"items": 2}, "ttlSeconds": 3600}
# Hot routes that the reference lacks (those of the control plane declare that themselves): on the others its clients do
# not know 405.
OWN = {"/api/v1/ephemeral/push", "/api/v1/ephemeral/pop", "/api/v1/ephemeral/ack", "/api/v1/kv",
       "/api/v1/kv/{ns}/{key}", "/api/v1/locks", "/api/v1/timers", "/livez", "/readyz", "/api/v1/events/{queue}",
       "/api/v1/pop", "/api/v1/stream/{queue}",
       "/api/v1/stream/{queue}/partition/{partition}"}
HOT = {
    "/api/v1/push": shown(post(
        "Push messages", body(record(["items"], items=array(ref("PushItem")))),
        answers("201", "one result per item, in order, after all messages are "
                       "durable", PUSHED, "400", "409", "413", "503"),
        [KEY, CONTEXT, FORMAT, *WHERE_AND_WHEN]), {"items": [ITEM]}, "201", [STORED]),
    "/api/v1/events/{queue}": post(
        "Push CloudEvents", EVENTS_BODY, answers("201", "one result per event, in order, after all messages are "
                                                  "durable", PUSHED,
                                                  "400", "409", "413", "415", "503"),
        [queue(), parameter("partition", NAME, "partition of events without a partitionkey"), FORMAT]),
    "/api/v1/pop/queue/{queue}": pop("Pop messages from any partition of a queue", queue()),
    "/api/v1/pop/queue/{queue}/partition/{partition}": pop("Pop messages from one partition", queue(),
                                                           parameter("partition", NAME, place="path")),
    "/api/v1/pop": pop("Pop messages from the queues of a namespace or task, or from a queue that the query names",
                       parameter("namespace", NAME), parameter("task", NAME), parameter("queue", NAME),
                       parameter("partition", NAME)),
    "/api/v1/stream/{queue}": stream("Stream messages of any partition of a queue", queue()),
    "/api/v1/stream/{queue}/partition/{partition}": stream("Stream messages of one partition", queue(),
                                                           parameter("partition", NAME, place="path")),
    "/api/v1/ack": shown(post("Acknowledge one message, or a window of a stream", body(ACKED_ONE),
                              answers("200", "an array with one "
                                             "result", array(ref("AckResult")), "400", "503")), ACK, "200",
                              [ACKED]),
    "/api/v1/ack/batch": shown(post(
        "Acknowledge messages of one consumer group: `consumerGroup` of the request; that of an element is ignored",
        body(record(["acknowledgments"], consumerGroup=MAYBE, acknowledgments=array(ACKED_ONE))),
        answers("200", "one result per acknowledgment, in order", array(ref("AckResult")), "400", "413", "503")),
        {"acknowledgments": [ACK], "consumerGroup": "billing"}, "200", [ACKED]),
    "/api/v1/transaction": shown(post(
        "Acknowledge and push in one transaction", body(record(["operations"], operations=array(ref("Operation")),
                                                             requiredLeases=array(TEXT),
                                                             kv=array(ref("KvOperation")),
                                                             timers=array(ref("TimerOperation")))),
        answers("200", "`success` says whether the transaction was "
                       "executed", ref("TransactionResult"), "400", "409", "413", "503"),
        [CONTEXT]),
        {"operations": [{"type": "ack", **ACK}, {"type": "push", "items": [{"queue": "bills", "payload": {"n": 1}}]}],
         "requiredLeases": [MESSAGE["leaseId"]]}, "200",
        {"transactionId": "019b7d3c-1f2e-7000-8000-0000000000aa", "success": True,
         "results": [{"index": 0, "type": "ack", "success": True, "transactionId": "order-17", "error": None,
                      "dlq": False}]}),
    "/api/v1/lease/{leaseId}/extend": shown(post(
        "Extend a lease", body(record([], seconds={**INTEGER, "minimum": 1, "maximum": 31536000, "default": 60}),
                                    required=False), answers("200", "the earliest new expiry", ref("Lease"), "400",
                                                             "503"),
        [parameter("leaseId", TEXT, place="path")]), {"seconds": 60}, "200",
        {"leaseId": MESSAGE["leaseId"], "success": False, "error": "Lease not found", "expiresAt": None,
         "newExpiresAt": None, "lease_expires_at": None, "renewed": 0}),
    "/api/v1/kv": {"post": {**shown(post(
        "Read and write keys", body(record(["operations"], operations=array(ref("KvOperation")))),
        answers("200", "one result per operation, in order; or `ok` false if a required operation was not applied, and "
                       "nothing was written", ref("KvResults"), "400", "413", "503")),
        {"operations": [{"op": "put", "ns": "shop", "key": "cart-7", "value": {"items": 2}, "ttlSeconds": 3600}]},
        "200",
        {"results": [{"index": 0, "op": "put", "applied": True, "key": "cart-7", "value": {"items": 2},
                      "version": 8589934593, "expiresAt": "2026-01-02T04:04:05.678Z"}]})["post"], "tags": ["keys"]}},
    "/api/v1/kv/{ns}/{key}": {
        "get": {"summary": "Read a key", "tags": ["keys"], "parameters": KEY_PATH,
                "responses": answers("200", "the key; the header ETag has its version", ref("KvResult"), "400", "404",
                                     "413", "503")},
        "put": {"summary": "Write a key", "tags": ["keys"], "parameters": KEY_PATH, "requestBody": KEY_BODY,
                "responses": answers("200", "`applied` says whether the key was written",
                                     ref("KvResult"), "400", "413", "503")},
        "delete": {"summary": "Delete a key", "tags": ["keys"], "parameters": KEY_PATH,
                   "requestBody": body(record([], expect=INTEGER), required=False),
                   "responses": answers("200", "`applied` says whether a key was deleted", ref("KvResult"), "400",
                                        "413", "503")}},
    "/api/v1/locks": {"post": {**shown(post(
        "Acquire, renew and release locks", body(record(["operations"], operations=array(ref("LockOperation")))),
        answers("200", "one result per operation, in order", record(["results"], results=array(ref("LockResult"))),
                "400", "503")),
        {"operations": [{"op": "get", "name": "nightly"}]}, "200",
        {"results": [{"index": 0, "op": "get", "held": False, "holders": []}]})["post"], "tags": ["keys"]}},
    "/api/v1/ephemeral/push": {"post": {**shown(post(
        "Push messages to an ephemeral queue, all or none; they are in the memory of this daemon only", body(record(
            ["queue", "messages"], queue={**NAME, "minLength": 1}, partition={**NAME, "default": "Default"},
            messages=array(record(["payload"], payload=ANY)))),
        answers("201", "the number of messages pushed", whole(pushed=INTEGER, durable=FLAG),
                "400", "409", "413", "429", "503")),
        {"queue": "presence", "messages": [{"payload": {"user": "a"}}]}, "201",
        {"pushed": 1, "durable": False})["post"], "tags": ["ephemeral"]}},
    "/api/v1/ephemeral/pop": {"get": {
        "summary": "Pop messages of an ephemeral queue", "tags": ["ephemeral"],
        "parameters": [{**parameter("queue", {**NAME, "minLength": 1}), "required": True},
                       parameter("partition", NAME, "default: any partition"),
                       parameter("batch", {**INTEGER, "minimum": 1, "maximum": 10000, "default": 1},
                                 "maximum number of messages in the answer"),
                       parameter("wait", FLAG, "park the pop until there are messages or the timeout expires"),
                       parameter("timeout", {**INTEGER, "minimum": 0, "maximum": 300000, "default": 30000},
                                 "timeout in milliseconds, with wait"),
                       parameter("group", NAME, "consumer group; without it the queue mode"),
                       parameter("autoAck", FLAG, "complete the messages with the delivery"),
                       parameter("commitOnDelivery", FLAG, "another name of autoAck")],
        "responses": answers("200", "messages, oldest first within each partition; none if there are none",
                             whole(queue=TEXT, messages=array(ref("EphemeralMessage")), durable=FLAG), "400", "409",
                             "429", "503")}},
    "/api/v1/ephemeral/ack": {"post": {**shown(post(
        "Complete or return messages of an ephemeral queue", body(record(
            ["queue", "acks"], queue={**NAME, "minLength": 1}, group=MAYBE, acks=array(record(
                ["id"], id=TEXT, status={"enum": ["completed", "failed", "retry"], "default": "completed"},
                error=MAYBE)))),
        answers("200", "one outcome per id, in order; `dropped` if the last attempt failed",
                whole(results=array(ref("EphemeralOutcome")), durable=FLAG), "400", "503")),
        {"queue": "presence", "acks": [{"id": "6f1d2a3b4c5d6e7f-1-1-0"}]}, "200",
        {"results": [{"id": "6f1d2a3b4c5d6e7f-1-1-0", "outcome": "stale"}], "durable": False})["post"],
        "tags": ["ephemeral"]}},
    "/api/v1/timers": {"post": {**shown(post(
        "Schedule and cancel timers", body(record(["operations"], operations=array(ref("TimerOperation")))),
        answers("200", "one result per operation, in order", record(["results"], results=array(ref("TimerResult"))),
                "400", "403", "413", "503")),
        {"operations": [{"op": "schedule", "queue": "orders", "timerKey": "reminder-17", "payload": "eyJuIjogMTd9",
                         "delayMs": 3600000, "txn": "reminder-17"}]}, "200",
        {"results": [{"index": 0, "op": "schedule", "ok": True, "status": "scheduled", "queue": "orders",
                      "timerKey": "reminder-17", "txn": "reminder-17",
                      "messageId": "7d0f8b6e-54c4-4c6f-9d6e-0b6a3f0d1c11",
                      "deliverAt": "2026-01-02T04:04:05.678Z"}]})["post"], "tags": ["keys"]}},
    "/streams/v1/cycle": {"post": {**shown(post(
        "Commit a stream cycle in one transaction: state, messages for the sink, and the acknowledgment of the "
        "source", body(CYCLE), answers(
            "200", "`success` says whether the cycle was committed", CYCLED, "400", "409", "413", "503")),
        CYCLE_EXAMPLE, "200", CYCLED_EXAMPLE)["post"], "tags": ["streams"]}},
    "/livez": {"get": {"summary": "Liveness: the process answers", "tags": ["health"],
                       "responses": answers("200", "alive", record(["status"], status={"const": "alive"}))}},
    "/readyz": {"get": {"summary": "Readiness: pushes are accepted", "description": "Answers 200 if pushes are "
                        "accepted. `status` is `buffering` while pushes go into the failover buffer and all other "
                        "requests are refused or wait; `reason` names the cause. `/health` is 503 then.",
                        "tags": ["health"], "responses": answers("200", "pushes are accepted", record(
                            ["status"], status={"enum": ["ready", "buffering"]}, reason=TEXT), "503")}},
}
