"""Pieces of JSON Schema and OpenAPI for the routes' descriptions of requests and answers."""
from __future__ import annotations

from typing import Any

TEXT, INTEGER, FLAG = {"type": "string"}, {"type": "integer", "format": "int64"}, {"type": "boolean"}
ANY: dict[str, Any] = {}
NAME = {"type": "string", "maxLength": 255}
ID = {"type": "string", "format": "uuid"}
TIME = {"type": "string", "format": "date-time"}
# A text, without the format date-time: with it, the client of typescript-fetch does not compile with --strict.
WHEN = {"oneOf": [{**TEXT, "description": "a time with a time zone, as RFC 3339 has it"},
                  {**INTEGER, "description": "ms since 1970"}]}
# The partition of an entry of a list. The description has its default, because openapi-generator makes Go of `default`
# beside `oneOf` that does not compile.
ENTRY_PARTITION = {"oneOf": [NAME, INTEGER], "description": "name of the partition; default: Default"}
NUMBER, BYTES = {"type": "number"}, {"type": "string", "format": "binary"}
MAYBE, SOME_NUMBER = ({"type": [kind, "null"]} for kind in ("string", "number"))
SOME_INTEGER = {**INTEGER, "type": ["integer", "null"]}
SOME_TIME = {**MAYBE, "format": "date-time"}
JSON = {"type": ["object", "array"]}
TRACEPARENT = {"type": "string", "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"}
# Of a stream query.
QUERY = "0f8fad5b-d9cb-469f-a165-70867728950e"
MESSAGE = {"id": "019b7d3c-1f2e-7000-8000-000000000001", "transactionId": "order-17", "traceId": None, "data": {"n": 1},
           "producerSub": None, "createdAt": "2026-01-02T03:04:05.678901Z",
           "partitionId": "3b1f8c52-6a3e-8d41-9c20-5d8e7f901234", "partition": "customer-7",
           "leaseId": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "consumerGroup": "billing", "queue": "orders",
           "deliveryAttempt": 1, "offset": 0}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def record(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def whole(*maybe: str, **properties: Any) -> dict[str, Any]:
    """Returns an object schema with exactly these members: all are required except those of `maybe`."""
    return {**record([name for name in properties if name not in maybe], **properties), "additionalProperties": False}


def titled(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of objects that are in several places, with the name that the OpenAPI document has for it."""
    return {**schema, "title": title}


def like(schema: dict[str, Any], example: Any) -> dict[str, Any]:
    """Returns the schema with an example."""
    return {**schema, "examples": [example]}


def body(schema: dict[str, Any], required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def parameter(name: str, schema: dict[str, Any], text: str = "", place: str = "query") -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, "description": text}
