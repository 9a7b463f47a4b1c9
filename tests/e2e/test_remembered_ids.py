"""Random ids through HTTP: whoever remembers them, however often daemons come and go, a partition holds a set."""
from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Callable

import psycopg
import pytest
from support.client import Client
from support.daemon import Daemon
from support.seeds import seed_of_run

# Enough for three partitions of some hundred ids and no more; everything; nothing.
ROOM = {"little": 8192, "plenty": 1 << 28, "none": 0}


class Partitions:
    """What must be stored: partition → transaction ids in order."""

    def __init__(self, queue: str, seed: int):
        self.queue, self.chance = queue, random.Random(seed)
        self.held: dict[str, dict[str, int]] = {name: {} for name in "abcde"}
        self.made = 0

    def new(self) -> str:
        self.made += 1
        return self.chance.choice([str(uuid.UUID(int=self.chance.getrandbits(128), version=4)), f"order {self.made}",
                                   f"{self.made:08x}-0000-4000-8000-000000000000"])

    def items(self, count: int, again: float) -> list[dict]:
        """New ids, and ids that were stored at any time before."""
        items = []
        for name in self.chance.choices("aaaabbbccd" + "e" * (self.made % 3 == 0), k=count):
            known = self.held[name]
            transaction = self.chance.choice([*known]) if known and self.chance.random() < again else self.new()
            items.append({"queue": self.queue, "partition": name, "transactionId": transaction,
                          "payload": self.chance.choice([0, "long " * 300])})
        return items

    def transact(self, client: Client, count: int, again: float) -> None:
        """The same in a transaction: all of them or none."""
        items = self.items(count, again)
        new = {(item["partition"], item["transactionId"]) for item in items
               if item["transactionId"] not in self.held[item["partition"]]}
        result = client.transaction(*({"type": "push", **item} for item in items))
        assert result["success"] is (len(new) == len(items)), result
        for item in items if result["success"] else []:
            self.held[item["partition"]].setdefault(item["transactionId"], len(self.held[item["partition"]]))

    def push(self, client: Client, count: int, again: float) -> None:
        """One request."""
        items = self.items(count, again)
        for item, result in zip(items, client.push_items(items), strict=True):
            known = self.held[item["partition"]]
            assert result["status"] == ("duplicate" if item["transactionId"] in known else "queued"), (item, result)
            known.setdefault(item["transactionId"], len(known))


def stored(conninfo: str, queue: str) -> dict[str, list[bytes]]:
    with psycopg.connect(conninfo) as db:
        rows = db.execute("SELECT p.name, l.ids FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id"
                          " JOIN queend.queues q"
                          " ON q.id = p.queue_id WHERE q.name = %s ORDER BY p.name, l.base", (queue,)).fetchall()
    found: dict[str, list[bytes]] = {}
    for name, ids in rows:
        found.setdefault(name, []).extend(ids[i:i + 16] for i in range(0, len(ids), 16))
    return found


def listed(conninfo: str, queue: str) -> int:
    """Ids that stand in late_ids."""
    with psycopg.connect(conninfo) as db:
        return db.execute("SELECT count(*) FROM queend.late_ids e JOIN queend.partitions p ON p.id = e.partition_id"
                          " JOIN queend.queues q"
                          " ON q.id = p.queue_id WHERE q.name = %s", (queue,)).fetchone()[0]


@pytest.mark.parametrize("room", ROOM)
def test_a_partition_is_a_set(start_daemon: Callable[..., Daemon], queue: str, room: str) -> None:
    seed = seed_of_run()
    model = Partitions(queue, seed)
    daemons = [start_daemon(QUEEND_DEDUPE_BYTES=ROOM[room])]
    conninfo = daemons[0].conninfo
    for round_ in range(6):
        with daemons[0].client() as first, daemons[-1].client() as last:
            for _ in range(20):
                send = model.chance.choice([model.push, model.push, model.transact])
                send(model.chance.choice([first, first, last]), model.chance.randint(1, 60),
                     model.chance.choice([0, 0, 0.1, 0.5]))
        if round_ == 3:
            daemons.append(start_daemon(conninfo, QUEEND_DEDUPE_BYTES=ROOM["plenty"]))
        elif round_ % 2:
            daemons[0].kill() if round_ == 1 else daemons[0].stop()
            daemons[0] = start_daemon(conninfo, QUEEND_DEDUPE_BYTES=ROOM[room])
    found = stored(conninfo, queue)
    assert {name: len(ids)
            for name, ids in found.items()} == {name: len(ids) for name, ids in model.held.items() if ids}
    assert all(len(set(ids)) == len(ids) for ids in found.values())
    total = sum(map(len, found.values()))
    assert (listed(conninfo, queue) < total / 2) is (room == "plenty"), "what is not remembered stands in the database"


def one_that_stored(start_daemon: Callable[..., Daemon], queue: str) -> tuple[Daemon, list[str]]:
    """A daemon that was killed, and the 45 000 random ids it stored in partition p: more than one answer can teach."""
    daemon = start_daemon()
    ids = [str(uuid.uuid4()) for _ in range(45000)]
    with daemon.client() as client:
        for at in range(0, len(ids), 5000):
            client.push_items([{"queue": queue, "partition": "p", "transactionId": i, "payload": 0}
                               for i in ids[at:at + 5000]])
    daemon.kill()
    return daemon, ids


