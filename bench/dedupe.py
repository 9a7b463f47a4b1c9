"""What an exact dedupe for random ids costs, by structure and by how much is stored.

python bench/dedupe.py [--postgres MAJOR] [--stored 100000,1000000] [--push]

With --push: what queend.push costs with version-7 ids, with version-4 ids that late_ids holds and with version-4 ids that the
caller remembers, each on 1000 partitions of its own that hold so many ids together; calls of the three in turn.
Without: for each structure: filled with so many ids, then 60 calls of 1000 new ids over 1000 partitions, each looked for and then
remembered, in one statement per call as push does it. One line per case: processor time of the backend per id (median of
the calls), WAL bytes per id after the full pages a checkpoint causes have been written, bytes on disk per id.
"""
from __future__ import annotations

import argparse
import os
import statistics
import sys
import uuid
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from cluster import Cluster  # noqa: E402
from queend.connect import HOT_PLANS  # noqa: E402
from queend.service.migrate import migrate  # noqa: E402
from sql.records import PUSH, batch, id4, id7, push_arrays  # noqa: E402

PARTITIONS = 1000
CALLS, CALL = 60, 1000
PUSH_CALL = (f"SELECT * FROM queend.push(%s::bigint, %s::int[], {PUSH}, p_hint => %s::bigint[], p_known => %s::bigint[], p_known_at => %s::bigint[])"
             ).replace("%s", "%b")
FILL = "FROM generate_series(1, %(stored)s) AS i"
# An id as it would be kept: 8 of its 16 random bytes.
HASH = "('x' || right(replace(u.id::text, '-', ''), 16))::bit(64)::bigint"
NEW = "FROM unnest(%(part)b::int[], %(id)b::uuid[]) AS u (part, id)"

# name: (tables, fill, index, what a call does); the statement returns how many ids were new
STRUCTURES = {
    "none (the floor of the harness)": (
        "CREATE TABLE d_none (x int)", None, None,
        f"SELECT count(*) {NEW}"),
    "btree (partition, id), as version 0.1": (
        "CREATE TABLE d_id (position bigint NOT NULL, partition_id int NOT NULL, id bytea NOT NULL)",
        f"INSERT INTO d_id SELECT i, i %% {PARTITIONS}, uuid_send(gen_random_uuid()) {FILL}",
        "CREATE UNIQUE INDEX ON d_id (partition_id, id) WITH (fillfactor = 70)",
        f"""WITH w AS (INSERT INTO d_id SELECT 1, u.part, uuid_send(u.id) {NEW}
              WHERE (SELECT e.position FROM d_id e WHERE e.partition_id = u.part AND e.id = uuid_send(u.id)) IS NULL RETURNING 1)
            SELECT count(*) FROM w"""),
    "btree (partition, 8-byte hash)": (
        "CREATE TABLE d_hash (hash bigint NOT NULL, position bigint NOT NULL, partition_id int NOT NULL)",
        f"INSERT INTO d_hash SELECT ('x' || substr(md5(i::text), 1, 16))::bit(64)::bigint, i, i %% {PARTITIONS} {FILL}",
        "CREATE INDEX ON d_hash (partition_id, hash) WITH (fillfactor = 70)",
        f"""WITH w AS (INSERT INTO d_hash SELECT h.hash, 1, u.part {NEW} CROSS JOIN LATERAL (SELECT {HASH} AS hash OFFSET 0) AS h
              WHERE NOT EXISTS (SELECT FROM d_hash e WHERE e.partition_id = u.part AND e.hash = h.hash OFFSET 0) RETURNING 1)
            SELECT count(*) FROM w"""),
    "hash index on an 8-byte hash": (
        "CREATE TABLE d_hidx (hash bigint NOT NULL, position bigint NOT NULL, partition_id int NOT NULL)",
        f"INSERT INTO d_hidx SELECT ('x' || substr(md5(i::text), 1, 16))::bit(64)::bigint, i, i %% {PARTITIONS} {FILL}",
        "CREATE INDEX ON d_hidx USING hash (hash)",
        f"""WITH w AS (INSERT INTO d_hidx SELECT h.hash, 1, u.part {NEW} CROSS JOIN LATERAL (SELECT {HASH} AS hash OFFSET 0) AS h
              WHERE NOT EXISTS (SELECT FROM d_hidx e WHERE e.hash = h.hash AND e.partition_id = u.part OFFSET 0) RETURNING 1)
            SELECT count(*) FROM w"""),
    "btree (8-byte hash), no look-up": (
        "CREATE TABLE d_blind (hash bigint NOT NULL)",
        f"INSERT INTO d_blind SELECT ('x' || substr(md5(i::text), 1, 16))::bit(64)::bigint {FILL}",
        "CREATE INDEX ON d_blind (hash) WITH (fillfactor = 70)",
        f"WITH w AS (INSERT INTO d_blind SELECT {HASH} {NEW} RETURNING 1) SELECT count(*) FROM w"),
    "heap of hashes, no index": (
        "CREATE TABLE d_heap (hash bigint NOT NULL, position bigint NOT NULL, partition_id int NOT NULL)",
        f"INSERT INTO d_heap SELECT ('x' || substr(md5(i::text), 1, 16))::bit(64)::bigint, i, i %% {PARTITIONS} {FILL}", None,
        f"WITH w AS (INSERT INTO d_heap SELECT {HASH}, 1, u.part {NEW} RETURNING 1) SELECT count(*) FROM w"),
    "heap, one row of hashes per call": (
        "CREATE TABLE d_pack (made bigint NOT NULL, hashes bytea NOT NULL); ALTER TABLE d_pack ALTER COLUMN hashes SET STORAGE EXTERNAL",
        f"INSERT INTO d_pack SELECT i, repeat('x', 12000)::bytea FROM generate_series(1, %(stored)s / {CALL}) AS i", None,
        f"WITH w AS (INSERT INTO d_pack SELECT 1, string_agg(int4send(u.part) || substr(uuid_send(u.id), 9), '') {NEW} RETURNING 1) SELECT {CALL} FROM w"),
}


