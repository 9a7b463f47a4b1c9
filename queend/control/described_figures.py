"""What the routes of status and analytics answer, for the OpenAPI document; as in `described`."""
from __future__ import annotations

from typing import Any

from .openapi import FLAG, ID, INTEGER, MAYBE, NAME, NUMBER, SOME_INTEGER, SOME_NUMBER, SOME_TIME, TEXT, TIME, array, like, parameter, whole

FROM, TO = parameter("from", TIME, "ISO 8601; without a zone UTC"), parameter("to", TIME, "ISO 8601; without a zone UTC")
QUEUE, NAMESPACE, TASK = parameter("queue", NAME), parameter("namespace", NAME), parameter("task", NAME)
DAEMON = [parameter("hostname", NAME), parameter("workerId", {**INTEGER, "minimum": 0})]


DOUBTS = array({"enum": ["away", "silent", "disk_full", "read_only", "refused", "crowded", "buffer_full"]})
RISKS = array({"enum": ["synchronous_commit", "synchronous_commit_local", "fsync", "full_page_writes"]})


def each(kind: dict[str, Any], *names: str) -> dict[str, Any]:
    """Members of one kind."""
    return dict.fromkeys(names, kind)


def integers(*names: str) -> dict[str, Any]:
    return each(INTEGER, *names)


RANGE = {"timeRange": {"from": "2026-01-02T03:00:00.000Z", "to": "2026-01-02T04:00:00.000Z"}, "bucketMinutes": 1}
SPAN = {"timeRange": whole(**{"from": TIME, "to": TIME}), "bucketMinutes": INTEGER}
SPREAD = whole(**integers("avg", "median", "min", "max"))
WORKER = {"hostname": TEXT, **integers("workerId", "avgEventLoopLagMs", "maxEventLoopLagMs", "freeSlots", "dbConnections", "jobQueueSize", "messagesProcessed")}
A_WORKER = {"hostname": "one", "workerId": 0, "avgEventLoopLagMs": 1, "maxEventLoopLagMs": 7, "freeSlots": 8, "dbConnections": 8, "jobQueueSize": 0, "messagesProcessed": 19}
COUNTS = ("total", "pending", "processing", "completed", "failed", "deadLetter")
LAG = {"avgLagMs": NUMBER, "maxLagMs": INTEGER}
A_LAG = {"avgLagMs": 3.5, "maxLagMs": 20}
OPS = ("push", "pop", "ack")
RATES = ("pushPerSecond", "popPerSecond", "ackPerSecond")
REMOVED = ("retentionMsgs", "completedRetentionMsgs", "evictionMsgs", "totalMsgs", "eventCount")
SUMMARY = ("totalPushMessages", "totalPopMessages", "totalAckMessages", "totalPushRequests", "totalPopRequests", "totalAckRequests", "totalDbErrors", "totalAckFailed", "totalDlq", "pendingMessages")

# What is null was not measured. Of a level: average, bounds and the last value of the samples in a bucket.
LEVEL = whole(**each(SOME_NUMBER, "avg", "min", "max", "last"))
A_LEVEL = {"avg": 8.0, "min": 8.0, "max": 8.0, "last": 8.0}
LEVELS = {"cpu": ("user_us", "system_us"), "memory": ("rss_bytes", "virtual_bytes"), "database": ("pool_size", "pool_idle", "pool_active"), "registries": ("response",)}
POOLS = ("pool_size", "queue_size")
# Kept by servers that talk to each other; there are none here.
PEERS = {"queue_config_cache": ("size", "hits", "misses"), "consumer_presence": ("queues_tracked", "servers_tracked", "total_registrations"), "server_health": ("alive", "dead"),
         "transport": ("sent", "received", "dropped")}
BACKOFF = ("queues_with_backoff", "total_backed_off_groups", "avg_interval_ms")
OP = ("count", "items", "latency_us")
METRICS = whole(
    **{name: whole(**each(LEVEL, *leaves)) for name, leaves in LEVELS.items()}, threadpool=whole(**each(whole(**each(LEVEL, *POOLS)), "db", "system")),
    shared_state=whole(enabled=FLAG, queue_backoff=whole(**integers(*BACKOFF)), queue_backoff_summary={"type": "array", "maxItems": 0},
                       **{name: whole(**each(SOME_INTEGER, *leaves)) for name, leaves in PEERS.items()}, sidecar_ops=whole(**each(whole(**integers(*OP)), *OPS))))
