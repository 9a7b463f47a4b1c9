"""queen.push in a transaction of one's own: stored with it, moved into the queue once, in order, by whoever is
there."""
from __future__ import annotations

import json
import threading

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.wait import until

PUSH = "SELECT queen.push(%s, %s, %s::json)"


def stored(sql, queue: str, partition: str = "Default") -> list:
    """The payloads of a partition, in order."""
    return [json.loads(row.payload) for row in sql.rows(
        "SELECT f.payload FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id CROSS"
        " JOIN LATERAL queend.records(p.id, 0, 100000) AS f"
        " WHERE q.name = %s AND p.name = %s", queue, partition)]


def relay(sql) -> int:
    """All that is there; how many were moved. -1 says that another relay works: one that was killed holds its lock for
    a moment longer."""
    total = 0
    while rows := sql.rows("SELECT * FROM queend.relay()"):
        total += sum(max(row.moved, 0) for row in rows)
    return total


def test_stored_with_the_transaction(sql, connect, alone, queue) -> None:
    sql.rows("CREATE TABLE IF NOT EXISTS orders (id int)")
    other = connect(alone)
    with sql.transaction():
        sql.rows("INSERT INTO orders VALUES (1)")
        sql.rows(PUSH, queue, "p", '{"n": 1}')
        assert relay(other) == 0, "nothing is visible before the commit"
    with pytest.raises(ZeroDivisionError), sql.transaction():
        sql.rows(PUSH, queue, "p", '{"n": 2}')
        raise ZeroDivisionError
    assert relay(other) == 1 and relay(other) == 0
    assert stored(sql, queue, "p") == [{"n": 1}]


def test_savepoints(sql, queue) -> None:
    with sql.transaction():
        sql.rows(PUSH, queue, None, "1")
        with pytest.raises(ZeroDivisionError), sql.transaction():
            sql.rows(PUSH, queue, None, "2")
            raise ZeroDivisionError
        with sql.transaction():
            sql.rows(PUSH, queue, None, "3")
    relay(sql)
    assert stored(sql, queue) == [1, 3]


def test_forms_of_a_call(sql, queue) -> None:
    made = sql.value("SELECT queen.push(%s, 'p', jsonb_build_object('b', 1, 'a', 2))", queue)
    assert made[14] == "7"
    assert sql.value("SELECT queen.push(%s, 'p', '{\"text\": \"literal\"}', 'order-7')", queue) == "order-7"
    assert sql.value("SELECT queen.push(%s, partition => 'p', payload => NULL::json, transaction_id => '')",
                     queue)[14] == "7"
    sql.rows("SELECT queen.push(%s, 'p', '[1, 2.50]'::json, trace_id => '0192f0c0-0000-7000-8000-0000000000aa')", queue)
    relay(sql)
    rows = sql.rows("SELECT f.* FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id CROSS"
                    " JOIN LATERAL queend.records(p.id, 0, 10) AS f"
                    " WHERE q.name = %s", queue)
    assert [row.payload for row in rows] == ['{"a": 2, "b": 1}', '{"text": "literal"}', "null", "[1, 2.50]"]
    assert (rows[0].transaction_id, rows[1].transaction_id) == (made, "order-7")
    assert str(rows[3].trace_id) == "0192f0c0-0000-7000-8000-0000000000aa" and rows[2].trace_id is None


@pytest.mark.parametrize("call, code, text", [
    ("queen.push('', 'p', '1')", "22023", "Queue must be a non-empty text of at most 255 bytes"),
    ("queen.push(NULL, 'p', '1')", "22023", "Queue must be a non-empty text of at most 255 bytes"),
    ("queen.push(repeat('é', 128), 'p', '1')", "22023", "Queue must be a non-empty text of at most 255 bytes"),
    ("queen.push('q', repeat('x', 256), '1')", "22023", "Partition must be valid text of at most 255 bytes"),
    ("queen.push('q', 'p', '1', repeat('x', 256))", "22023",
     "TransactionId must be valid text of at most 255 characters"),
    ("queen.push('q', 'p', 'no json')", "22P02", "invalid input syntax for type json"),
])
def test_what_cannot_be_stored_is_refused_at_once(sql, call, code, text) -> None:
    with pytest.raises(psycopg.Error) as refused:
        sql.rows(f"SELECT {call}")
    assert (refused.value.sqlstate, refused.value.diag.message_primary) == (code, text)
    assert relay(sql) == 0


def test_limits_are_inclusive(sql, queue) -> None:
    name, partition, transaction = queue[:200].ljust(255, "x"), "p" * 255, "é" * 255
    sql.rows("SELECT queen.push(%s, %s, '1', %s)", name, partition, transaction)
    relay(sql)
    assert stored(sql, name, partition) == [1]


