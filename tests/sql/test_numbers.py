"""Numbers of queues, partitions and groups begin anew at their end, and none is given while something has it."""
from __future__ import annotations

from sql.records import Session, batch, id7

LAST = 2_147_483_647


def begin_near_the_end(db: Session, table: str) -> None:
    db.value(f"SELECT setval('queend.{table}_id_seq', {LAST - 1})")


def test_partitions_begin_anew_and_skip_what_is_in_use(db, partitions, group):
    kept = partitions(3)
    for part in kept:
        db.push(batch(part, [id7()]))
    db.rows("INSERT INTO queend.graves (partition_id) VALUES (%s) RETURNING partition_id", kept[-1] + 1)
    db.rows("INSERT INTO queend.cursors (committed, partition_id, group_id) VALUES (5, %s, 2000000000) RETURNING 1",
            kept[-1] + 2)
    taken = {row.id for row in db.rows("SELECT id FROM queend.partitions")} | {kept[-1] + 1, kept[-1] + 2}
    begin_near_the_end(db, "partitions")
    made = partitions(4)
    assert LAST in made and not taken & set(made)
    assert sorted(set(range(1, max(taken) + 4)) - taken)[:3] == sorted(made)[:3]
    for part in made:
        assert db.rows("SELECT * FROM queend.log_end(%s)", part)[0].head == 0
        db.push(batch(part, [id7()]))
        one = group(part)
        assert db.value("SELECT count(*) FROM queend.cursors WHERE group_id = %s", one) == 0
    assert db.value("SELECT sum(n) FROM queend.log WHERE partition_id = ANY (%s)", kept) == 3


def test_queues_begin_anew_and_skip_what_is_in_use(db):
    db.rows("SELECT * FROM queend.resolve(%s, %s)", ["before"], ["p"])
    taken = {row.id for row in db.rows("SELECT id FROM queend.queues")}
    begin_near_the_end(db, "queues")
    db.rows("SELECT * FROM queend.resolve(%s, %s)", [f"after{n}" for n in range(3)], ["p"] * 3)
    db.rows("SELECT queend.queues_make(%s, %s, %s)", ["made"], [""], [""])
    made = {row.id for row in db.rows("SELECT id FROM queend.queues WHERE name LIKE 'after%%' OR name = 'made'")}
    assert LAST in made and len(made) == 4 and not made & taken
    assert db.value("SELECT count(*) FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                    " WHERE q.name LIKE 'after%%'") == 3


def test_groups_begin_anew_and_skip_what_is_in_use(db, partitions, group):
    part, = partitions()
    taken = {group(part), group(part)}
    begin_near_the_end(db, "consumer_groups")
    made = {group(part) for _ in range(4)}
    assert LAST in made and len(made) == 4 and not made & taken


def test_every_sequence_of_a_number_of_32_bits_begins_anew(db):
    assert db.rows("SELECT sequencename FROM pg_sequences WHERE schemaname = 'queend' AND NOT cycle"
                   " AND data_type = 'integer'::regtype") == []
