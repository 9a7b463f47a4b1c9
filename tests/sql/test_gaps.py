"""Random histories of two consumers beside each other: whatever is acknowledged, in whatever order, and however leases
end, nothing is skipped, nothing comes again after its acknowledgment was confirmed, and each delivery begins with the
first message that is left."""
from __future__ import annotations

import random
import threading
from collections.abc import Callable

from sql.calls import ACK_LEASED, CLAIM, transaction
from sql.records import Session, batch, id7, new_lease
from support.seeds import seed_of_run

MESSAGES, ROWS, PARTITIONS, ROUNDS = 300, 12, 3, 4
COMPLETED, FAILED, DLQ, RETRY, UPTO = range(5)


class Ledger:
    """What both know: per partition the ids, what was confirmed, and what is being acknowledged now."""

    def __init__(self, ids: dict[int, list[bytes]]):
        self.ids = ids
        self.lock = threading.Lock()
        self.confirmed: dict[int, set[int]] = {part: set() for part in ids}
        self.asked: dict[int, set[int]] = {part: set() for part in ids}

    def ask(self, part: int, offsets) -> None:
        with self.lock:
            self.asked[part].update(offsets)

    def confirm(self, part: int, offsets) -> None:
        with self.lock:
            self.asked[part].update(offsets)
            self.confirmed[part].update(offsets)

    def seen(self) -> dict[int, set[int]]:
        with self.lock:
            return {part: set(offsets) for part, offsets in self.confirmed.items()}

    def delivered(self, part: int, before: set[int], offsets: list[int]) -> None:
        with self.lock:
            assert offsets == list(range(offsets[0], offsets[-1] + 1)), f"{part}: a delivery with a gap, {offsets}"
            assert not before & set(offsets), f"{part}: confirmed, and delivered again: {sorted(before & set(offsets))}"
            skipped = set(range(offsets[0])) - self.asked[part]
            assert not skipped, f"{part}: {sorted(skipped)} were skipped, {offsets} came"

    def left(self) -> bool:
        return any(len(self.confirmed[part]) < len(ids) for part, ids in self.ids.items())