SOME_METRICS = {
    **{name: dict.fromkeys(leaves, A_LEVEL) for name, leaves in LEVELS.items()}, "threadpool": dict.fromkeys(("db", "system"), dict.fromkeys(POOLS, A_LEVEL)),
    "shared_state": {"enabled": False, "queue_backoff": dict.fromkeys(BACKOFF, 0), "queue_backoff_summary": [], **{name: dict.fromkeys(leaves) for name, leaves in PEERS.items()},
                     "sidecar_ops": dict.fromkeys(OPS, {"count": 4, "items": 10, "latency_us": 900})}}

CACHED = {**integers("diskReads", "cacheHits"), "cacheHitRatio": NUMBER}
SOME_CACHED = {"diskReads": 51, "cacheHits": 175822, "cacheHitRatio": 99.97}
CACHES, SOME_CACHES = whole(**integers("diskReads", "cacheHits"), hitRatio=NUMBER), {"diskReads": 51, "cacheHits": 23491, "hitRatio": 99.78}
HERE, OF_IT = {"schema": TEXT, "table": TEXT}, {"schema": "queend", "table": "log"}
PEERLESS = {"enabled": FLAG, "running": FLAG, "server_id": TEXT, "queue_config_cache": whole(**integers("size", "hits", "misses"), hit_rate=NUMBER),
            "server_health": whole(**integers("servers_tracked", "servers_alive", "servers_dead", "heartbeats_received", "restarts_detected")),
            "maintenance_mode": FLAG, "pop_maintenance_mode": FLAG}
ALONE = {"enabled": False, "running": False, "server_id": "", "queue_config_cache": {"size": 0, "hits": 0, "misses": 0, "hit_rate": 0.0},
         "server_health": {"servers_tracked": 0, "servers_alive": 0, "servers_dead": 0, "heartbeats_received": 0, "restarts_detected": 0},
         "maintenance_mode": False, "pop_maintenance_mode": False}
SHARED: tuple[dict[str, Any], list[dict[str, Any]], Any] = (like(whole(**PEERLESS), ALONE), [], None)

