"""A rate of delivery: what a claim takes, against a bucket of tokens that a test can count in its head."""
from __future__ import annotations

import random

import pytest
from sql.records import batch, id7, new_lease

STEP = 3_600_000_000        # µs from one message to the next: no token comes by itself while a test runs
POP = ("SELECT * FROM queend.pop(0, ARRAY[1], %s::int[], ARRAY[%s], ARRAY[true], ARRAY[%s], ARRAY[1], ARRAY[%s],"
       " ARRAY[%s::uuid], ARRAY[60000000::bigint], ARRAY[0::bigint], ARRAY[0::bigint], NULL, ARRAY[%s::bigint],"
       " ARRAY[%s])")


@pytest.fixture
def part(db, partitions):
    one, = partitions()
    for _ in range(4):
        db.push(batch(one, [id7() for _ in range(50)]))
    return one


@pytest.fixture
def readers(part, group):
    return group(part)


def take(db, part: int, group: int, budget: int, burst: int, auto: bool = True, lease: str | None = None,
         step: int = STEP) -> list:
    return db.rows(POP, [part], group, budget, auto, lease or new_lease(), step, burst)


def pass_time(db, part: int, group: int, us: int) -> None:
    """As if so much time had passed for this cursor."""
    db.rows("UPDATE queend.cursors SET retry_until = retry_until - %s WHERE partition_id = %s AND group_id = %s",
            us, part, group)


@pytest.mark.parametrize("seed", range(3))
def test_claims_take_what_the_bucket_holds(db, part, readers, seed):
    dice = random.Random(seed)
    burst = dice.choice([1, 3, 10])
    tokens, offset = burst, 0
    for _ in range(60):
        budget = dice.randint(1, 12)
        rows = take(db, part, readers, budget, burst)
        got = db.messages(rows)
        assert [at for at, _ in got] == list(range(offset, offset + min(tokens, budget, 200 - offset)))
        if offset < 200 and tokens == 0:
            assert rows[0].status == 3 and rows[0].until == db.value(
                "SELECT retry_until FROM queend.cursors WHERE partition_id = %s AND group_id = %s", part, readers)
        offset, tokens = offset + len(got), tokens - len(got)
        steps = dice.choice([0, 1, 1, 2, 5])
        pass_time(db, part, readers, steps * STEP)
        tokens = min(burst, tokens + steps)
    assert offset > 30


def test_an_acknowledgment_gives_no_token_back(db, part, readers):
    for left in (2, 1, 0):
        lease = new_lease()
        got = db.messages(take(db, part, readers, 1, 3, auto=False, lease=lease))
        assert len(got) == 1 and db.ack(part, readers, lease, [got[0][1]]).released
        if left == 2:
            pass_time(db, part, readers, STEP // 2)
    assert take(db, part, readers, 1, 3)[0].status == 3


def test_a_pause_after_a_failure_counts_beside_the_rate(db, part, readers):
    lease = new_lease()
    (_, first), = db.messages(take(db, part, readers, 1, 5, auto=False, lease=lease))
    db.ack(part, readers, lease, [first], b"\x01", retry_delay_us=3 * STEP)
    assert take(db, part, readers, 1, 5)[0].status == 3
    pass_time(db, part, readers, 3 * STEP)
    assert len(db.messages(take(db, part, readers, 9, 5))) == 1, "the pause used up what was left"


def test_a_claim_without_a_rate_leaves_a_pause_that_has_passed(db, part, readers):
    assert len(db.messages(take(db, part, readers, 1, 1))) == 1
    pass_time(db, part, readers, 2 * STEP)
    assert len(db.messages(db.pop([part], readers, budget=50, auto=True))) == 50
    assert len(db.messages(take(db, part, readers, 9, 1))) == 1


def test_an_hour_divided(db):
    assert [db.value("SELECT queend.rate_us(%s, %s)", *asked) for asked in (
        (0, 5), (1, 1), (3, 1), (1_000_000, 1), (7, 60), (1, 31_622_400))] == [
            0, 1_000_000, 333_334, 1, 8_571_429, 31_622_400_000_000]