def test_a_daemon_that_starts_learns_what_is_there(start_daemon: Callable[..., Daemon], queue: str) -> None:
    first, ids = one_that_stored(start_daemon, queue)
    new = [str(uuid.uuid4()) for _ in range(100)]
    some = ids[::449] + new
    random.shuffle(some)
    with start_daemon(first.conninfo).client() as client:
        for _ in range(2):
            results = client.push_items(
                [{"queue": queue, "partition": "p", "transactionId": i, "payload": 0} for i in some])
            fresh = {i for i, result in zip(some, results, strict=True) if result["status"] == "queued"}
            assert fresh == set(new)
            new = []
    assert len(stored(first.conninfo, queue)["p"]) == 45100


def test_a_transaction_learns_what_is_there(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """By itself, more than one answer, and beside pushes to the same partition that learn as well."""
    first, ids = one_that_stored(start_daemon, queue)
    second = start_daemon(first.conninfo)
    new = [str(uuid.uuid4()) for _ in range(200)]
    failures: list[BaseException] = []

    def transactions() -> None:
        try:
            with second.client() as client:
                for some, fine in [(new[:10], True), (new[:10], False), ([*new[10:20], ids[17]], False),
                                   (new[10:100], True), ([new[50]], False)]:
                    result = client.transaction(*({"type": "push", "queue": queue, "partition": "p", "transactionId": i,
                                                   "payload": 0} for i in some))
                    assert result["success"] is fine, result
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=transactions)
    thread.start()
    with second.client() as client:
        for n, i in enumerate(new[100:]):
            for item, status in [(i, "queued"), (i, "duplicate"), (ids[449 * n], "duplicate")]:
                assert client.push_items([{"queue": queue, "partition": "p", "transactionId": item,
                                           "payload": 0}])[0]["status"] == status
    thread.join()
    assert not failures
    assert len(stored(first.conninfo, queue)["p"]) == len(set(stored(first.conninfo, queue)["p"])) == 45200
    second.stop()


GATED = """CREATE OR REPLACE FUNCTION queend.ids_learn(p_part int, p_known bigint,
 p_known_at bigint) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1);
    RETURN queend.ids_seen(p_part, queend.ids_known(p_part, p_known, p_known_at));
END $$"""


@pytest.mark.parametrize("streams", ["1", "3"])
def test_who_learns_keeps_no_other_waiting(start_daemon: Callable[..., Daemon], queue: str, streams: str) -> None:
    """While the reads that teach a partition stand still, all others are stored; what comes for it is stored in order
    after that."""
    first, ids = one_that_stored(start_daemon, queue)
    second = start_daemon(first.conninfo, QUEEND_PUSH_STREAMS=streams)
    new = [str(uuid.uuid4()) for _ in range(60)]
    rest = [str(uuid.uuid4()) for _ in range(60)]
    with (psycopg.connect(first.conninfo, autocommit=True) as gate, second.client() as other,
          second.client() as waiting, second.client() as later):
        gate.execute(GATED)
        gate.execute("SELECT pg_advisory_lock(1)")
        every = [{"queue": queue, "partition": name, "transactionId": i, "payload": 0} for name in ["p", "b", "c"]
                 for i in [*new[:20], ids[9]]]
        waiting.send("POST", "/api/v1/push", json.dumps({"items": every}).encode())
        while not gate.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"
                               " AND NOT granted").fetchone()[0]:
            other.push_items([{"queue": queue, "partition": "d", "transactionId": str(uuid.uuid4()), "payload": 0}])
        assert [len(stored(first.conninfo, queue)[name]) for name in "pbc"] == [45000, 21, 21]
        assert {item["status"]
                for item in other.push_items([{"queue": queue, "partition": name, "transactionId": i, "payload": 0}
                                              for i in rest for name in "bcd"])} == {"queued"}
        late = [{"queue": queue, "partition": "p", "transactionId": i, "payload": 0} for i in new[20:]]
        later.send("POST", "/api/v1/push", json.dumps({"items": late}).encode())
        gate.execute("SELECT pg_advisory_unlock(1)")
        assert [item["status"] for item in waiting.receive().json] == [*["queued"] * 20, "duplicate", *["queued"] * 42]
        assert [item["status"] for item in later.receive().json] == ["queued"] * 40
        assert [item["status"] for item in other.push_items(late)] == ["duplicate"] * 40
    assert stored(first.conninfo, queue)["p"] == [uuid.UUID(i).bytes for i in ids + new]
    second.stop()


def test_the_same_ids_from_everywhere(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Eight clients of two daemons push the same ids in other orders: each id is queued once, by whoever came first."""
    first = start_daemon()
    daemons = [first, start_daemon(first.conninfo)]
    ids = [str(uuid.uuid4()) for _ in range(1500)]
    queued: list[str] = []
    failures: list[BaseException] = []

    def producer(number: int) -> None:
        try:
            chance = random.Random(number)
            with daemons[number % 2].client() as client:
                left = chance.sample(ids, len(ids))
                while left:
                    size = chance.randint(1, 40)
                    some, left = left[:size], left[size:]
                    items = [{"queue": queue, "partition": "p" + i[0], "transactionId": i, "payload": 0} for i in some]
                    queued.extend(i for i, result in zip(some, client.push_items(items), strict=True)
                                  if result["status"] == "queued")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=producer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(queued) == sorted(ids)
    assert sorted(i for found in stored(first.conninfo, queue).values()
                  for i in found) == sorted(uuid.UUID(i).bytes for i in ids)