FIGURES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], Any]] = {
    "GET /health": (
        like(whole("reason", reason=TEXT, status={"enum": ["healthy", "unhealthy"]}, database={"enum": ["connected", "disconnected"]}, doubts=DOUBTS,
                   commitsMayBeLost=RISKS, server=TEXT, worker_id=INTEGER, version=TEXT,
                   shared_state=whole(**PEERLESS), queen=whole(worker_id=INTEGER, status={"const": "active"})),
             {"status": "healthy", "database": "connected", "doubts": [], "commitsMayBeLost": [], "server": "queend", "worker_id": 0, "version": "0.1.0", "shared_state": ALONE, "queen": {"worker_id": 0, "status": "active"}}), [], None),
    "GET /metrics": (
        like(whole(uptime=INTEGER, requests=whole(total=INTEGER, rate=NUMBER), messages=whole(total=INTEGER, rate=NUMBER), database=whole(**integers("poolSize", "idleConnections", "waitingRequests")),
                   memory=whole(**integers("rss", "heapTotal", "heapUsed", "external", "arrayBuffers")), cpu=whole(**integers("user", "system"))),
             {"uptime": 888, "requests": {"total": 1014, "rate": 1.14}, "messages": {"total": 41, "rate": 0.05}, "database": {"poolSize": 3, "idleConnections": 3, "waitingRequests": 0},
              "memory": {"rss": 81661952, "heapTotal": 0, "heapUsed": 0, "external": 0, "arrayBuffers": 0}, "cpu": {"user": 10206321, "system": 1397716}}), [], None),
    "GET /api/v1/resources/overview": (
        like(whole(**integers("queues", "partitions", "namespaces", "tasks"), messages=whole(**integers(*COUNTS)), lag=whole(time=SPREAD, offset=SPREAD),
                   throughput=whole(ingestedPerSecond=NUMBER, processedPerSecond=NUMBER), timestamp=TIME, statsAge=INTEGER),
             {"queues": 1, "partitions": 2, "namespaces": 1, "tasks": 1, "messages": {"total": 10, "pending": 1, "processing": 0, "completed": 9, "failed": 0, "deadLetter": 0},
              "lag": dict.fromkeys(("time", "offset"), {"avg": 1, "median": 1, "min": 1, "max": 1}), "throughput": {"ingestedPerSecond": 0.03, "processedPerSecond": 0.03},
              "timestamp": "2026-01-02T03:04:05.678Z", "statsAge": 0}), [], None),
    "GET /api/v1/status": (
        like(whole(**SPAN, pointCount=INTEGER,
                   throughput=array(whole(
                       timestamp=TIME, **integers("ingested", "processed", "popMessages", "ackFailed"), **each(NUMBER, "ingestedPerSecond", "processedPerSecond", "popPerSecond"), **LAG,
                       **each(SOME_INTEGER, "avgEventLoopLagMs", "maxEventLoopLagMs", "minFreeSlots", "dbErrors", "dlqCount"),
                       **each(SOME_NUMBER, "queenCpuUserPct", "queenCpuSysPct", "queenRssMb", "dbPoolActive", "dbPoolIdle", "dbPoolSize"))),
                   queues=array(whole(id=ID, name=TEXT, namespace=TEXT, task=TEXT, **integers("partitions", "totalConsumed"))),
                   messages=whole(**integers(*COUNTS), requests=whole(**integers(*OPS)), batchEfficiency=whole(**each(NUMBER, *OPS))),
                   leases=whole(**integers("active", "partitionsWithLeases", "totalBatchSize", "totalAcked")),
                   deadLetterQueue=whole(**integers("totalMessages", "affectedPartitions"), topErrors=array(whole(error=MAYBE, count=INTEGER))), workers=array(whole(**WORKER)),
                   errors=whole(**integers("dbErrors", "ackFailed", "dlqMessages")), statsAge=INTEGER),
             {**RANGE, "pointCount": 1, "throughput": [{
                 "timestamp": "2026-01-02T03:04:00Z", "ingested": 10, "processed": 9, "popMessages": 9, "ackFailed": 0, "ingestedPerSecond": 0.17, "processedPerSecond": 0.15, "popPerSecond": 0.15,
                 **A_LAG, "avgEventLoopLagMs": 1, "maxEventLoopLagMs": 7, "minFreeSlots": 7, "dbErrors": 0, "dlqCount": 0, "queenCpuUserPct": 0.77, "queenCpuSysPct": 0.11, "queenRssMb": 77.8,
                 "dbPoolActive": 0.0, "dbPoolIdle": 18.0, "dbPoolSize": 18.0}],
              "queues": [{"id": "797a957c-35c2-82ab-9eb6-1136a4b4fea3", "name": "orders", "namespace": "shop", "task": "billing", "partitions": 2, "totalConsumed": 9}],
              "messages": {"total": 10, "pending": 1, "processing": 0, "completed": 9, "failed": 0, "deadLetter": 0, "requests": {"push": 4, "pop": 5, "ack": 5},
                           "batchEfficiency": {"push": 2.5, "pop": 1.8, "ack": 1.8}},
              "leases": {"active": 1, "partitionsWithLeases": 1, "totalBatchSize": 1, "totalAcked": 0},
              "deadLetterQueue": {"totalMessages": 2, "affectedPartitions": 1, "topErrors": [{"error": "no such customer", "count": 2}]}, "workers": [A_WORKER],
              "errors": {"dbErrors": 0, "ackFailed": 0, "dlqMessages": 0}, "statsAge": 0}),
        [FROM, TO, QUEUE, NAMESPACE, TASK], None),
    "GET /api/v1/status/analytics": (
        like(whole(dataPoints=array(whole(timestamp=TIME, messages=INTEGER)), interval={"enum": ["minute", "hour", "day", "week"]}, **{"from": TIME, "to": TIME}),
             {"dataPoints": [{"timestamp": "2026-01-02T03:00:00.000Z", "messages": 230}], "interval": "hour", **RANGE["timeRange"]}),
        [FROM, TO, QUEUE, NAMESPACE, TASK, parameter("interval", {"enum": ["minute", "hour", "day", "week"]})], None),
    "GET /api/v1/analytics/system-metrics": (
        like(whole(**SPAN, replicaCount=INTEGER, pointCount=INTEGER, replicas=array(whole(
            hostname=TEXT, port=INTEGER, workerId=TEXT, timeSeries=array(whole(timestamp=TIME, sampleCount=INTEGER, metrics=METRICS))))),
             {**RANGE, "replicaCount": 1, "pointCount": 1, "replicas": [{"hostname": "one", "port": 6632, "workerId": "0", "timeSeries": [
                 {"timestamp": "2026-01-02T03:04:00.000Z", "sampleCount": 60, "metrics": SOME_METRICS}]}]}), [FROM, TO, *DAEMON], None),
    "GET /api/v1/analytics/worker-metrics": (
        like(whole(**SPAN, pointCount=INTEGER,
                   timeSeries=array(whole(timestamp=TIME, **integers(
                       "pushMessages", "popMessages", "ackMessages", "pushRequests", "popRequests", "ackRequests", "jobsDone", "avgEventLoopLagMs", "maxEventLoopLagMs", "avgFreeSlots",
                       "minFreeSlots", "dbConnections", "avgJobQueueSize", "maxJobQueueSize", "backoffSize", "lagCount", "dbErrors", "ackSuccess", "ackFailed", "dlqCount"), **each(NUMBER, *RATES), **LAG)),
                   workers=array(whole(**WORKER, backoffSize=INTEGER, lastSeen=TIME)), queues=array(whole(queueName=TEXT, popCount=INTEGER, **LAG)), summary=whole(**integers(*SUMMARY))),
             {**RANGE, "pointCount": 1, "timeSeries": [{
                 "timestamp": "2026-01-02T03:04:00Z", "pushMessages": 10, "popMessages": 9, "ackMessages": 9, "pushRequests": 4, "popRequests": 5, "ackRequests": 5, "jobsDone": 14,
                 "avgEventLoopLagMs": 1, "maxEventLoopLagMs": 7, "avgFreeSlots": 7, "minFreeSlots": 7, "dbConnections": 8, "avgJobQueueSize": 0, "maxJobQueueSize": 1, "backoffSize": 0, "lagCount": 9,
                 "dbErrors": 0, "ackSuccess": 9, "ackFailed": 0, "dlqCount": 0, "pushPerSecond": 0.17, "popPerSecond": 0.15, "ackPerSecond": 0.15, **A_LAG}],
              "workers": [{**A_WORKER, "backoffSize": 0, "lastSeen": "2026-01-02T03:04:05Z"}], "queues": [{"queueName": "orders", "popCount": 9, **A_LAG}],
              "summary": dict(zip(SUMMARY, (10, 9, 9, 4, 5, 5, 0, 0, 0, 1), strict=True))}), [FROM, TO, *DAEMON], None),
    "GET /api/v1/analytics/queue-lag": (
        like(array(whole(queueName=TEXT, popCount=INTEGER, **LAG, bucketTime=TIME)), [{"queueName": "orders", "popCount": 9, **A_LAG, "bucketTime": "2026-01-02T03:04:00Z"}]), [FROM, TO, QUEUE], None),
    "GET /api/v1/analytics/queue-ops": (
        like(whole(**SPAN, queues=array(TEXT), series=array(whole(bucket=TIME, queueName=TEXT, **LAG, partitionCount=SOME_INTEGER, **integers(
            "pushRequests", "pushMessages", "popMessages", "popEmpty", "ackRequests", "ackSuccess", "ackFailed", "transactions", "partitionsCreated", "partitionsDeleted"),
            **each(NUMBER, *RATES, "emptyPerSecond", "parkedCount")))),
             {**RANGE, "queues": ["orders"], "series": [{
                 "bucket": "2026-01-02T03:04:00Z", "queueName": "orders", **A_LAG, "partitionCount": 2, "pushRequests": 4, "pushMessages": 10, "popMessages": 9, "popEmpty": 1, "ackRequests": 5, "ackSuccess": 9,
                 "ackFailed": 0, "transactions": 0, "partitionsCreated": 2, "partitionsDeleted": 0, "pushPerSecond": 0.17, "popPerSecond": 0.15, "ackPerSecond": 0.15, "emptyPerSecond": 0.02,
                 "parkedCount": 0.5}]}), [FROM, TO, QUEUE], None),
    "GET /api/v1/analytics/queue-parked-replicas": (
        like(whole(**SPAN, series=array(whole(bucket=TIME, queueName=TEXT, hostname=TEXT, workerId=INTEGER, parkedCount=NUMBER)), replicas=array(whole(hostname=TEXT, workerId=INTEGER))),
             {**RANGE, "series": [{"bucket": "2026-01-02T03:04:00Z", "queueName": "orders", "hostname": "one", "workerId": 0, "parkedCount": 0.5}], "replicas": [{"hostname": "one", "workerId": 0}]}),
        [FROM, TO, QUEUE], None),
    "GET /api/v1/analytics/retention": (
        like(whole(**SPAN, series=array(whole(bucket=TIME, **integers(*REMOVED))), totals=whole(**integers(*REMOVED))),
             {**RANGE, "series": [{"bucket": "2026-01-02T03:04:00Z", **dict(zip(REMOVED, (7, 0, 0, 7, 1), strict=True))}], "totals": dict(zip(REMOVED, (7, 0, 0, 7, 1), strict=True))}),
        [FROM, TO, QUEUE], None),
    "GET /api/v1/analytics/postgres-stats": (
        like(whole(timestamp=TIME, database=TEXT, databaseCache=whole(database=TEXT, **CACHED), tableCache=array(whole(**HERE, **CACHED)), indexCache=array(whole(**HERE, index=TEXT, **CACHED)),
                   deadTuples=array(whole(**HERE, **integers("deadTuples", "liveTuples"), deadPercentage=NUMBER, lastVacuum=SOME_TIME, lastAutovacuum=SOME_TIME)),
                   hotUpdates=array(whole(**HERE, **integers("totalUpdates", "hotUpdates"), hotUpdatePercentage=NUMBER)),
                   activeQueries=array(whole(pid=INTEGER, duration=SOME_NUMBER, state=TEXT, query=MAYBE, waitEventType=MAYBE, waitEvent=MAYBE)),
                   autovacuumStatus=array(whole(table=TEXT, lastAutovacuum=SOME_TIME, **integers("deadTuples", "autovacuumCount", "autoanalyzeCount"))),
                   tableSizes=array(whole(table=TEXT, **each(TEXT, "totalSize", "tableSize", "indexSize"), **integers("totalSizeBytes", "tableSizeBytes", "indexSizeBytes"))),
                   bufferConfig=whole(sharedBuffers=TEXT, sharedBuffersSize=TEXT), bufferUsage=array(whole(object=TEXT, bufferedSize=TEXT, bufferedBytes=INTEGER, percentOfCache=NUMBER)),
                   cacheSummary=whole(tables=CACHES, indexes=CACHES)),
             {"timestamp": "2026-01-02T03:04:05.678Z", "database": "queue", "databaseCache": {"database": "queue", **SOME_CACHED}, "tableCache": [{**OF_IT, **SOME_CACHED}],
              "indexCache": [{**OF_IT, "index": "log_pkey", **SOME_CACHED}],
              "deadTuples": [{**OF_IT, "deadTuples": 29, "liveTuples": 1000, "deadPercentage": 2.9, "lastVacuum": None, "lastAutovacuum": "2026-01-02T03:00:00Z"}],
              "hotUpdates": [{"schema": "queend", "table": "cursors", "totalUpdates": 216, "hotUpdates": 216, "hotUpdatePercentage": 100.0}],
              "activeQueries": [{"pid": 4711, "duration": 0.02, "state": "active", "query": "SELECT 1", "waitEventType": None, "waitEvent": None}],
              "autovacuumStatus": [{"table": "log", "lastAutovacuum": "2026-01-02T03:00:00Z", "deadTuples": 29, "autovacuumCount": 3, "autoanalyzeCount": 3}],
              "tableSizes": [{"table": "log", "totalSize": "104 kB", "totalSizeBytes": 106496, "tableSize": "88 kB", "tableSizeBytes": 90112, "indexSize": "16 kB", "indexSizeBytes": 16384}],
              "bufferConfig": {"sharedBuffers": "32768", "sharedBuffersSize": "256 MB"},
              "bufferUsage": [{"object": "log", "bufferedSize": "88 kB", "bufferedBytes": 90112, "percentOfCache": 0.03}], "cacheSummary": {"tables": SOME_CACHES, "indexes": SOME_CACHES}}), [], None),
    "GET /api/v1/system/shared-state": SHARED, "GET /internal/api/shared-state/stats": SHARED, "GET /internal/api/inter-instance/stats": SHARED,
    "GET /api/v1/system/maintenance": (
        like(whole(maintenanceMode=FLAG, popMaintenanceMode=FLAG, bufferedMessages=INTEGER, bufferHealthy=FLAG, bufferStats=whole(
            **integers("pendingCount", "failedCount"), dbHealthy=FLAG, failedFiles=whole(**integers("count", "totalBytes", "failoverCount", "qos0Count"), totalMB=NUMBER))),
             {"maintenanceMode": True, "popMaintenanceMode": False, "bufferedMessages": 12, "bufferHealthy": True, "bufferStats": {
                 "pendingCount": 12, "failedCount": 0, "dbHealthy": True, "failedFiles": {"count": 0, "totalBytes": 0, "failoverCount": 0, "qos0Count": 0, "totalMB": 0.0}}}), [], None),
    "POST /api/v1/system/maintenance": (
        like(whole(maintenanceMode=FLAG, bufferedMessages=INTEGER, bufferHealthy=FLAG, message=TEXT),
             {"maintenanceMode": True, "bufferedMessages": 0, "bufferHealthy": True, "message": "Maintenance mode is on: pushes are buffered"}), [], {"enabled": False}),
    "GET /api/v1/system/maintenance/pop": (like(whole(popMaintenanceMode=FLAG, message=TEXT), {"popMaintenanceMode": False, "message": "Pop maintenance is off"}), [], None),
    "POST /api/v1/system/maintenance/pop": (
        like(whole(popMaintenanceMode=FLAG, message=TEXT), {"popMaintenanceMode": True, "message": "Pop maintenance is on: pops find nothing"}), [], {"enabled": False}),
    "GET /api/v1/status/buffers": (
        like(whole("note", pending=INTEGER, failed=INTEGER, dbHealthy=FLAG, worker=INTEGER, bytes=INTEGER, oldestAgeSeconds=NUMBER, otherDatabases=INTEGER, note=TEXT),
             {"pending": 12, "failed": 0, "dbHealthy": False, "worker": 0, "bytes": 2048, "oldestAgeSeconds": 4.2, "otherDatabases": 0}), [], None),
    "POST /api/v1/stats/refresh": (
        like({"oneOf": [
            whole(partition=whole(**integers("partitionsUpdated", "dirtyPartitionsScanned", "partitionsSkippedByWatermark", "newPartitions")), queue=whole(queuesUpdated=INTEGER),
                  namespace=whole(namespacesUpdated=INTEGER), task=whole(tasksUpdated=INTEGER), system=whole(systemUpdated=INTEGER), cleanup=whole(orphanedDeleted=INTEGER)),
            whole(skipped={"const": True}, reason={"const": "another_instance_running"})]},
             {"partition": {"partitionsUpdated": 2, "dirtyPartitionsScanned": 1, "partitionsSkippedByWatermark": 0, "newPartitions": 0}, "queue": {"queuesUpdated": 1},
              "namespace": {"namespacesUpdated": 1}, "task": {"tasksUpdated": 1}, "system": {"systemUpdated": 1}, "cleanup": {"orphanedDeleted": 0}}), [], None),
    "POST /internal/api/notify": (whole(status={"const": "ok"}), [], {"queue": "orders", "partition": "customer-7"}),
}
