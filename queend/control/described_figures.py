"""What the routes of status and analytics answer, for the OpenAPI document; as in `described`."""
from __future__ import annotations

from typing import Any

from .openapi import ANY, FLAG, ID, INTEGER, NAME, NUMBER, TEXT, TIME, array, parameter, record, whole

FROM, TO = parameter("from", TIME, "ISO 8601; without a zone UTC"), parameter("to", TIME, "ISO 8601; without a zone UTC")
QUEUE, NAMESPACE, TASK = parameter("queue", NAME), parameter("namespace", NAME), parameter("task", NAME)
DAEMON = [parameter("hostname", NAME), parameter("workerId", {**INTEGER, "minimum": 0})]
FIGURE = {"type": ["number", "null"]}
OBJECT = {"type": "object"}


def figures(*names: str) -> dict[str, Any]:
    """Members that are numbers, or null where nothing was measured."""
    return dict.fromkeys(names, FIGURE)


SPAN = {"timeRange": OBJECT, "bucketMinutes": INTEGER}
SPREAD = whole(**figures("avg", "median", "min", "max"))
WORKER = {"hostname": TEXT, "workerId": ANY, **figures("avgEventLoopLagMs", "maxEventLoopLagMs", "freeSlots", "dbConnections", "jobQueueSize", "messagesProcessed")}
MESSAGES = {"total": INTEGER, "pending": INTEGER, "processing": INTEGER, "completed": INTEGER, "failed": INTEGER, "deadLetter": INTEGER}
LAG = figures("avgLagMs", "maxLagMs")
SHARED: tuple[dict[str, Any], list[dict[str, Any]], Any] = (record(["enabled", "running"], enabled=FLAG, running=FLAG), [], None)

