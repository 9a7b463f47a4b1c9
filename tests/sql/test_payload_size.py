"""Payloads of SQL have a bound: a larger one would take the relay too long, for ever, and all wait behind it."""
from __future__ import annotations

import psycopg
import pytest

MOST = 64 << 20
PUSHES = {
    "in a transaction": "SELECT queen.push('large', 'p', to_json(repeat('x', %s)))",
    "jsonb": "SELECT queen.push('large', 'p', to_jsonb(repeat('x', %s)))",
    "at once": "SELECT queen.push_messages_v3(jsonb_build_array(jsonb_build_object('queue', 'large',"
               " 'payload', repeat('x', %s))))",
    "with acknowledgments": "SELECT queen.execute_transaction_v2(jsonb_build_array(jsonb_build_object('type', 'push',"
                            " 'queue', 'large', 'payload', repeat('x', %s))))",
}


@pytest.mark.parametrize("how", PUSHES)
def test_a_payload_that_is_too_large_is_refused(db, how):
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=f"at most {MOST} bytes, and has {MOST + 1}"):
        db.value(PUSHES[how], MOST - 1)     # and two quotes


def test_one_of_the_largest_size_is_taken(db):
    db.value(PUSHES["in a transaction"], MOST - 2)
    assert db.value("SELECT max(octet_length(payload::text)) FROM queend.outbox") == MOST
    db.rows("DELETE FROM queend.outbox")


def test_one_that_was_inserted_is_passed_by(db):
    db.rows("INSERT INTO queend.outbox (queue, partition, transaction_id, payload) VALUES"
            " ('large', 'p', 'a', to_json(repeat('x', %s)))", MOST)
    db.value("SELECT queen.push('after', 'p', '1'::json)")
    assert {(row.queue, row.moved) for _ in range(2) for row in db.rows("SELECT * FROM queend.relay()")} == {
        ("large", 0), ("after", 1)}
    assert db.value("SELECT refused FROM queend.outbox") == f"the payload has more than {MOST} bytes"
    db.rows("DELETE FROM queend.outbox")
