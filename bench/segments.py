"""What range-partitioning the log by time would cost the hot functions, and what deleting rows costs instead.

python bench/segments.py [--postgres MAJOR]   one database per layout (one table; 4 and 8 segments by created_at), filled alike;
microseconds of the backend per message as bench/functions.py measures them. Then, on the one table: deletion by
queend.retain and the vacuum after it, per log row; whether a segment can be dropped while a reader's transaction is open; and
what it takes until the space of DUE rows, which became due while a snapshot was held, can be used again after its end.
"""
from __future__ import annotations

import argparse
import os
import time

import psycopg
from functions import Cluster, Measure, id7

HISTORY = 100          # rows per partition that were there before
COLUMNS = ("base bigint NOT NULL, created_at bigint NOT NULL, partition_id int NOT NULL, n int NOT NULL, high uuid NOT NULL, odd boolean NOT NULL,"
           " ids bytea NOT NULL, body bytea NOT NULL, meta bytea NOT NULL")
FILL = """INSERT INTO queend.log SELECT b, %s + b * %s::bigint, p.id, 1, '00000000-0000-0000-0000-000000000000', false, uuid_send(gen_random_uuid()),
                 decode('108601' || repeat('41', 134), 'hex'), ''
            FROM queend.partitions p, generate_series(0, %s) AS b ORDER BY b, p.id"""
DUE = 2000             # rows per partition that become due while a snapshot is held
HOUR = 3_600_000_000


def layout(measure: Measure, segments: int) -> None:
    """Segments cut the last hour; the newest takes everything from now on."""
    db, now = measure.db, time.time_ns() // 1000
    if segments == 1:
        db.execute("ALTER TABLE queend.log SET (autovacuum_enabled = off)")      # deletion and vacuum are measured one by one
    else:
        db.execute("DROP TABLE queend.log")
        db.execute(f"CREATE TABLE queend.log ({COLUMNS}, PRIMARY KEY (partition_id, base, created_at)) PARTITION BY RANGE (created_at)")
        for i in range(segments):
            low, high = ("MINVALUE" if i == 0 else now - HOUR + i * HOUR // (segments - 1)), now - HOUR + (i + 1) * HOUR // (segments - 1)
            db.execute(f"CREATE TABLE queend.log_{i} PARTITION OF queend.log FOR VALUES FROM ({low}) TO ({'MAXVALUE' if i == segments - 1 else high})")
        db.execute("CREATE INDEX ON queend.log USING brin (created_at)")
        db.execute("DO $$ BEGIN ALTER TABLE queend.log ALTER COLUMN body SET COMPRESSION lz4; EXCEPTION WHEN feature_not_supported THEN END $$")
    db.execute(FILL, (now - HOUR, HOUR // HISTORY, HISTORY - 1))
    db.execute("VACUUM ANALYZE")


def hot(measure: Measure) -> None:
    for _ in range(10):
        measure.push(1000, 1, id7)(0)
    measure.case("push 1000 partitions x 1", 30, measure.push(1000, 1, id7))
    measure.case("push 100 x 1", 60, measure.push(100, 1, id7))
    measure.case("push 10 x 100", 60, measure.push(10, 100, id7))
    measure.case("pop 10 requests x 50 single rows", 100, measure.pop(10, auto=True))
    claimed: list = []
    measure.case("pop 10 x 50, with lease", 60, measure.pop(10, False, claimed))
    measure.case("ack 10 x 50", len(claimed), measure.ack(claimed))


def deletion(measure: Measure) -> None:
    """The oldest HISTORY rows of each partition, a thousand at a time."""
    queue = measure.db.execute("SELECT min(id) FROM queend.queues").fetchone()[0]
    after, cut = [0], time.time_ns() // 1000 - HOUR // 100

    def step(_: int) -> int:
        if after[0] is None:
            return 0
        *told, last = measure.db.execute("SELECT * FROM queend.retain(%s, %s, 1000, 1000, %s, 0, 0)", (queue, after[0], cut), prepare=True).fetchall()
        after[0] = last[0]
        return sum(row[2] for row in told)
    measure.case("delete: per log row", 1000, step)
    dead = HISTORY * len(measure.parts)

    def vacuum(number: int) -> int:
        measure.db.execute("VACUUM (TRUNCATE OFF) queend.log")
        return dead if number == 0 else 0
    measure.case("vacuum: per log row deleted", 1, vacuum)


def drop(dsn: str) -> None:
    with psycopg.connect(dsn) as reader, psycopg.connect(dsn, autocommit=True) as other, psycopg.connect(dsn, autocommit=True) as bystander:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM queend.log LIMIT 1")
        other.execute("SET lock_timeout = '300ms'")
        for statement in ("ALTER TABLE queend.log DETACH PARTITION queend.log_7 CONCURRENTLY", "DROP TABLE queend.log_7", "TRUNCATE queend.log_7"):
            began = time.monotonic()
            try:
                other.execute(statement)
                told = "done"
            except psycopg.Error as error:
                told = str(error).strip().split("\n")[0]
            print(f"while a reader's transaction is open: {statement}: {told} after {time.monotonic() - began:.2f} s", flush=True)
        bystander.execute("SELECT 1")


def recover(measure: Measure, dsn: str, segments: int) -> None:
    """One table: the rows are deleted while the snapshot is held and vacuumed after it. Segments: all but the newest are dropped after it."""
    db, now = measure.db, time.time_ns() // 1000
    db.execute("TRUNCATE queend.log")
    db.execute(FILL, (now - HOUR - HOUR // 10, int(HOUR * (1 if segments == 1 else (segments - 2) / (segments - 1))) // DUE, DUE - 1))
    db.execute("VACUUM ANALYZE queend.log")
    db.execute("CHECKPOINT")

    def step(label: str, statements: list[str]) -> None:
        before, wal, began = measure.cpu_us(), measure.wal(), time.monotonic()
        for statement in statements:
            db.execute(statement)
        print(f"{label:52} {time.monotonic() - began:7.2f} s {(measure.cpu_us() - before) / 1e6:7.2f} s CPU {(measure.wal() - wal) / 1e6:8.1f} MB of WAL", flush=True)
    due = DUE * len(measure.parts)
    with psycopg.connect(dsn) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1 FROM queend.log LIMIT 1")
        if segments == 1:
            step(f"{due} rows deleted under a snapshot", ["DELETE FROM queend.log"])
    if segments == 1:
        step("vacuum after its end", ["VACUUM (TRUNCATE OFF) queend.log"])
    else:
        step(f"{segments - 2} segments with {due} rows dropped after its end", [f"DROP TABLE queend.log_{i}" for i in range(segments - 2)])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    cluster = Cluster(arguments.parse_args().postgres)
    try:
        for segments in (1, 4, 8):
            cluster.connection.execute(f"CREATE DATABASE s{segments}")
            dsn = cluster.dsn.replace("dbname=postgres", f"dbname=s{segments}")
            measure = Measure(dsn)
            layout(measure, segments)
            print(f"\n{segments} table(s), PostgreSQL {measure.db.info.server_version // 10000}, {os.cpu_count()} processors\n"
                  f"{'us per message':34} {'cheapest':>8} {'mean':>8} {'WAL B':>8}")
            hot(measure)
            if segments == 1:
                deletion(measure)
            recover(measure, dsn, segments)
            measure.db.close()
        drop(dsn)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