def cpu_us(db: psycopg.Connection) -> float:
    return int(Path(f"/proc/{db.info.backend_pid}/schedstat").read_text().split()[0]) / 1000


def case(cluster: Cluster, name: str, stored: int) -> tuple[float, float, float]:
    tables, fill, index, call = STRUCTURES[name]
    with psycopg.connect(cluster.dsn, autocommit=True, options=HOT_PLANS.replace("enable_seqscan=off", "enable_seqscan=on")) as db:
        db.execute("DROP SCHEMA IF EXISTS dedupe CASCADE; CREATE SCHEMA dedupe; SET search_path = dedupe; SET maintenance_work_mem = '256MB'")
        db.execute(tables)
        if fill:
            db.execute(psycopg.ClientCursor(db).mogrify(fill, {"stored": stored}))
        if index:
            db.execute(index)
        db.execute("VACUUM ANALYZE")
        db.execute("SET enable_seqscan = off")
        db.execute("CHECKPOINT")
        size = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class WHERE relnamespace = 'dedupe'::regnamespace AND relkind = 'r'"
        disk = db.execute(size).fetchone()[0]
        parts = list(range(PARTITIONS))
        cost = []
        for number in range(CALLS):
            ids = [uuid.uuid4() for _ in range(CALL)]
            before = cpu_us(db)
            (new,) = db.execute(call, {"part": parts, "id": ids}, prepare=True, binary=True).fetchone()
            cost.append((cpu_us(db) - before) / CALL)
            assert new == CALL
            if number == 0:
                start = int(db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0])
        wal = int(db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0]) - start
        return statistics.median(cost), wal / CALL / (CALLS - 1), disk / stored


