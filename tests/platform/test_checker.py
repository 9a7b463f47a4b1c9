"""The judge of the histories finds each kind of fault that was planted, and nothing in a history without one."""
from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from support.checker import Checker, Pop

PARTITIONS, EACH, LEASE = "abc", 30, 5.0


class Queue:
    """A queue that has no faults but those planted. Its clock goes a tenth of a second with each step."""

    def __init__(self, seed: int = 1):
        self.chance, self.now = random.Random(seed), 100.0
        self.checker = Checker(["red", "blue"])
        self.log: dict[str, list] = {name: [] for name in PARTITIONS}
        self.next = {(group, name): 0 for group in ("red", "blue") for name in PARTITIONS}

    def step(self) -> float:
        self.now += 0.1
        return self.now

    def push(self, partition: str, status: str = "queued", stored: bool = True) -> str:
        key = f"{partition}{len(self.checker.pushed)}"
        self.checker.push_asked(key, partition, "producer", self.step())
        if stored:
            self.log[partition].append(key)
        self.checker.push_answered(key, status, self.step())
        return key

    def pop(self, group: str, partition: str, count: int = 3, ack: bool = True, at: int | None = None) -> Pop:
        start = self.next[group, partition] if at is None else at
        messages = [(partition, offset, key) for offset, key in enumerate(self.log[partition])][start:start + count]
        asked = self.step()
        pop = self.checker.popped(group, messages, asked, self.step(), LEASE, wildcard=False)
        if ack:
            self.checker.ack_answered(pop, pop.messages, self.step(), released=True)
            self.next[group, partition] = start + len(messages)
        return pop

    def empty(self, group: str = "red") -> None:
        asked = self.step()
        self.checker.popped(group, [], asked, self.step(), LEASE, "daemon")

    def drain(self) -> None:
        for group, partition in self.next:
            while self.next[group, partition] < len(self.log[partition]):
                self.pop(group, partition)

    def kinds(self) -> set[str]:
        self.drain()
        return {fault.kind for fault in self.checker.faults(drained=True)}


@pytest.mark.parametrize("seed", range(20))
def test_a_clean_history(seed: int) -> None:
    """With leases that end unacknowledged, answers that never came, seeks, and a database that lost its newest
    messages."""
    queue = Queue(seed)
    chance = queue.chance
    for _ in range(120):
        group, partition = chance.choice(["red", "blue"]), chance.choice(PARTITIONS)
        move = chance.choice(["push", "push", "push", "pop", "pop", "leave", "unknown", "seek", "lose", "again",
                              "pause"])
        if move == "push":
            queue.push(partition, chance.choice(["queued", "buffered", "duplicate"]))
        elif move == "pop":
            queue.pop(group, partition, chance.randint(1, 5))
        elif move == "leave":
            queue.drain()
            queue.push(partition)
            queue.pop(group, partition, ack=False)
            queue.empty(group)          # whatever else there was has been taken
            queue.now += LEASE
        elif move == "unknown":
            asked = queue.step()
            queue.checker.pop_unanswered(group, asked, queue.step(), LEASE)
            queue.now += LEASE
        elif move == "seek":
            to, asked = chance.randint(0, len(queue.log[partition])), queue.step()
            queue.checker.sought(group, asked, queue.step(), {partition: to})
            queue.next[group, partition] = to
        elif move == "lose":
            asked, gone = queue.step(), queue.log[partition][-2:]
            del queue.log[partition][-2:]
            queue.checker.replaced(asked, queue.step(), gone)
            for one in queue.next:
                queue.next[one] = max(0, min(queue.next[one] - 1, len(queue.log[one[1]])))
        elif move == "pause":
            answered, resumed = queue.step(), queue.step()
            queue.checker.paused(group, answered, resumed)
        elif move == "again" and queue.log[partition]:
            queue.checker.push_answered(chance.choice(queue.log[partition]), "duplicate", queue.step())
    queue.drain()
    assert queue.checker.faults() == []


def test_what_came_while_a_group_was_moved_back_may_have_come_after_that() -> None:
    """A pop that was under way beside the seek: nobody can tell which of the two was first."""
    queue = Queue()
    for _ in range(4):
        queue.push("a")
    queue.drain()
    asked = queue.step()
    queue.pop("red", "a", count=len(queue.log["a"]), at=2)
    queue.checker.sought("red", asked, queue.step(), {"a": 2})
    assert queue.kinds() == set()


def lost(queue: Queue) -> None:
    queue.push("a", stored=False)


def lost_by_the_buffer(queue: Queue) -> None:
    queue.push("b", "buffered", stored=False)


