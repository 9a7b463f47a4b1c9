"""What a cursor costs whose old versions nobody can remove, because a snapshot is held: us of the backend per cursor.

python bench/versions.py [--postgres MAJOR] [--versions N ...]   1000 cursors updated at random, 50 per call; cheapest call and median.
"""
from __future__ import annotations

import argparse
import random

from functions import Cluster, Measure

CURSORS, CALL, ROUNDS = 1000, 50, 30
NEWEST = "x.partition_id = i.part AND x.group_id >= %(group)s AND x.group_id <= %(group)s ORDER BY x.group_id DESC LIMIT 1"
EACH = "FROM unnest(%(parts)s::int[]) AS i (part) CROSS JOIN LATERAL"
CASES = {
    "looked up, oldest version first": f"SELECT count(k.committed) {EACH} (SELECT x.* FROM queend.cursors x WHERE x.partition_id = i.part AND x.group_id = %(group)s OFFSET 0) AS k",
    "looked up, newest first": f"SELECT count(k.committed) {EACH} (SELECT x.* FROM queend.cursors x WHERE {NEWEST}) AS k",
    "locked, newest first": f"SELECT count(k.committed) {EACH} (SELECT x.* FROM queend.cursors x WHERE {NEWEST} FOR NO KEY UPDATE SKIP LOCKED) AS k",
    "insert on conflict update": """INSERT INTO queend.cursors AS k (partition_id, group_id, committed) SELECT p, %(group)s, 5 FROM unnest(%(parts)s::int[]) AS p
                                    ON CONFLICT (partition_id, group_id) DO UPDATE SET committed = excluded.committed + k.committed""",
    "locked, then updated by its place": f"""WITH l AS MATERIALIZED (SELECT k.ctid AS place {EACH} (SELECT x.ctid FROM queend.cursors x WHERE {NEWEST} FOR NO KEY UPDATE SKIP LOCKED) AS k)
                                             UPDATE queend.cursors k SET committed = k.committed + 5 FROM l WHERE k.ctid = l.place"""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", type=int, default=15, metavar="MAJOR")
    parser.add_argument("--versions", type=int, nargs="+", default=[200, 500])
    words = parser.parse_args()
    cluster = Cluster(words.postgres)
    try:
        measure = Measure(cluster.dsn)
        db = measure.db
        db.execute("SELECT queend.cursors_open(%s, %s, %s)", (measure.parts, [measure.group] * CURSORS, [True] * CURSORS))
        db.execute("SET synchronous_commit = off")

        def call(query: str) -> float:
            before = measure.cpu_us()
            db.execute(query, {"parts": random.sample(measure.parts, CALL), "group": measure.group}, prepare=True)
            return (measure.cpu_us() - before) / CALL
        made = 0
        for versions in [0, *sorted(words.versions)]:
            if versions and not made:
                reader = cluster.connection
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                reader.execute("SELECT 1 FROM queend.cursors LIMIT 1")
            for _ in range((versions - made) * CURSORS // CALL):
                call(CASES["insert on conflict update"])
            made = versions
            for name, query in CASES.items():
                cost = sorted(call(query) for _ in range(ROUNDS))
                print(f"{versions:4} versions each: {name:34} {cost[0]:8.1f} {cost[ROUNDS // 2]:8.1f}", flush=True)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
