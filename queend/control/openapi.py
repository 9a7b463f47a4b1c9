"""GET /openapi.json: the control plane's own description, and by hand the routes the core answers before Python sees them."""
from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from .answer import Json

router = APIRouter()


@router.get("/openapi.json", include_in_schema=False)
async def document(request: Request) -> Json:
    """OpenAPI 3.1 of every route."""
    app = request.app
    if not getattr(app.state, "openapi", None):
        described = app.openapi()
        app.state.openapi = {**described, "paths": {**HOT, **described["paths"]},
                             "components": {**described.get("components", {}), "schemas": {**described.get("components", {}).get("schemas", {}), **SCHEMAS}}}
    return Json(app.state.openapi)


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def record(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


TEXT, INTEGER, FLAG, ANY = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {}
NAME = {"type": "string", "maxLength": 255}
ID = {"type": "string", "format": "uuid"}
TIME = {"type": "string", "format": "date-time"}
MAYBE = {"type": ["string", "null"]}

SCHEMAS = {
    "Error": record(["error"], error=TEXT, code=TEXT),
    "PushItem": record(["queue"], queue=NAME, partition={**NAME, "default": "Default"}, payload=ANY, transactionId=NAME, traceId=ID),
    "PushResult": record(["index", "transaction_id", "status", "queueName"], index=INTEGER, transaction_id=TEXT,
                         status={"enum": ["queued", "duplicate", "buffered", "failed"]}, message_id=ID, partition_id=ID,
                         trace_id=MAYBE, queueName=TEXT, error=TEXT),
    "Message": record(["id", "transactionId", "data", "createdAt", "partitionId", "leaseId"], id=ID, transactionId=TEXT,
                      traceId=MAYBE, data=ANY, producerSub=MAYBE, createdAt=TIME, partitionId=ID, partition=TEXT, leaseId=TEXT,
                      consumerGroup=TEXT, queue=TEXT),
    "PopResult": record(["messages"], success=FLAG, error=TEXT, queue=TEXT, partition=TEXT, partitionId=MAYBE, leaseId=MAYBE,
                        consumerGroup=TEXT, partitionsClaimed=INTEGER, messages=array(ref("Message"))),
    "Ack": record(["transactionId", "partitionId"], transactionId=TEXT, partitionId=ID, leaseId=MAYBE, consumerGroup=MAYBE,
                  status={"enum": ["completed", "success", "failed", "dlq", "retry"], "default": "completed"}, error=MAYBE),
    "AckResult": record(["index", "transactionId", "success"], index=INTEGER, transactionId=TEXT, success=FLAG, error=MAYBE,
                        queueName=MAYBE, partitionName=MAYBE, leaseReleased=FLAG, dlq=FLAG),
    "Operation": {"oneOf": [
        record(["type", "items"], type={"const": "push"}, items=array(ref("PushItem"))),
        {"allOf": [ref("Ack"), record(["type"], type={"const": "ack"})]}]},
    "TransactionResult": record(["transactionId", "success", "results"], transactionId=ID, success=FLAG, error=TEXT,
                                results=array({"type": "object"})),
    "Lease": record(["leaseId", "success", "error", "expiresAt"], leaseId=TEXT, success=FLAG, error=MAYBE, expiresAt=MAYBE,
                    newExpiresAt=MAYBE, lease_expires_at=MAYBE),
}


def answers(status: str, text: str, schema: dict[str, Any] | None, *errors: str) -> dict[str, Any]:
    meanings = {"204": "nothing to deliver", "400": "the request names what is wrong with it; nothing was done",
                "413": "body too large", "503": "too much is waiting, or no database: try again after Retry-After"}
    described: dict[str, Any] = {status: {"description": text}}
    if schema:
        described[status]["content"] = {"application/json": {"schema": schema}}
    for code in errors:
        described[code] = {"description": meanings[code]}
        if code != "204":
            described[code]["content"] = {"application/json": {"schema": ref("Error")}}
    return described


def body(schema: dict[str, Any], required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def post(summary: str, request: dict[str, Any], responses: dict[str, Any], parameters: list[dict] | None = None) -> dict[str, Any]:
    return {"post": {"summary": summary, "tags": ["messages"], "parameters": parameters or [], "requestBody": request, "responses": responses}}


def parameter(name: str, schema: dict[str, Any], text: str = "", place: str = "query") -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": text}


POP = [
    parameter("batch", {**INTEGER, "minimum": 1}, "most messages of the answer"),
    parameter("partitions", {**INTEGER, "minimum": 1}, "most partitions of the answer"),
    parameter("wait", FLAG, "park until there is something or the timeout is over"),
    parameter("timeout", {**INTEGER, "default": 30000}, "milliseconds, with wait"),
    parameter("consumerGroup", NAME, "an independent set of cursors; without it the queue's own"),
    parameter("autoAck", FLAG, "consume on delivery"),
    parameter("autopilot", FLAG, "without batch or partitions: the daemon chooses"),
    parameter("subscriptionMode", {"enum": ["all", "new", "new-only"]}, "where a new group starts"),
    parameter("subscriptionFrom", TEXT, "`now` or a timestamp"),
]


def pop(summary: str, *more: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"summary": summary, "tags": ["messages"], "parameters": [*more, *POP],
                    "responses": answers("200", "messages, oldest first in each partition", ref("PopResult"), "204", "400", "503")}}


QUEUE, PARTITION = parameter("queue", NAME, place="path"), parameter("partition", NAME, place="path")

HOT = {
    "/api/v1/push": post("Store messages", body(record(["items"], items=array(ref("PushItem")))),
                         answers("201", "one result per item, in order, once all are durable", array(ref("PushResult")), "400", "413", "503")),
    "/api/v1/pop/queue/{queue}": pop("Take messages of any partition of a queue", QUEUE),
    "/api/v1/pop/queue/{queue}/partition/{partition}": pop("Take messages of one partition", QUEUE, PARTITION),
    "/api/v1/pop": pop("Take messages of the queues of a namespace or task", parameter("namespace", NAME), parameter("task", NAME)),
    "/api/v1/ack": post("Acknowledge one message", body(ref("Ack")), answers("200", "an array of one", array(ref("AckResult")), "400", "503")),
    "/api/v1/ack/batch": post("Acknowledge messages", body(record(["acknowledgments"], consumerGroup=MAYBE, acknowledgments=array(ref("Ack")))),
                              answers("200", "one result per acknowledgment, in order", array(ref("AckResult")), "400", "413", "503")),
    "/api/v1/transaction": post("Acknowledge and store, all or nothing", body(record(["operations"], operations=array(ref("Operation")), requiredLeases=array(TEXT))),
                                answers("200", "success tells whether anything was done", ref("TransactionResult"), "400", "413", "503")),
    "/api/v1/lease/{leaseId}/extend": post("Keep a lease longer", body(record([], seconds={**INTEGER, "default": 60}), required=False),
                                           answers("200", "the earliest new expiry", ref("Lease"), "400", "503"),
                                           [parameter("leaseId", TEXT, place="path")]),
    "/livez": {"get": {"summary": "The process answers", "tags": ["health"], "responses": {"200": {"description": "alive"}}}},
    "/readyz": {"get": {"summary": "Requests can be served", "tags": ["health"], "responses": {
        "200": {"description": "ready"}, "503": {"description": "no database, or stopping"}}}},
}
