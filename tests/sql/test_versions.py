"""Versions of a cursor that nobody can remove: somebody else holds a snapshot."""
from __future__ import annotations

from sql.records import batch, id7

CURSORS, ROUNDS = 100, 100


def test_the_newest_version_is_found_first(session, partitions, group):
    hot, reader = session(), session()
    for setting in ("enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off",
                    "plan_cache_mode = force_generic_plan"):
        hot.rows(f"SET {setting}")
    parts = partitions(CURSORS)
    readers = group(parts[0])
    hot.push(*(batch(part, [id7()]) for part in parts))
    hot.pop(parts, readers, auto=True, budget=CURSORS)

    def pages() -> int:
        """Of a pop that finds nothing new: it reads the cursor, and the head."""
        part, values = (parts[CURSORS // 2], "0, ARRAY[1], ARRAY[%s], ARRAY[%s], ARRAY[false], ARRAY[9], ARRAY[1],"
                                             " ARRAY[true], ARRAY['ffffffff-0000-8000-8000-000000000000'::uuid],"
                                             " ARRAY[0::bigint], ARRAY[0::bigint], ARRAY[0::bigint]")
        for _ in range(2):      # the first call makes the plan
            plan = hot.rows(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM queend.pop({values})", part,
                            readers)[0][0][0]["Plan"]
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    few = pages()
    reader.rows("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.value("SELECT count(*) FROM queend.log")
    for _ in range(ROUNDS):
        hot.rows("UPDATE queend.cursors SET consumed_at = consumed_at + 1 WHERE group_id = %s", readers)
    walked = hot.rows("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT 1 FROM queend.cursors WHERE partition_id = %s"
                      " AND group_id = %s OFFSET 0", parts[CURSORS // 2], readers)[0][0][0]["Plan"]
    assert walked["Shared Hit Blocks"] + walked["Shared Read Blocks"] > 20      # what it would be from the other end
    many = pages()
    reader.rows("ROLLBACK")
    assert many <= few + 5, (few, many)