FIGURES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], Any]] = {
    "GET /api/v1/resources/overview": (
        whole(queues=INTEGER, partitions=INTEGER, namespaces=INTEGER, tasks=INTEGER, messages=whole(**MESSAGES), lag=whole(time=SPREAD, offset=SPREAD),
              throughput=whole(ingestedPerSecond=NUMBER, processedPerSecond=NUMBER), timestamp=TIME, statsAge=INTEGER), [], None),
    "GET /api/v1/status": (
        record(["timeRange", "bucketMinutes", "pointCount", "throughput", "queues", "messages", "leases", "deadLetterQueue", "workers", "errors"], **SPAN, pointCount=INTEGER,
               throughput=array(whole(timestamp=TIME, **figures(
                   "ingested", "processed", "popMessages", "ingestedPerSecond", "processedPerSecond", "popPerSecond", "avgLagMs", "maxLagMs", "avgEventLoopLagMs", "maxEventLoopLagMs", "minFreeSlots",
                   "dbErrors", "ackFailed", "dlqCount", "queenCpuUserPct", "queenCpuSysPct", "queenRssMb", "dbPoolActive", "dbPoolIdle", "dbPoolSize"))),
               queues=array(record(["id", "name", "namespace", "task", "partitions"], id=ID, name=TEXT, namespace=TEXT, task=TEXT, partitions=INTEGER, totalConsumed=FIGURE)),
               messages=record([*MESSAGES, "requests", "batchEfficiency"], **MESSAGES, requests=whole(push=INTEGER, pop=INTEGER, ack=INTEGER), batchEfficiency=whole(push=NUMBER, pop=NUMBER, ack=NUMBER)),
               leases=whole(**figures("active", "partitionsWithLeases", "totalBatchSize", "totalAcked")),
               deadLetterQueue=whole(totalMessages=INTEGER, affectedPartitions=INTEGER, topErrors=array(OBJECT)), workers=array(whole(**WORKER)), errors=whole(dbErrors=INTEGER, ackFailed=INTEGER, dlqMessages=INTEGER)),
        [FROM, TO, QUEUE, NAMESPACE, TASK], None),
    "GET /api/v1/status/analytics": (
        record(["dataPoints", "interval"], dataPoints=array(whole(timestamp=TIME, messages=INTEGER)), interval={"enum": ["minute", "hour", "day", "week"]}),
        [FROM, TO, QUEUE, NAMESPACE, TASK, parameter("interval", {"enum": ["minute", "hour", "day", "week"]})], None),
    "GET /api/v1/analytics/system-metrics": (
        whole(**SPAN, replicaCount=INTEGER, pointCount=INTEGER, replicas=array(whole(hostname=TEXT, port=INTEGER, workerId=TEXT, timeSeries=array(whole(timestamp=TIME, sampleCount=INTEGER, metrics=OBJECT))))),
        [FROM, TO, *DAEMON], None),
    "GET /api/v1/analytics/worker-metrics": (
        whole(**SPAN, pointCount=INTEGER, timeSeries=array(record(["timestamp", "pushMessages", "popMessages", "ackMessages"], timestamp=TIME, pushMessages=INTEGER, popMessages=INTEGER, ackMessages=INTEGER)),
              workers=array(whole(**WORKER, backoffSize=FIGURE, lastSeen=TIME)), queues=array(whole(queueName=TEXT, popCount=INTEGER, **LAG)), summary={"type": "object", "additionalProperties": INTEGER}),
        [FROM, TO, *DAEMON], None),
    "GET /api/v1/analytics/queue-lag": (array(whole(queueName=TEXT, popCount=INTEGER, **LAG, bucketTime=TIME)), [FROM, TO, QUEUE], None),
    "GET /api/v1/analytics/queue-ops": (
        whole(**SPAN, queues=array(TEXT), series=array(whole(bucket=TIME, queueName=TEXT, **LAG, **figures(
            "pushRequests", "pushMessages", "popMessages", "popEmpty", "ackRequests", "ackSuccess", "ackFailed", "transactions", "partitionsCreated", "partitionsDeleted", "partitionCount",
            "pushPerSecond", "popPerSecond", "ackPerSecond", "emptyPerSecond", "parkedCount")))), [FROM, TO, QUEUE], None),
    "GET /api/v1/analytics/queue-parked-replicas": (
        whole(**SPAN, series=array(whole(bucket=TIME, queueName=TEXT, hostname=TEXT, workerId=ANY, parkedCount=NUMBER)), replicas=array(whole(hostname=TEXT, workerId=ANY))), [FROM, TO, QUEUE], None),
    "GET /api/v1/analytics/retention": (whole(**SPAN, series=array(record(["bucket"], bucket=TIME)), totals={"type": "object", "additionalProperties": INTEGER}), [FROM, TO, QUEUE], None),
    "GET /api/v1/analytics/postgres-stats": (
        record(["timestamp", "database", "databaseCache", "bufferConfig", "bufferUsage", "cacheSummary"], timestamp=TIME, database=TEXT, databaseCache=OBJECT, bufferConfig=OBJECT,
               bufferUsage=array(OBJECT), cacheSummary=whole(tables=OBJECT, indexes=OBJECT)), [], None),
    "GET /api/v1/system/shared-state": SHARED, "GET /internal/api/shared-state/stats": SHARED, "GET /internal/api/inter-instance/stats": SHARED,
    "GET /api/v1/system/maintenance": (record(["maintenanceMode", "popMaintenanceMode", "bufferedMessages", "bufferHealthy", "bufferStats"], maintenanceMode=FLAG,
                                              popMaintenanceMode=FLAG, bufferedMessages=INTEGER, bufferHealthy=FLAG, bufferStats=OBJECT), [], None),
    "POST /api/v1/system/maintenance": (whole(maintenanceMode=FLAG, bufferedMessages=INTEGER, bufferHealthy=FLAG, message=TEXT), [], {"enabled": False}),
    "GET /api/v1/system/maintenance/pop": (whole(popMaintenanceMode=FLAG, message=TEXT), [], None),
    "POST /api/v1/system/maintenance/pop": (whole(popMaintenanceMode=FLAG, message=TEXT), [], {"enabled": False}),
    "GET /api/v1/status/buffers": (record(["pending", "failed", "dbHealthy", "worker"], pending=INTEGER, failed=INTEGER, dbHealthy=FLAG, worker=INTEGER, bytes=INTEGER,
                                          oldestAgeSeconds=NUMBER, otherDatabases=INTEGER, note=TEXT), [], None),
    "POST /internal/api/notify": (whole(status={"const": "ok"}), [], {"queue": "orders", "partition": "customer-7"}),
}