def test_ids_are_known_across_calls(sql, queue) -> None:
    for payload, transaction in ((1, "a"), (2, "b"), (3, "a")):
        sql.rows("SELECT queen.push(%s, 'p', %s::json, %s)", queue, str(payload), transaction)
    assert relay(sql) == 3, "moved; the repeat is left out of the queue"
    sql.rows("SELECT queen.push(%s, 'p', '4', 'b')", queue)
    relay(sql)
    assert stored(sql, queue, "p") == [1, 2]


def test_a_message_nobody_can_store_keeps_nobody_waiting(sql, queue) -> None:
    sql.rows(PUSH, queue, "p", "1")
    sql.rows("SELECT queend.configure(%s, '', '', '{\"encryptionEnabled\": true}')", f"{queue}-sealed")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="is encrypted"):
        sql.rows(PUSH, f"{queue}-sealed", "p", "2")
    sql.rows(PUSH, f"{queue}-late", "p", "3")
    sql.rows("SELECT queend.configure(%s, '', '', '{\"encryptionEnabled\": true}')", f"{queue}-late")
    sql.rows(PUSH, queue, "p", "4")
    assert relay(sql) == 2
    assert stored(sql, queue, "p") == [1, 4]
    assert "encrypted" in sql.value("SELECT refused FROM queend.outbox WHERE queue = %s", f"{queue}-late")
    sql.rows("SELECT queend.configure(%s, '', '', '{\"encryption\": \"off\"}')", f"{queue}-late")
    sql.rows("UPDATE queend.outbox SET refused = NULL WHERE queue = %s", f"{queue}-late")
    assert relay(sql) == 1 and stored(sql, f"{queue}-late", "p") == [3]


def test_one_by_one_the_message_at_fault_is_found(sql, queue) -> None:
    """An operator's own constraint makes one partition impossible."""
    sql.rows(f"ALTER TABLE queend.partitions ADD CONSTRAINT poison CHECK (name <> 'poison-{queue}')")
    try:
        for number in range(3):
            sql.rows(PUSH, queue, f"poison-{queue}" if number == 0 else "p", str(number))
        with pytest.raises(psycopg.errors.CheckViolation):
            relay(sql)
        assert sql.rows("SELECT * FROM queend.relay_one()") == [(queue, 0)]
        assert relay(sql) == 2 and stored(sql, queue, "p") == [1, 2]
        assert "poison" in sql.value("SELECT refused FROM queend.outbox WHERE queue = %s", queue)
        assert sql.rows("SELECT * FROM queend.relay_one()") == []
    finally:
        sql.rows("DELETE FROM queend.outbox")
        sql.rows("ALTER TABLE queend.partitions DROP CONSTRAINT poison")


def test_one_at_a_time(sql, connect, alone, queue) -> None:
    sql.rows(PUSH, queue, "p", "1")
    other = connect(alone)
    with sql.transaction():
        assert sql.rows("SELECT * FROM queend.relay()") == [(queue, 1)]
        assert other.rows("SELECT moved FROM queend.relay()") == [(-1,)]
    assert other.rows("SELECT * FROM queend.relay()") == []


def test_a_relay_that_dies_leaves_everything_as_it_was(sql, connect, alone, queue) -> None:
    """Killed after it has stored the messages and deleted them from the outbox, before its commit."""
    for number in range(3):
        sql.rows(PUSH, queue, "p", str(number))
    victim = connect(alone)
    victim.rows("BEGIN")
    assert victim.rows("SELECT * FROM queend.relay()") == [(queue, 3)]
    sql.rows("SELECT pg_terminate_backend(%s)", victim.connection.info.backend_pid)
    until(lambda: not sql.rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s", victim.connection.info.backend_pid),
          "the backend is gone")
    assert stored(sql, queue, "p") == []
    assert relay(sql) == 3 and stored(sql, queue, "p") == [0, 1, 2]


def test_nothing_is_marked_before_anything_was_pushed(connect, postgres) -> None:
    conninfo = postgres.database()
    one = connect(conninfo)
    (mark,) = one.rows("SELECT * FROM queend.outbox_mark(1)")
    assert (mark.last, mark.after) == (0, None)
    one.rows(PUSH, "q", "p", "1")
    (mark,) = one.rows("SELECT * FROM queend.outbox_mark(1)")
    assert mark.last == 1 and mark.after and one.rows("SELECT last, after FROM queend.outbox_mark(2)") == [(1, None)]
    assert one.rows("SELECT last, after FROM queend.outbox_mark(NULL)") == [(1, None)]


def test_the_mark_tells_how_far_the_outbox_is_empty(sql, connect, alone, queue) -> None:
    slow = connect(alone)
    slow.rows("BEGIN")
    slow.rows(PUSH, queue, "p", "1")
    sql.rows(PUSH, queue, "p", "2")
    (first,) = sql.rows("SELECT * FROM queend.outbox_mark(0)")
    assert (relay(sql) == 1 and sql.rows("SELECT * FROM queend.outbox_mark(NULL)")[0].oldest
            <= first.after), "somebody below is under way"
    slow.rows("COMMIT")
    (second,) = sql.rows("SELECT * FROM queend.outbox_mark(NULL)")
    assert second.oldest > first.after
    assert sum(row.moved
               for row in sql.rows("SELECT * FROM queend.relay(1000, %s)", first.last + 1)) == 0, "nothing above"
    assert relay(sql) == 1