class Consumer:
    def __init__(self, db: Session, group: int, ledger: Ledger, chance: random.Random):
        self.db, self.group, self.ledger, self.chance = db, group, ledger, chance
        self.held: list[tuple[int, str, list[int]]] = []      # partition, lease, offsets not acknowledged
        self.places: list[str] = []

    def run(self) -> None:
        for _ in range(20_000):
            if not self.ledger.left():
                return
            move = self.chance.choices([self.pop, self.auto, self.claim, self.ack, self.leased, self.transaction,
                                        self.expire], [6, 1, 3, 8, 3, 2, 2])[0]
            move()
        raise AssertionError("it does not come to an end")

    def taken(self, part: int, lease: str, before: set[int], offsets: list[int]) -> None:
        self.ledger.delivered(part, before, offsets)
        self.held.append((part, lease, offsets))

    def pop(self) -> None:
        part, lease, before = self.chance.choice([*self.ledger.ids]), new_lease(), self.ledger.seen()
        found = self.db.messages(self.db.pop([part], self.group, budget=self.chance.randint(1, 25), lease=lease))
        assert [one for _, one in found] == [self.ledger.ids[part][offset] for offset, _ in found]
        if found:
            self.taken(part, lease, before[part], [offset for offset, _ in found])

    def auto(self) -> None:
        """Delivered and acknowledged at once. What it will take is not known before: nobody else may look at the ledger
        meanwhile."""
        part = self.chance.choice([*self.ledger.ids])
        with self.ledger.lock:
            before = set(self.ledger.confirmed[part])
            offsets = [offset for offset, _ in self.db.messages(
                self.db.pop([part], self.group, budget=self.chance.randint(1, 5), auto=True))]
            self.ledger.asked[part].update(offsets)
            self.ledger.confirmed[part].update(offsets)
            assert not before & set(offsets) and not set(range(min(offsets, default=0))) - self.ledger.asked[part]

    def claim(self) -> None:
        """As a daemon that has the next messages in memory: refused where the cursor stands otherwise."""
        part, before = self.chance.choice([*self.ledger.ids]), self.ledger.seen()
        first = next((at for at in range(MESSAGES) if at not in before[part]), MESSAGES)
        take, lease = min(self.chance.randint(1, 20), MESSAGES - first), new_lease()
        if take and self.db.rows(CLAIM, 0, [part], [self.group], [first], [take], [0], [lease], [60_000_000]):
            self.taken(part, lease, before[part], list(range(first, first + take)))

    def some(self) -> tuple[int, str, list[int]] | None:
        if not self.held:
            return None
        return self.held.pop(self.chance.randrange(len(self.held)))

    def ack(self) -> None:
        one = self.some()
        if one is None:
            return
        part, lease, offsets = one
        named = self.chance.sample(offsets, self.chance.randint(1, len(offsets)))
        status = [self.chance.choices([COMPLETED, UPTO, FAILED, DLQ, RETRY], [20, 1, 1, 1, 1])[0] for _ in named]
        back = max((offset for offset, word in zip(named, status) if word == UPTO), default=-1)
        self.ledger.ask(part, [o for o, w in zip(named, status) if w != RETRY] + list(range(back + 1)))
        row = self.db.ack(part, self.group, lease, [self.ledger.ids[part][offset] for offset in named], bytes(status))
        if 16 in row.codes:
            assert set(row.codes) == {16}
            return
        # A word that goes back has the lease released, and leaves alone what stands behind it.
        stop = min((o for o, w, code in zip(named, status, row.codes) if w in (FAILED, RETRY) and not code & 2),
                   default=MESSAGES)
        upto = max((o for o, w in zip(named, status) if w == UPTO and o < stop), default=-1)
        done = [o for o in named if o < stop] + list(range(upto + 1))
        self.ledger.confirm(part, done)
        left = [offset for offset in offsets if offset not in done]
        if left and not row.released:
            self.held.append((part, lease, left))

    def leased(self) -> None:
        """The beginning of what a lease has left, in its order."""
        one = self.some()
        if one is None:
            return
        part, lease, offsets = one
        run = next((i for i, (a, b) in enumerate(zip(offsets, offsets[1:]), 1) if b != a + 1), len(offsets))
        n = self.chance.randint(1, run)
        self.ledger.ask(part, offsets[:n])
        here = self.db.value("SELECT ctid::text FROM queend.cursors WHERE partition_id = %s AND group_id = %s", part,
                             self.group)
        self.places.append(here)
        place = self.chance.choice([None, [here], [self.chance.choice(self.places)]])
        if self.db.rows(ACK_LEASED, 0, [part], [self.group], [lease], offsets[:1], [offsets[n - 1]], [0], False, place):
            self.ledger.confirm(part, offsets[:n])
            if offsets[n:]:
                self.held.append((part, lease, offsets[n:]))
        else:
            self.held.append(one)

    def transaction(self) -> None:
        one = self.some()
        if one is None:
            return
        part, lease, offsets = one
        named = self.chance.sample(offsets, self.chance.randint(1, len(offsets)))
        self.ledger.ask(part, named)
        row = transaction(self.db, acks=[(part, self.group, lease,
                                          [self.ledger.ids[part][offset] for offset in named], None)])[1, 0]
        if set(row.codes) <= {1, 5}:
            self.ledger.confirm(part, named)
            left = [offset for offset in offsets if offset not in named]
            if left:
                self.held.append((part, lease, left))

    def expire(self) -> None:
        """Time passes for one partition: its lease is over, whoever has it."""
        part = self.chance.choice([*self.ledger.ids])
        self.db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s AND lease_until > 0", part)


def test_nothing_is_skipped_nor_comes_again(session: Callable[[], Session], db: Session, partitions, group) -> None:
    seed = seed_of_run()
    for round_ in range(ROUNDS):
        parts = partitions(PARTITIONS)
        readers = group(parts[0])
        ids = {part: [id7() for _ in range(MESSAGES)] for part in parts}
        for part in parts:
            for at in range(0, MESSAGES, MESSAGES // ROWS):
                db.push(batch(part, ids[part][at:at + MESSAGES // ROWS]))
        ledger = Ledger(ids)
        consumers = [Consumer(session(), readers, ledger, random.Random(f"{seed} {round_} {n}")) for n in range(2)]
        errors: list[BaseException] = []

        def work(consumer: Consumer, errors: list[BaseException] = errors) -> None:
            try:
                consumer.run()
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(one,)) for one in consumers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        rows = db.rows("SELECT partition_id, committed, beyond FROM queend.cursors WHERE group_id = %s", readers)
        assert sorted(row.partition_id for row in rows) == sorted(parts)
        assert all(db.messages(db.pop([part], readers, lease_us=1)) == [] for part in parts)