def pushes(cluster: Cluster, stored: int) -> None:
    cluster.connection.execute("DROP SCHEMA IF EXISTS queend CASCADE")
    migrate(cluster.dsn)
    with psycopg.connect(cluster.dsn, autocommit=True, options=HOT_PLANS) as db:
        parts = {}
        for name in ("version 7", "version 4, late_ids", "version 4, remembered"):
            found = db.execute("SELECT partition_id FROM queend.resolve(%s, %s)", ([name] * PARTITIONS, [f"p{i}" for i in range(PARTITIONS)])).fetchall()
            parts[name] = sorted(part for part, in found)
        each = stored // PARTITIONS
        db.execute("""INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)
                      SELECT b, (SELECT queend.now_us() - 60000000), p, 100, '00000000-0000-0000-0000-000000000000', false, string_agg(uuid_send(gen_random_uuid()), ''),
                             decode('10' || repeat('00', 100), 'hex'), ''
                        FROM unnest(%s::int[]) AS p, generate_series(0, %s - 100, 100) AS b, generate_series(1, 100) GROUP BY p, b""",
                   (sum(parts.values(), []), each))
        db.execute("INSERT INTO queend.late_ids SELECT l.base + s.ord, l.partition_id, s.id FROM queend.log l CROSS JOIN LATERAL queend.id_spread(l.ids) AS s"
                   " WHERE l.partition_id = ANY(%s) ORDER BY s.id", (parts["version 4, late_ids"],))
        db.execute("INSERT INTO queend.unlisted SELECT unnest(%s::int[]), 0", (parts["version 4, remembered"],))
        db.execute("VACUUM ANALYZE")
        disk = db.execute("SELECT pg_total_relation_size('queend.late_ids')").fetchone()[0]
        db.execute("CHECKPOINT")
        heads = dict(db.execute("SELECT partition_id, (max(base) + 100, max(created_at))::text FROM queend.log GROUP BY 1").fetchall())
        known = {part: tuple(map(int, text.strip("()").split(","))) for part, text in heads.items()}
        newest = {part: head - 100 for part, (head, _) in known.items()}
        cost: dict[str, list[float]] = {name: [] for name in parts}
        wal = dict.fromkeys(parts, 0)
        for number in range(CALLS):
            for name, all_parts in parts.items():
                rows = [batch(p, [id7() if name == "version 7" else id4()], [b'{"customer":"c-%04d","amount":%d,"note":"gift, no invoice"}' % (p, number)])
                        for p in all_parts]
                remembered = name.endswith("remembered")
                values = (1, list(range(64)), *push_arrays(rows), [newest[p] for p in all_parts],
                          *([[k for k, _ in (known[p] for p in all_parts)], [at for _, at in (known[p] for p in all_parts)]] if remembered else [None, None]))
                start = int(db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0])
                before = cpu_us(db)
                answer = db.execute(PUSH_CALL, values, prepare=True, binary=True).fetchall()
                if number:                # the first call of each writes what the checkpoint asks for
                    cost[name].append((cpu_us(db) - before) / PARTITIONS)
                    wal[name] += int(db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0]) - start
                for row in answer:
                    assert row[1] == 0
                    known[all_parts[row[0]]] = row[2] + 1, row[3]
                    newest[all_parts[row[0]]] = row[2]
        for name in parts:
            print(f"push 1000 x 1, {name:25} {stored:9} {statistics.median(cost[name]):7.2f} {wal[name] / PARTITIONS / (CALLS - 1):7.0f}"
                  f" {disk / stored if name.endswith('late_ids') else 0:7.0f}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    arguments.add_argument("--stored", default="100000,1000000")
    arguments.add_argument("--push", action="store_true")
    given = arguments.parse_args()
    cluster = Cluster(given.postgres)
    try:
        cluster.connection.execute("ALTER SYSTEM SET full_page_writes = off")      # counted by checkpoints, not by ids
        cluster.connection.execute("SELECT pg_reload_conf()")
        print(f"PostgreSQL {cluster.connection.info.server_version // 10000}, {os.cpu_count()} processors")
        print(f"{'structure':40} {'stored':>9} {'us/id':>7} {'WAL B':>7} {'disk B':>7}")
        for stored in (int(n) for n in given.stored.split(",")):
            if given.push:
                pushes(cluster, stored)
                continue
            for name in STRUCTURES:
                us, wal, disk = case(cluster, name, stored)
                print(f"{name:40} {stored:9} {us:7.2f} {wal:7.0f} {disk:7.0f}", flush=True)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