def lost_to_one_group(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    queue.next["blue", "a"] += 1


def lost_after_a_seek(queue: Queue) -> None:
    queue.drain()
    asked = queue.step()
    queue.checker.sought("red", asked, queue.step(), {"a": 2})


def stored_twice(queue: Queue) -> None:
    queue.log["a"].append(queue.push("a"))


def stored_elsewhere(queue: Queue) -> None:
    queue.log["b"].append(queue.push("a", stored=False))


def consumed_twice(queue: Queue) -> None:
    """Two claims under way at a time, both acknowledged."""
    queue.drain()
    queue.push("a")
    asked = queue.step()
    first = queue.pop("red", "a")
    ended = queue.step()
    second = queue.checker.popped("red", [(*place, key) for place, key in first.messages.items()], asked, ended, LEASE)
    queue.checker.ack_answered(second, second.messages, queue.step(), released=True)


def delivered_after_its_acknowledgment(queue: Queue) -> None:
    queue.drain()
    queue.pop("red", "a", at=1, count=1, ack=False)


def delivered_after_it_acknowledged_itself(queue: Queue) -> None:
    for _ in range(2):
        asked = queue.step()
        queue.checker.popped("red", [("a", 0, queue.log["a"][0])], asked, queue.step())
    queue.next["red", "a"] = 1


def passed_over(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    queue.push("a")
    queue.pop("red", "a", at=len(queue.log["a"]) - 1, count=1)
    queue.pop("red", "a", at=len(queue.log["a"]) - 2, count=1)
    queue.next["red", "a"] = len(queue.log["a"])


def turned_round(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    queue.push("a")
    queue.log["a"][-2:] = reversed(queue.log["a"][-2:])


def given_in_disorder(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    queue.push("a")
    end, asked = len(queue.log["a"]), queue.step()
    queue.checker.popped("red", [("a", end - 1, queue.log["a"][-1]), ("a", end - 2, queue.log["a"][-2])], asked,
                         queue.step(), LEASE)
    queue.now += LEASE


def rows_of_the_database_before(queue: Queue) -> None:
    queue.drain()
    key, asked = queue.push("a"), queue.step()
    queue.log["a"].remove(key)
    queue.checker.replaced(asked, queue.step(), [key])
    queue.checker.popped("red", [("a", len(queue.log["a"]), key)], queue.step(), queue.step(), LEASE)


def delivered_in_a_pause(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    answered = queue.step()
    queue.pop("red", "a")
    queue.checker.paused("red", answered, queue.step())


def passed_over_by_pops(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    queue.now += 2.1
    queue.empty()


def passed_over_by_a_pop_that_waits(queue: Queue) -> None:
    queue.drain()
    asked = queue.step()
    queue.push("a")
    queue.now += 2.1
    queue.checker.popped("red", [], asked, queue.step(), LEASE, waits=True)


def withheld_behind_a_lease_that_ended(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    queue.pop("red", "a", ack=False)
    queue.push("a")
    queue.now += LEASE + 2.1
    queue.empty()


def committed_by_sql_and_not_found(queue: Queue) -> None:
    queue.drain()
    queue.checker.push_asked("sql", "c", "program", queue.step())
    queue.log["c"].append("sql")
    queue.now += 15
    queue.checker.committed("sql", queue.step())
    queue.empty()
    queue.now += 2
    queue.empty()


def passed_over_by_a_pop_that_names_the_partition(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    queue.now += 3
    asked = queue.step()
    queue.checker.popped("red", [], asked, queue.step(), LEASE, "daemon", wildcard=False, partition="a")


def not_delivered_again_after_its_lease(queue: Queue) -> None:
    queue.drain()
    queue.push("a")
    queue.next["red", "a"] += len(queue.pop("red", "a", ack=False).messages)


PLANTED = {"lost": [lost, lost_by_the_buffer, lost_to_one_group, lost_after_a_seek],
           "doubled": [stored_twice, stored_elsewhere, consumed_twice],
           "acknowledged": [delivered_after_its_acknowledgment, delivered_after_it_acknowledged_itself],
           "order": [passed_over, turned_round, given_in_disorder], "gone": [rows_of_the_database_before],
           "paused": [delivered_in_a_pause], "left": [not_delivered_again_after_its_lease],
           "late": [passed_over_by_pops, passed_over_by_a_pop_that_names_the_partition, passed_over_by_a_pop_that_waits,
                    withheld_behind_a_lease_that_ended,
                    committed_by_sql_and_not_found]}


@pytest.mark.parametrize("kind, plant", [(kind, plant) for kind, plants in PLANTED.items() for plant in plants],
                         ids=lambda one: getattr(one, "__name__", one))
def test_a_planted_fault_is_found_and_told_apart(kind: str, plant: Callable[[Queue], None]) -> None:
    queue = Queue()
    for _ in range(EACH):
        queue.push(queue.chance.choice(PARTITIONS))
    plant(queue)
    assert queue.kinds() == {kind}


def test_who_is_busy_or_in_trouble_is_not_late() -> None:
    queue = Queue()
    queue.push("a")
    queue.pop("red", "a", ack=False)
    queue.now += LEASE - 0.5
    queue.empty()                       # leased
    queue.now += 1.5
    queue.empty()                       # free for less than two seconds
    queue.drain()
    begin = queue.step()
    queue.push("a")
    queue.now += 60
    queue.checker.trouble(begin, queue.step())
    queue.now += 1.5
    queue.empty()
    assert queue.kinds() == set()


def test_what_another_pop_has_in_hand_is_not_late() -> None:
    queue = Queue()
    queue.push("a")
    queue.now += 10
    asked = queue.step()
    queue.empty()
    pop = queue.checker.popped("red", [("a", 0, "a0")], asked, queue.step(), LEASE)
    queue.checker.ack_answered(pop, pop.messages, queue.step(), released=True)
    queue.next["red", "a"] = 1
    assert queue.kinds() == set()


def test_a_pop_of_another_partition_is_not_late() -> None:
    queue = Queue()
    queue.drain()
    queue.push("a")
    queue.now += 3
    asked = queue.step()
    queue.checker.popped("red", [], asked, queue.step(), LEASE, "daemon", wildcard=False, partition="b")
    assert not queue.kinds()
