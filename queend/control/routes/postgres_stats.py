"""/api/v1/analytics/postgres-stats: PostgreSQL's own figures about this database, read from its views; queend measures
nothing here."""
from __future__ import annotations

from typing import Any

from fastapi import Request
from psycopg.rows import dict_row

from ...auth.levels import READ
from ..http.answer import Json
from ..http.moments import now_us, ts3
from ..http.route import Routes
from ..http.schema import INTEGER, MAYBE, NUMBER, SOME_NUMBER, SOME_TIME, TEXT, TIME, array, whole
from ..http.schemas import each, integers

router = Routes("analytics")
CACHED = {**integers("diskReads", "cacheHits"), "cacheHitRatio": NUMBER}
CACHES = whole(**integers("diskReads", "cacheHits"), hitRatio=NUMBER)
HERE = {"schema": TEXT, "table": TEXT}

MOST = 100      # rows of a list
ISO = """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
RATIO = "CASE WHEN {0} + {1} > 0 THEN round(100.0 * {1} / ({0} + {1}), 2)::float8 ELSE 0 END"

DATABASE = f"""SELECT d.datname AS database, d.blks_read AS "diskReads", d.blks_hit AS "cacheHits",
        {RATIO.format("d.blks_read", "d.blks_hit")} AS "cacheHitRatio"
     FROM pg_stat_database d WHERE d.datname = current_database()"""
LISTS = {
    "tableCache": f"""SELECT s.schemaname AS schema, s.relname AS table, s.heap_blks_read AS "diskReads",
            s.heap_blks_hit AS "cacheHits", {RATIO.format("s.heap_blks_read", "s.heap_blks_hit")} AS "cacheHitRatio"
         FROM pg_statio_user_tables s WHERE s.schemaname = 'queend' AND s.heap_blks_read + s.heap_blks_hit > 0
         ORDER BY s.heap_blks_read DESC, 2""",
    "indexCache": f"""SELECT s.schemaname AS schema, s.relname AS table, s.indexrelname AS index,
            s.idx_blks_read AS "diskReads", s.idx_blks_hit AS "cacheHits",
            {RATIO.format("s.idx_blks_read", "s.idx_blks_hit")} AS "cacheHitRatio"
         FROM pg_statio_user_indexes s WHERE s.schemaname = 'queend' AND s.idx_blks_read + s.idx_blks_hit > 0
         ORDER BY s.idx_blks_read DESC, 3""",
    "deadTuples": f"""SELECT s.schemaname AS schema, s.relname AS table, s.n_dead_tup AS "deadTuples",
            s.n_live_tup AS "liveTuples",
            round(100.0 * s.n_dead_tup / greatest(s.n_live_tup, 1), 2)::float8 AS "deadPercentage",
            {ISO.format("s.last_vacuum")} AS "lastVacuum", {ISO.format("s.last_autovacuum")} AS "lastAutovacuum"
         FROM pg_stat_user_tables s WHERE s.schemaname = 'queend' AND s.n_dead_tup > 0 ORDER BY s.n_dead_tup DESC, 2""",
    "hotUpdates": """SELECT s.schemaname AS schema, s.relname AS table, s.n_tup_upd AS "totalUpdates",
            s.n_tup_hot_upd AS "hotUpdates",
            round(100.0 * s.n_tup_hot_upd / s.n_tup_upd, 2)::float8 AS "hotUpdatePercentage"
         FROM pg_stat_user_tables s WHERE s.schemaname = 'queend' AND s.n_tup_upd > 0 ORDER BY s.n_tup_upd DESC, 2""",
    "activeQueries": """SELECT a.pid, extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS duration,
            a.state, left(a.query, 200) AS query, a.wait_event_type AS "waitEventType", a.wait_event AS "waitEvent"
         FROM pg_stat_activity a WHERE a.datname = current_database() AND a.state <> 'idle'
            AND a.pid <> pg_backend_pid() ORDER BY 2 DESC NULLS LAST""",
    "autovacuumStatus": f"""SELECT s.relname AS table, {ISO.format("s.last_autovacuum")} AS "lastAutovacuum",
            s.n_dead_tup AS "deadTuples", s.autovacuum_count AS "autovacuumCount",
            s.autoanalyze_count AS "autoanalyzeCount"
         FROM pg_stat_user_tables s WHERE s.schemaname = 'queend' AND s.autovacuum_count + s.autoanalyze_count > 0
         ORDER BY s.last_autovacuum DESC NULLS LAST, 1""",
    "tableSizes": """SELECT c.relname AS table, pg_size_pretty(pg_total_relation_size(c.oid)) AS "totalSize",
            pg_total_relation_size(c.oid) AS "totalSizeBytes", pg_size_pretty(pg_table_size(c.oid)) AS "tableSize",
            pg_table_size(c.oid) AS "tableSizeBytes", pg_size_pretty(pg_indexes_size(c.oid)) AS "indexSize",
            pg_indexes_size(c.oid) AS "indexSizeBytes"
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'queend' AND c.relkind = 'r'
         ORDER BY 3 DESC, 1"""}
BUFFERS = """SELECT setting AS "sharedBuffers",
        setting::bigint * pg_size_bytes(unit) / 1048576 || ' MB' AS "sharedBuffersSize"
     FROM pg_settings WHERE name = 'shared_buffers'"""
# Only if the operator installed the extension: queend needs no right for it and causes no load by it.
BUFFERED = """SELECT to_regclass('pg_buffercache') IS NOT NULL
        AND has_table_privilege(to_regclass('pg_buffercache')::oid, 'SELECT') AS there"""
USAGE = """SELECT c.relname AS object,
        pg_size_pretty(count(*) * current_setting('block_size')::bigint) AS "bufferedSize",
        count(*) * current_setting('block_size')::bigint AS "bufferedBytes", round(100.0 * count(*) /
        (SELECT s.setting::bigint FROM pg_settings s WHERE s.name = 'shared_buffers'), 2)::float8 AS "percentOfCache"
     FROM pg_buffercache b JOIN pg_class c ON b.relfilenode = pg_relation_filenode(c.oid)
     JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'queend'
     WHERE b.reldatabase = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) GROUP BY c.relname
     ORDER BY 3 DESC"""


@router.declare("GET /api/v1/analytics/postgres-stats", READ,
    whole(timestamp=TIME, database=TEXT, databaseCache=whole(database=TEXT, **CACHED),
          tableCache=array(whole(**HERE, **CACHED)), indexCache=array(whole(**HERE, index=TEXT, **CACHED)),
          deadTuples=array(whole(**HERE, **integers("deadTuples", "liveTuples"), deadPercentage=NUMBER,
                                 lastVacuum=SOME_TIME, lastAutovacuum=SOME_TIME)),
          hotUpdates=array(whole(**HERE, **integers("totalUpdates", "hotUpdates"), hotUpdatePercentage=NUMBER)),
          activeQueries=array(whole(
              pid=INTEGER, duration=SOME_NUMBER, state=TEXT, query=MAYBE, waitEventType=MAYBE, waitEvent=MAYBE)),
          autovacuumStatus=array(whole(
              table=TEXT, lastAutovacuum=SOME_TIME, **integers("deadTuples", "autovacuumCount", "autoanalyzeCount"))),
          tableSizes=array(whole(table=TEXT, **each(TEXT, "totalSize", "tableSize", "indexSize"),
                                 **integers("totalSizeBytes", "tableSizeBytes", "indexSizeBytes"))),
          bufferConfig=whole(sharedBuffers=TEXT, sharedBuffersSize=TEXT),
          bufferUsage=array(whole(object=TEXT, bufferedSize=TEXT, bufferedBytes=INTEGER, percentOfCache=NUMBER)),
          cacheSummary=whole(tables=CACHES, indexes=CACHES)))
async def postgres_stats(request: Request) -> Json:
    """Returns caches, dead rows, vacuums, running statements and sizes of the daemon's tables; lists have at most 100
    elements. `bufferUsage` requires the extension pg_buffercache; without it the list is empty."""
    async with request.app.state.control.pool.connection() as connection, connection.cursor(
        row_factory=dict_row) as cursor:
        async def all_of(query: str) -> list[dict[str, Any]]:
            return await (await cursor.execute(query)).fetchall()
        database = (await all_of(DATABASE))[0]
        lists = {name: await all_of(f"{query} LIMIT {MOST}") for name, query in LISTS.items()}
        buffers = (await all_of(BUFFERS))[0]
        used = await all_of(f"{USAGE} LIMIT {MOST}") if (await all_of(BUFFERED))[0]["there"] else []
    return Json({"timestamp": ts3(now_us()), "database": database["database"], "databaseCache": database,
                 **lists, "bufferConfig": buffers, "bufferUsage": used,
                 "cacheSummary": {"tables": _summary(lists["tableCache"]), "indexes": _summary(lists["indexCache"])}})


def _summary(caches: list[dict[str, Any]]) -> dict[str, float]:
    reads, hits = (sum(one[key] or 0 for one in caches) for key in ("diskReads", "cacheHits"))
    return {"diskReads": reads, "cacheHits": hits,
            "hitRatio": round(100 * hits / (reads + hits), 2) if reads + hits else 0}