def test_a_transaction_that_was_open_when_the_daemon_marked_is_moved_when_it_commits(daemon, client, beside,
                                                                                     connect, queue) -> None:
    slow = connect(daemon.conninfo)
    slow.rows("BEGIN")
    slow.rows(PUSH, queue, "p", "1")
    for number in range(2, 14):        # the daemon empties the outbox above it, over some of its marks
        beside.rows(PUSH, queue, "p", str(number))
        until(lambda: not beside.value("SELECT count(*) FROM queend.outbox"), "moved")
    slow.rows("COMMIT")
    until(lambda: not beside.value("SELECT count(*) FROM queend.outbox"), "the slow one too")
    assert sorted(data(client.pop(queue, batch=100))) == list(range(1, 14))


# -- with a daemon -----------------------------------------------------------------------------------------------------

def test_a_waiting_consumer_is_woken(client: Client, daemon, beside, queue) -> None:
    for target in (pop_target(queue, wait=True, timeout=30000, autoAck=True),
                   pop_target(queue, "p", wait=True, timeout=30000, autoAck=True)):
        with daemon.client() as waiting:
            waiting.send("GET", target)
            until(lambda: client.parked() > 0, "the pop waits")
            with beside.transaction():
                beside.rows(PUSH, queue, "p", '{"hello": "world"}')
            assert data(waiting.receive().json["messages"]) == [{"hello": "world"}]
    assert client.metric("queend_outbox_moved_messages_total") >= 2
    until(lambda: client.metric("queend_outbox_messages") == 0, "the outbox is empty")
    assert client.metric("queend_outbox_oldest_seconds") == 0 and client.metric("queend_outbox_refused_messages") == 0


def test_another_daemon_is_woken_too(daemon, start_daemon, beside, queue) -> None:
    peer = start_daemon(daemon.conninfo)
    with daemon.client() as first, peer.client() as second:
        for one in (first, second):
            one.send("GET",
                     pop_target(queue, wait=True, timeout=30000, autoAck=True, consumerGroup=f"g{one.address[1]}"))
        until(lambda: all(d.client().parked() > 0 for d in (daemon, peer)), "both wait")
        beside.rows(PUSH, queue, "p", "1")
        assert [data(one.receive().json["messages"]) for one in (first, second)] == [[1], [1]]


def test_sessions_keep_their_order_and_nothing_is_lost_or_twice(daemon, connect, postgres, queue) -> None:
    """Several sessions, each with transactions of several messages, some rolled back, while the daemon moves and its
    relay is killed."""
    sessions, rounds = 4, 60
    committed: list[list[int]] = [[] for _ in range(sessions)]

    def run(number: int) -> None:
        sql = connect(daemon.conninfo)
        for turn in range(rounds):
            ids = [turn * 10 + k for k in range(turn % 4 + 1)]
            sql.rows("BEGIN")
            for one in ids:
                sql.rows(PUSH, queue, f"s{number}", str(one))
            sql.rows("COMMIT" if turn % 5 else "ROLLBACK")
            committed[number] += ids if turn % 5 else []

    threads = [threading.Thread(target=run, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    boss = connect(daemon.conninfo)
    killed = 0
    while any(thread.is_alive() for thread in threads):
        killed += boss.value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                             " WHERE query LIKE 'SELECT * FROM queend.relay(%%' AND pid <> pg_backend_pid()"
                             " AND datname = current_database()") if killed < 2 else 0
    for thread in threads:
        thread.join()
    assert killed
    until(lambda: not boss.value("SELECT count(*) FROM queend.outbox"), "all is moved")
    for number in range(sessions):
        assert stored(boss, queue, f"s{number}") == committed[number]


def test_an_erasure_takes_what_is_not_stored_yet(sql, queue) -> None:
    """Else the relay would store it afterwards."""
    sql.rows("SELECT queen.configure_queue_v1(%s)", queue)
    with sql.transaction():
        for name in ("gone", "kept"):
            sql.rows("SELECT queen.push(%s, 'p', '1'::json, %s)", queue, name)
        wanted = json.dumps({"queue": queue, "transactionIds": ["gone"]})
        assert sql.value("SELECT queen.erase_v1(%s)", wanted)["outbox"] == 1
    assert relay(sql) == 1
    assert [row.transaction_id for row in sql.rows("SELECT * FROM queen.messages WHERE queue = %s", queue)] == ["kept"]
    assert "outbox" not in sql.value("SELECT queen.erase_v1(%s)", wanted)
