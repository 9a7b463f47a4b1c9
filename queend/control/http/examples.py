"""Examples of answers, made from their schemas: a member of one name has one example everywhere."""
from __future__ import annotations

from typing import Any

from .schema import MESSAGE, QUERY

MOMENT = "2026-01-02T03:04:05.678Z"
# Texts by the name of the member; any other name is its own example.
TEXTS = {
    "name": "orders", "queue": "orders", "queueName": "orders", "queue_name": "orders", "source_queue": "orders",
    "queuePath": "orders/customer-7", "topics": "orders", "queues": "orders", "sink_queue": "totals",
    "targetQueue": "bills", "namespace": "shop", "task": "billing", "group": "billing", "consumerGroup": "billing",
    "consumer_group": "billing", "subject": "billing", "partition": "customer-7", "partitionName": "customer-7",
    "partition_name": "customer-7", "partitionId": MESSAGE["partitionId"], "partition_id": MESSAGE["partitionId"],
    "transactionId": "order-17", "transaction_id": "order-17", "trace_name": "order-17", "trace_names": "order-17",
    "newTransactionId": MESSAGE["id"], "error": "no such customer", "errorMessage": "no such customer",
    "message": "done", "id": MESSAGE["id"], "query_id": QUERY, "traceId": QUERY, "host": "one", "hostname": "one",
    "workerId": "0", "worker_id": "0", "version": "1.0.0", "server": "queend", "server_id": "", "status": "pending",
    "config_hash": "c0ffee", "event_type": "info", "schema": "queend", "table": "log", "index": "log_pkey",
    "database": "queue", "object": "log", "state": "active", "query": "SELECT 1", "sharedBuffers": "32768",
    "sharedBuffersSize": "256 MB", "totalSize": "104 kB", "tableSize": "88 kB", "indexSize": "16 kB",
    "bufferedSize": "88 kB", "value": "6632", "default": "6632", "unit": "s", "about": "HTTP port", "origin": "default",
    "currentStep": "copying queend.log", "newTimestamp": MOMENT, "openapi": "3.1.0", "check": "horizon",
    "checks": "horizon", "title": "session 4711 of psql keeps PostgreSQL from removing dead rows",
    "evidence": "open for 12m, 90210 transactions old", "advice": "End it (pg_terminate_backend)",
    "run": "SELECT pg_terminate_backend(4711)",
}
# Numbers by the name of the member; any other is 1.
NUMBERS = {
    "total": 41, "completed": 37, "pending": 3, "processing": 1, "failed": 0, "deadLetter": 0, "deadLetters": 0,
    "partitions": 2, "offset": 17, "head": 18, "limit": 100, "errors": 0, "dbErrors": 0, "db_errors": 0, "port": 6632,
    "bucketMinutes": 1, "leaseTime": 60, "retryLimit": 3, "retryDelay": 1000, "ttl": 3600, "priority": 0,
    "queuePriority": 0, "maxQueueSize": 0, "uptime": 888, "rate": 1.14, "cpuSeconds": 11.6, "residentBytes": 81661952,
    "rss": 81661952, "hitRatio": 99.8, "cacheHitRatio": 99.8, "maxLagMs": 20, "avgLagMs": 3.5, "oldestAgeSeconds": 4.2,
    "bytes": 2048, "pid": 4711, "duration": 0.02, "statsAge": 0, "time_lag_seconds": 4000, "lag_hours": 1.11,
    "highWatermark": 18, "logStartOffset": 0, "lastOffset": 17, "elapsedSeconds": 2.5, "deadTuples": 29,
}
TRUE = {"success", "existed", "dbHealthy", "bufferHealthy", "ready", "updated", "moved", "match", "allMatch"}
NONE = {"waitEvent", "waitEventType", "next", "producerSub", "leaseExpiresAt", "errorMessage", "subscriptionTimestamp",
        "subscriptionCreatedAt", "subscriptionMode", "lastVacuum", "expiresAt", "group", "traceId", "busStatus"}
EMPTY = {"doubts", "commitsMayBeLost"}
# Members inside another member.
INSIDE = {("pagination", "offset"): 0, ("partitions", "name"): "customer-7", ("consumerGroups", "name"): "billing"}


def example(schema: dict[str, Any], schemas: dict[str, Any], name: str = "", inside: str = "") -> Any:
    """Returns a value that fits the schema; of objects with all required members. name: of the member; inside: of the
    member around it."""
    if "$ref" in schema:
        return example(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    if "examples" in schema:
        return schema["examples"][0]
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "oneOf" in schema:
        return example(next(one for one in schema["oneOf"] if one.get("type") != "null"), schemas, name, inside)
    kinds = schema.get("type")
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if (inside, name) in INSIDE or kind is not kinds and name in NONE:
        return INSIDE.get((inside, name))
    if kind == "object":
        every = schema.get("additionalProperties")
        return {key: example(one, schemas, key, name) for key, one in schema.get("properties", {}).items()
                if key in schema["required"]} | (
            {"orders": example(every, schemas, "orders")} if isinstance(every, dict) else {})
    if kind == "array":
        return [] if schema.get("maxItems") == 0 or name in EMPTY else [
            example(schema["items"], schemas, name, inside)]
    if kind == "boolean":
        return name in TRUE
    if kind == "integer":
        return int(NUMBERS.get(name, 1))
    if kind == "number":
        return NUMBERS.get(name, 1.5)
    if kind == "string":
        return TEXTS.get(name, name) if "format" not in schema else MOMENT if schema["format"] == "date-time" else {
            "query_id": QUERY, "partitionId": MESSAGE["partitionId"], "partition_id": MESSAGE["partitionId"]}.get(
                name, MESSAGE["id"])
    return 300 if name in ("value", "default") else {"n": 1}
