"""GET /openapi.json: what the routes of the control plane declare (`route`), and the routes that the core answers
itself (`hot_routes`)."""
from __future__ import annotations

import json
from typing import Any

from fastapi import Request

from ...auth.levels import READ
from ..http.answer import Json
from ..http.examples import example
from ..http.hot_routes import EVENTS, HOT, SCHEMAS, answers
from ..http.models import Models
from ..http.operations import OPERATIONS
from ..http.route import ROUTES, Routes
from ..http.schema import BYTES, JSON, MESSAGE, TEXT, array, record, ref

router = Routes("health")


@router.declare("GET /openapi.json", READ,
                record(["openapi", "info", "paths"], openapi=TEXT, info={"type": "object"}, paths={"type": "object"}),
                own=True)
async def document(request: Request) -> Json:
    """Returns the OpenAPI 3.1 document of all routes."""
    app = request.app
    if not getattr(app.state, "openapi", None):
        app.state.openapi = whole_document(app.openapi())
    return Json(app.state.openapi)


def whole_document(described: dict[str, Any]) -> dict[str, Any]:
    """Returns the routers' description with the hot routes, every answer, and an example for every value in a path."""
    paths = {path: {method: dict(operation) for method, operation in methods.items()}
             for path, methods in described["paths"].items()}
    for path, methods in paths.items():
        for method, operation in methods.items():
            declared = ROUTES[f"{method.upper()} {path}"]
            answer = declared.answer or JSON
            status = next(iter(operation["responses"]))
            operation["parameters"] = [*operation.get("parameters", []), *declared.query]
            operation["responses"] = answers(status, operation.get("description", "").partition(".")[0], answer, "400",
                                             "404", "503")
            if path == "/metrics/prometheus":
                operation["responses"][status]["content"] = {"text/plain": {"schema": TEXT}}
            if path == "/api/v1/fetch":
                operation["responses"][status]["content"] |= {
                    "application/x-ndjson": {"schema": TEXT}, "application/vnd.apache.arrow.stream": {"schema": BYTES},
                    EVENTS: {"schema": array(ref("CloudEvent"))}}
            if path == "/health":
                operation["responses"]["503"]["content"] = operation["responses"][status]["content"]
            if declared.answer:
                shown = operation["responses"][status]["content"]["application/json"]
                shown["example"] = example(answer, SCHEMAS)
            if declared.example is not None:
                operation["requestBody"]["content"]["application/json"]["example"] = declared.example
    paths = {**HOT, **paths}
    for path, methods in paths.items():
        for method, operation in methods.items():
            operation["operationId"] = OPERATIONS[f"{method.upper()} {path}"]
            for one in operation.get("parameters", []):
                if one["in"] == "path":
                    one["example"] = MESSAGE["partitionId"] if one["name"] == "partition" and path.startswith(
                        WITH_IDS) else EXAMPLES[one["name"]]
                    one["schema"] = {"type": "string", "minLength": 1}
    for path, links in LINKS.items():
        for method in paths[path].values():
            method["responses"][next(iter(method["responses"]))]["links"] = links
    models = Models(SCHEMAS)
    paths = {path: {method: models.name(operation) for method, operation in methods.items()}
             for path, methods in paths.items()}
    return {**described, "servers": [{"url": "/"}], "security": [{}, {"token": []}], "paths": paths,
            "components": {"schemas": models.schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer",
                "description": "Required if JWT_ENABLED is set."}}}}


# Example values of path parameters.
EXAMPLES = {"queue": "orders", "partition": "customer-7", "group": "billing", "transaction_id": "order-17",
            "name": "order-17", "key": "reminder-17", "leaseId": MESSAGE["leaseId"]}
WITH_IDS = ("/api/v1/messages/", "/api/v1/traces/")
ADDRESS = {"partition": "$response.body#/0/partition_id", "transaction_id": "$response.body#/0/transaction_id"}
# Generators of clients accept a text only: JSON with expressions inside.
DELIVERED = json.dumps({"transactionId": "{$response.body#/messages/0/transactionId}",
                        "partitionId": "{$response.body#/messages/0/partitionId}",
                        "leaseId": "{$response.body#/leaseId}", "consumerGroup": "{$response.body#/consumerGroup}"})


def link(method: str, path: str, **more: Any) -> dict[str, Any]:
    return {"operationRef": f"#/paths/{path.replace('~', '~0').replace('/', '~1')}/{method}", **more}


TAKEN = {"acknowledge": link("post", "/api/v1/ack", requestBody=DELIVERED),
         "extend": link("post", "/api/v1/lease/{leaseId}/extend", parameters={"leaseId": "$response.body#/leaseId"})}
QUEUE = {"queue": "$response.body#/queue"}
PUSHED_INTO = {"queue": "$response.body#/0/queueName"}
MESSAGE_AT = "/api/v1/messages/{partition}/{transaction_id}"
LINKS = {
    "/api/v1/push": {"show": link("get", MESSAGE_AT, parameters=ADDRESS),
                     "delete": link("delete", MESSAGE_AT, parameters=ADDRESS),
                     "bury": link("post", f"{MESSAGE_AT}/dlq", parameters=ADDRESS),
                     "take": link("get", "/api/v1/pop/queue/{queue}", parameters=PUSHED_INTO)},
    "/api/v1/events/{queue}": {"take": link("get", "/api/v1/pop/queue/{queue}", parameters=PUSHED_INTO)},
    "/api/v1/pop/queue/{queue}": TAKEN,
    "/api/v1/pop/queue/{queue}/partition/{partition}": TAKEN,
    f"{MESSAGE_AT}/dlq": {"retry": link("post", f"{MESSAGE_AT}/retry", parameters={
        "partition": "$response.body#/partitionId", "transaction_id": "$response.body#/transactionId"})},
    "/api/v1/configure": {"show": link("get", "/api/v1/resources/queues/{queue}", parameters=QUEUE),
                          "take": link("get", "/api/v1/pop/queue/{queue}", parameters=QUEUE),
                          "delete": link("delete", "/api/v1/resources/queues/{queue}", parameters=QUEUE)},
}
