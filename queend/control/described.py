"""What every route of the control plane answers, and what it may be asked: for the OpenAPI document (`openapi`), which adds what
the routers themselves say. A route that is not here is described by its router alone."""
from __future__ import annotations

from typing import Any

from .options import BACKOFF, BY_NAME
from .described_figures import FIGURES
from .openapi import ANY, FLAG, ID, INTEGER, MAYBE, MESSAGE, NAME, NUMBER, SOME_INTEGER, SOME_TIME, TEXT, TIME, array, like, parameter, record, ref, whole

LIMIT, OFFSET = parameter("limit", {**INTEGER, "minimum": 0}, "most elements of the answer"), parameter("offset", {**INTEGER, "minimum": 0}, "elements left out first")
FROM, TO = parameter("from", TIME, "ISO 8601; without a zone UTC"), parameter("to", TIME, "ISO 8601; without a zone UTC")
QUEUE, PARTITION, GROUP = parameter("queue", NAME), parameter("partition", NAME), parameter("consumerGroup", NAME)


def mapping(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


PAGINATION = whole(limit=INTEGER, offset=INTEGER)
DONE = {"const": True}
COUNTS = whole(total=INTEGER, pending=INTEGER, processing=INTEGER, completed=INTEGER, failed=INTEGER, deadLetter=INTEGER)
HEAD = {"id": ID, "name": TEXT, "namespace": TEXT, "task": TEXT, "createdAt": TIME}
MESSAGES = whole(total=INTEGER, pending=INTEGER, processing=INTEGER)
SPACE = {"queues": INTEGER, "partitions": INTEGER, "messages": whole(total=INTEGER, pending=INTEGER)}
MODE = {"hasQueueMode": FLAG, "busGroupsCount": INTEGER, "type": {"enum": ["hybrid", "queue", "bus", "none"]}}
PLACE = {"id": ID, "transactionId": TEXT, "partitionId": ID, "queuePath": TEXT, "queue": TEXT, "partition": TEXT}
MARKS = {"highWatermark": SOME_INTEGER, "logStartOffset": SOME_INTEGER}
TRACE = {"id": TEXT, "event_type": TEXT, "data": ANY, "consumer_group": TEXT, "worker_id": MAYBE, "created_at": TIME, "trace_names": array(TEXT)}
OPTIONS = whole(
    "retryBackoff", **dict.fromkeys(("ttl", "maxSize", "priority", "leaseTime", "retryDelay", "retryLimit", "windowBuffer", "delayedProcessing", "retentionSeconds", "completedRetentionSeconds",
                                     "maxWaitTimeSeconds"), INTEGER),
    **dict.fromkeys(("deadLetterQueue", "dlqAfterMaxRetries", "retentionEnabled", "encryptionEnabled"), FLAG), retryBackoff=BACKOFF)
OPTION = whole(value=ANY, unit=TEXT, default=ANY, asked=FLAG)
QUERY = "0f8fad5b-d9cb-469f-a165-70867728950e"
WAS = {"timestamp": "2026-01-02T03:04:05.678Z"}
TARGET = {"host": "new.example", "port": "5433", "database": "moved", "user": "mover", "password": "secret"}

# "METHOD path": (answer, parameters of the query, example of the body)
ROUTES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], Any]] = {
    "POST /api/v1/migration/test-connection": (whole(success=FLAG, message=TEXT), [], TARGET),
    "POST /api/v1/migration/start": (whole(status={"const": "started"}, message=TEXT), [], {**TARGET, "excludeTableData": ["messages"]}),
    "GET /api/v1/migration/status": (
        whole("error", "restoreOutput", status={"enum": ["idle", "dumping", "restoring", "complete", "error"]}, currentStep=TEXT, elapsedSeconds=NUMBER,
              error=TEXT, restoreOutput=TEXT), [], None),
    "POST /api/v1/migration/validate": (
        whole(success=DONE, allMatch=FLAG, tables=array(whole(table=TEXT, sourceCount=INTEGER, targetCount=INTEGER, match=FLAG))), [], TARGET),
    "POST /api/v1/migration/reset": (whole(status={"const": "idle"}, message=TEXT), [], None),
    "POST /api/v1/configure": (
        like(whole(configured=DONE, queueId=ID, partitionId=ID, queue=TEXT, namespace=TEXT, task=TEXT, options=OPTIONS),
             {"configured": True, "queueId": "797a957c-35c2-82ab-9eb6-1136a4b4fea3", "partitionId": "6adeecbc-e3c4-8e66-800e-544443089915", "queue": "orders", "namespace": "shop", "task": "billing",
              "options": {"ttl": 3600, "maxSize": 0, "priority": 0, "leaseTime": 60, "retryDelay": 1000, "retryLimit": 5, "windowBuffer": 0, "delayedProcessing": 0, "retentionSeconds": 0,
                          "completedRetentionSeconds": 0, "maxWaitTimeSeconds": 0, "deadLetterQueue": False, "dlqAfterMaxRetries": False, "retentionEnabled": False, "encryptionEnabled": False}}), [],
        {"queue": "orders", "namespace": "shop", "task": "billing", "options": {"leaseTime": 60, "retryLimit": 5}}),
    "GET /api/v1/resources/queues": (whole(queues=array(whole(**HEAD, partitions=INTEGER, messages=MESSAGES))), [LIMIT, OFFSET], None),
    "GET /api/v1/resources/queues/{queue}": (
        whole(**HEAD, totals=COUNTS, options=whole(**{name: OPTION for name in BY_NAME}), partitions=array(whole(
            id=ID, name=TEXT, createdAt=TIME, stats=COUNTS, oldestMessage=SOME_TIME, newestMessage=SOME_TIME))), [LIMIT, OFFSET], None),
    "DELETE /api/v1/resources/queues/{queue}": (whole(deleted=DONE, queue=TEXT, existed=FLAG), [], None),
    "GET /api/v1/resources/queues/{queue}/depth": (
        whole(queue=TEXT, group=MAYBE, pending=INTEGER, partitionsPending=INTEGER, conflation=FLAG, effectivePending=INTEGER, partitions=array(whole(partition=TEXT, pending=INTEGER))),
        [parameter("group", NAME), LIMIT], None),
    "GET /api/v1/resources/partitions": (
        whole(partitions=array(whole(id=ID, name=TEXT, queue=MAYBE, createdAt=TIME, stats=COUNTS)), pagination=PAGINATION), [QUEUE, LIMIT, OFFSET], None),
    "GET /api/v1/resources/namespaces": (whole(namespaces=array(whole(namespace=TEXT, **SPACE))), [LIMIT, OFFSET], None),
    "GET /api/v1/resources/tasks": (whole(tasks=array(whole(task=TEXT, **SPACE))), [LIMIT, OFFSET], None),
    "GET /api/v1/consumer-groups": (array(whole(
        name=TEXT, topics=array(TEXT), queueName=TEXT, members=INTEGER, partitionsWithLag=INTEGER,
        totalLag=INTEGER, maxTimeLag=INTEGER, state={"enum": ["Stable", "Lagging", "Dead"]}, subscriptionMode=MAYBE, subscriptionTimestamp=SOME_TIME, subscriptionCreatedAt=SOME_TIME)), [LIMIT, OFFSET], None),
    "GET /api/v1/consumer-groups/lagging": (
        array(whole(consumer_group=TEXT, queue_name=TEXT, partition_name=TEXT, partition_id=ID, worker_id=MAYBE, offset_lag=INTEGER, time_lag_seconds=INTEGER, lag_hours=NUMBER,
                    oldest_unconsumed_at=SOME_TIME, last_consumed_at=SOME_TIME)), [parameter("minLagSeconds", {**INTEGER, "minimum": 0}), LIMIT], None),
    "GET /api/v1/consumer-groups/{group}": (
        mapping(whole(partitions=array(whole("standsSince", "leasesLapsed", partition=TEXT, workerId=MAYBE, lastConsumedAt=SOME_TIME, totalConsumed=INTEGER, offset=INTEGER, head=INTEGER, offsetLag=INTEGER,
                                             timeLagSeconds=INTEGER, leaseActive=FLAG, standsSince=TIME, leasesLapsed=INTEGER)))), [LIMIT], None),
    "DELETE /api/v1/consumer-groups/{group}": (
        whole(success=DONE, consumerGroup=TEXT, deletedPartitions=INTEGER, metadataDeleted=FLAG, existed=FLAG), [parameter("deleteMetadata", FLAG, "its subscription, too")], None),
    "DELETE /api/v1/consumer-groups/{group}/queues/{queue}": (
        whole(success=DONE, consumerGroup=TEXT, queueName=TEXT, deletedPartitions=INTEGER, metadataDeleted=FLAG, existed=FLAG), [parameter("deleteMetadata", FLAG, "its subscription, too")], None),
    "POST /api/v1/consumer-groups/{group}/subscription": (
        whole(success=DONE, consumerGroup=TEXT, newTimestamp=TEXT, rowsUpdated=INTEGER), [], {"subscriptionTimestamp": WAS["timestamp"]}),
    "POST /api/v1/consumer-groups/{group}/queues/{queue}/seek": (
        whole("targetOffset", success=DONE, consumerGroup=TEXT, queueName=TEXT, seekToEnd=FLAG,
              targetTimestamp=SOME_TIME, targetOffset=INTEGER, partitionsUpdated=INTEGER), [], {"toEnd": True}),
    "POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek": (
        whole(success=DONE, consumerGroup=TEXT, queueName=TEXT, partitionName=TEXT, updated=FLAG, cursorMovedTo=SOME_TIME), [], {"offset": 0}),
    "POST /api/v1/consumer-groups/{group}/offsets": (
        whole(entries=array(whole("error", queue=TEXT, partition=TEXT, offset=SOME_INTEGER, error=TEXT))), [],
        {"entries": [{"queue": "orders", "partition": "customer-7", "offset": 42}]}),
    "GET /api/v1/messages": (
        whole(messages=array(whole(
            "deliverAt", **PLACE, namespace=TEXT, task=TEXT, status=TEXT, queueStatus=MAYBE, busStatus=whole(consumedBy=INTEGER, totalGroups=INTEGER),
            traceId=MAYBE, producerSub=MAYBE, queuePriority=INTEGER, createdAt=TIME, leaseExpiresAt=SOME_TIME, offset=INTEGER, deliverAt=SOME_TIME)), mode=whole(**MODE)),
        [QUEUE, PARTITION, parameter("ns", NAME), parameter("task", NAME), parameter("status", {"enum": ["pending", "processing", "completed", "failed", "dead_letter"]}), FROM, TO, LIMIT, OFFSET], None),
    "GET /api/v1/messages/{partition}/{transaction_id}": (
        whole("deliverAt", **PLACE, namespace=TEXT, task=TEXT, payload=ANY, isEncrypted=FLAG, status={"enum": ["pending", "processing", "completed", "dead_letter"]}, traceId=MAYBE, producerSub=MAYBE,
              createdAt=TIME, errorMessage=MAYBE, retryCount=SOME_INTEGER, leaseExpiresAt=SOME_TIME, offset=INTEGER, deliverAt=SOME_TIME,
              queueConfig=whole(leaseTime=INTEGER, retryLimit=INTEGER, retryDelay=INTEGER, ttl=INTEGER, priority=INTEGER), mode=whole(**MODE, consumedByGroups=INTEGER),
              consumerGroups=array(whole(name=TEXT, consumed=FLAG, leaseExpiresAt=SOME_TIME))), [], None),
    "DELETE /api/v1/messages/{partition}/{transaction_id}": (whole(success=FLAG, partitionId=TEXT, transactionId=TEXT, message=TEXT), [], None),
    "POST /api/v1/messages/{partition}/{transaction_id}/retry": (whole(success=DONE, partitionId=TEXT, transactionId=TEXT, newTransactionId=TEXT), [], None),
    "POST /api/v1/messages/{partition}/{transaction_id}/dlq": (
        whole(success=DONE, partitionId=TEXT, transactionId=TEXT, consumerGroup=TEXT, moved=FLAG), [], {"consumerGroup": "billing", "error": "no such customer"}),
    "GET /api/v1/dlq": (
        whole(messages=array(whole(
            id=ID, transactionId=TEXT, partitionId=ID, queue=MAYBE, partition=MAYBE,
            consumerGroup=TEXT, errorMessage=MAYBE, retryCount=INTEGER, data=ANY, producerSub=MAYBE, createdAt=TIME, failedAt=TIME, offset=INTEGER)), total=INTEGER, pagination=PAGINATION),
        [QUEUE, GROUP, PARTITION, FROM, TO, LIMIT, OFFSET], None),
    "DELETE /api/v1/dlq": (whole(success=DONE, queue=TEXT, deleted=INTEGER), [{**QUEUE, "required": True}, GROUP, PARTITION, FROM, TO], None),
    "POST /api/v1/dlq/redrive": (whole(success=DONE, queue=TEXT, redriven=INTEGER, left=FLAG), [], {"queue": "orders", "consumerGroup": "billing", "limit": 100}),
    "POST /api/v1/traces": (
        whole(success=DONE, traceId=TEXT), [],
        {"transactionId": "order-17", "partitionId": MESSAGE["partitionId"], "data": {"text": "charged"}, "consumerGroup": "billing", "eventType": "info", "traceNames": ["order-17"]}),
    "GET /api/v1/traces/names": (
        whole(trace_names=array(whole(trace_name=TEXT, trace_count=INTEGER, message_count=INTEGER, last_seen=TIME)), total=INTEGER, pagination=PAGINATION), [LIMIT, OFFSET], None),
    "GET /api/v1/traces/by-name/{name}": (
        whole(traces=array(whole(**TRACE, transaction_id=TEXT, partition_id=ID, queue_name=MAYBE, partition_name=MAYBE, message_payload=ANY)), total=INTEGER, pagination=PAGINATION), [LIMIT, OFFSET], None),
    "GET /api/v1/traces/{partition}/{transaction_id}": (whole(traces=array(whole(**TRACE))), [], None),
    "POST /api/v1/fetch": (
        whole(entries=array(whole("error", queue=TEXT, partition=TEXT, **MARKS, error=TEXT,
                                  records=array(whole(offset=INTEGER, transactionId=TEXT, payload=ANY, ts=TIME))))), [parameter("format", {"enum": ["cloudevents"]})],
        {"entries": [{"queue": "orders", "partition": "customer-7", "offset": 0}], "maxBytes": 1048576}),
    "POST /api/v1/fetch/offsets": (
        whole(entries=array(whole("error", queue=TEXT, partition=TEXT, offset=SOME_INTEGER, ts=SOME_TIME, **MARKS, error=TEXT))), [],
        {"entries": [{"queue": "orders", "partition": "customer-7", **WAS}]}),
    "POST /api/v1/partitions/changed": (
        whole(safeTime=TIME, entries=array(whole("error", next=MAYBE, error=TEXT, partitions=array(whole(
            "number", number=INTEGER, name=TEXT, id=ID, lastOffset=INTEGER, logStart=INTEGER, lastWriteAt=SOME_TIME))))), [], {"entries": [{"queue": "orders", "since": WAS["timestamp"], "limit": 100}]}),
    "POST /api/v1/offsets": (
        whole(queue=TEXT, next=MAYBE, partitions=array(whole("offset", name=TEXT, id=ID, **MARKS, lastWriteAt=SOME_TIME, offset=SOME_INTEGER))), [], {"queue": "orders", "limit": 100}),
    "POST /streams/v1/queries": (
        whole(success=DONE, query_id=ID, name=TEXT, config_hash=TEXT, fresh=FLAG, reset=FLAG), [],
        {"name": "totals", "source_queue": "orders", "sink_queue": "totals", "config_hash": "c0ffee"}),
    "POST /streams/v1/cycle": (
        whole("error", success=FLAG, query_id=TEXT, partition_id=TEXT, queueName=MAYBE, state_ops_applied=INTEGER, push_results=array(ref("PushResult")), error=TEXT,
              ack_result={"oneOf": [{"type": "null"}, whole(success=FLAG, count=INTEGER, lease_released=FLAG, dlq=FLAG)]}), [],
        {"query_id": QUERY, "partition_id": MESSAGE["partitionId"], "state_ops": [{"type": "upsert", "key": "total", "value": {"n": 1}}], "push_items": [{"queue": "totals", "payload": {"n": 1}}]}),
    "POST /streams/v1/state/get": (
        whole(success=DONE, rows=array(whole(key=TEXT, value=ANY, updated_at=TIME))), [], {"query_id": QUERY, "partition_id": MESSAGE["partitionId"], "key_prefix": "to"}),
    "GET /api/v1/status/queues": (
        whole(queues=array(whole(**HEAD, partitions=INTEGER, messages=MESSAGES)), pagination=PAGINATION), [parameter("namespace", NAME), parameter("task", NAME), LIMIT, OFFSET], None),
    "GET /api/v1/status/queues/{queue}": (
        whole(queue=whole(**HEAD, priority=INTEGER, config=whole(leaseTime=INTEGER, retryLimit=INTEGER, retryDelay=INTEGER, ttl=INTEGER, maxQueueSize=INTEGER, deadLetterQueue=FLAG)),
              totals=whole(messages=COUNTS, **COUNTS["properties"]),
              partitions=array(whole(id=ID, name=TEXT, createdAt=TIME, messages=COUNTS, stats=COUNTS, cursor=whole(totalConsumed=SOME_INTEGER, batchesConsumed=INTEGER), lastActivity=SOME_TIME,
                                     oldestMessage=SOME_TIME, newestMessage=SOME_TIME))), [LIMIT, OFFSET], None),
    "GET /api/v1/status/queues/{queue}/messages": (array(whole(**PLACE, status=MAYBE, createdAt=TIME)), [LIMIT, OFFSET], None),
    "DELETE /api/v1/queues/{queue}/clear": (
        like(whole(cleared=DONE, queue=TEXT, partition=MAYBE, count=INTEGER), {"cleared": True, "queue": "orders", "partition": None, "count": 10}), [PARTITION], None),
    **FIGURES,
    "GET /openapi.json": (record(["openapi", "info", "paths"], openapi=TEXT, info={"type": "object"}, paths={"type": "object"}), [], None),
}
