"""How long a failed batch waits: what its queue was told, or the acknowledgment itself."""
from __future__ import annotations

import json
import uuid

import psycopg
import pytest
from sql.records import batch, id7

FAILED, RETRY = bytes([1]), bytes([3])
HOUR_US = 3_600_000_000


@pytest.fixture
def failing(db, partitions, group):
    """failing(**options): a queue with these options and one message under lease; a function that acknowledges and pops
    it again."""
    def make(**options):
        part, = partitions()
        readers = group(part)
        queue = db.value("SELECT q.name FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                         " WHERE p.id = %s", part)
        if options:
            db.value("SELECT queend.configure(%s, '', '', %s)", queue, json.dumps(options))
        record = id7()
        db.push(batch(part, [record]))

        def fail(status: bytes = FAILED, retry_delay_us: int | None = None) -> int:
            """Pops the message, acknowledges it with this status, lifts the pause; how long it was, in µs."""
            lease = str(uuid.uuid4())
            assert db.messages(db.pop([part], readers, lease=lease)) == [(0, record)]
            row = db.ack(part, readers, lease, [record], status, retry_limit=100, retry_delay_us=retry_delay_us)
            assert row.released
            pause = db.value("SELECT CASE WHEN retry_until > 0 THEN retry_until - consumed_at ELSE 0 END"
                             " FROM queend.cursors WHERE partition_id = %s", part)
            if pause:  # of a minute at least: it is not over before this pop
                assert db.pop([part], readers)[0].until == row.retry_until
                assert db.value("SELECT ends_at FROM queend.pauses WHERE partition_id = %s AND group_id = %s", part,
                                readers) == row.retry_until
            db.rows("UPDATE queend.cursors SET retry_until = 0 WHERE partition_id = %s", part)
            return pause
        return fail
    return make


def test_nothing_was_configured(failing):
    assert failing()() == 0 and failing(retryLimit=5)() == 0


def test_a_delay_that_was_configured_is_kept(failing):
    fail = failing(retryDelay=60_000)
    assert [fail(), fail(), fail()] == [60_000_000] * 3
    assert failing(retryDelay=0)() == 0


def test_steps_of_a_backoff_the_last_one_repeated(failing):
    fail = failing(retryBackoff=[60_000, 0, 180_000], retryDelay=7)
    assert [fail() for _ in range(5)] == [60_000_000, 0, 180_000_000, 180_000_000, 180_000_000]


def test_an_exponential_backoff_up_to_its_maximum(failing):
    fail = failing(retryBackoff={"type": "exponential", "initial": 60_000, "multiplier": 3, "max": 900_000})
    assert [fail() for _ in range(5)] == [60_000_000, 180_000_000, 540_000_000, 900_000_000, 900_000_000]


def test_no_number_of_failures_is_too_large(db, failing, partitions):
    part, = partitions()
    queue = db.value("SELECT q.name FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE p.id = %s",
                     part)
    db.value("SELECT queend.configure(%s, '', '', %s)", queue,
             json.dumps({"retryBackoff": {"type": "exponential", "initial": 1, "multiplier": 1000, "max": 5}}))
    assert db.value("SELECT queend.retry_pause(%s, 2147483647)", part) == 5000


def test_jitter_takes_up_to_its_share_away(failing):
    fail = failing(retryBackoff={"type": "exponential", "initial": 60_000, "multiplier": 1, "jitter": 0.5})
    pauses = [fail() for _ in range(20)]
    assert all(30_000_000 <= pause <= 60_000_000 for pause in pauses) and len(set(pauses)) > 1


def test_what_is_sent_back_without_failing_comes_at_once(failing):
    assert failing(retryDelay=1000)(RETRY) == 0


def test_an_acknowledgment_says_itself_how_long(failing):
    fail = failing(retryDelay=1000)
    assert fail(FAILED, HOUR_US) == HOUR_US and fail(RETRY, HOUR_US) == HOUR_US and fail(FAILED, 0) == 0


@pytest.mark.parametrize("told,kept", [
    ([5], [5]), ([0, 2147483647], [0, 2147483647]),
    ({"type": "exponential", "initial": 5},
     {"type": "exponential", "initial": 5, "multiplier": 2, "max": 3600000, "jitter": 0}),
    ({"type": "exponential", "initial": 5, "multiplier": 1.5, "max": 7, "jitter": 0.25},
     {"type": "exponential", "initial": 5, "multiplier": 1.5, "max": 7, "jitter": 0.25}),
], ids=str)
def test_a_backoff_is_shown_as_it_was_told(db, told, kept):
    assert db.value("SELECT queend.configure('shown', '', '', %s)",
                    json.dumps({"retryBackoff": told}))["options"]["retryBackoff"] == kept
    options = db.value("SELECT queend.configure('shown', '', '', '{\"retryBackoff\": null}')")["options"]
    assert "retryBackoff" not in options and options["retryDelay"] == 1000


@pytest.mark.parametrize("told", [
    [], [-1], [1.5], ["1"], [None], [2147483648], [1] * 33, 5, "5", True, {}, {"type": "linear", "initial": 1},
    {"type": "exponential"},
    {"type": "exponential", "initial": 0}, {"type": "exponential", "initial": 1, "multiplier": 0.5},
    {"type": "exponential", "initial": 1, "jitter": 1.1},
    {"type": "exponential", "initial": 1, "max": 0}, {"type": "exponential", "initial": "1"},
    {"type": "exponential", "initial": 1.5},
], ids=str)
def test_a_backoff_that_is_none_is_refused(db, told):
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="retryBackoff"):
        db.value("SELECT queend.configure('refused', '', '', %s)", json.dumps({"retryBackoff": told}))


def test_pauses_are_told_in_order_and_page_by_page(db, partitions, group):
    parts = partitions(5)
    readers = group(parts[0])
    for at, part in zip((30, 10, 20, 20, 40), parts):
        db.rows("INSERT INTO queend.pauses (ends_at, partition_id, group_id) VALUES (%s, %s, %s)", at, part, readers)
    told, at, after = [], 9, 0
    while page := db.rows("SELECT * FROM queend.waking(%s, %s, 30, 2)", at, after):
        told += [(row.at, row.partition_id, row.group_id) for row in page]
        at, after = page[-1].at, page[-1].partition_id
    assert told == [(10, parts[1], readers), (20, parts[2], readers), (20, parts[3], readers), (30, parts[0], readers)]
    db.rows("SELECT * FROM queend.sweep(100)")
    assert db.value("SELECT count(*) FROM queend.pauses WHERE partition_id = ANY (%s)", parts) == 0, "long over"


def test_an_acknowledgment_in_sql_says_it_too(db, partitions, group):
    part, = partitions()
    readers, record = group(part, "__QUEUE_MODE__"), id7()
    db.push(batch(part, [record]))

    def ack(**more):
        item = {"transactionId": str(uuid.UUID(bytes=record)),
                "partitionId": str(db.value("SELECT queend.partition_uuid(%s)", part)), "status": "retry", **more}
        return db.value("SELECT queen.ack_messages_v2(%s)", json.dumps([item]))[0]["success"]

    for delay in (-1, "5", 1.5, 31622400001):
        db.pop([part], readers)
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="delayMs"):
            ack(delayMs=delay)
    assert ack(delayMs=5000)
    assert db.value("SELECT retry_until - consumed_at FROM queend.cursors WHERE partition_id = %s", part) == 5_000_000
