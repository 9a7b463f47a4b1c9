"""Random transactions while backends are killed under them: each happens as a whole, or not at all, and exactly
once."""
from __future__ import annotations

import random
import threading
from collections import Counter

import psycopg
from support.client import Client, pop_target
from support.seeds import seed_of_run
from support.wait import PATIENCE, until

MESSAGES, WORKERS, PARTITIONS, KILLS = 240, 4, 6, 12
DEAD = "00000000-0000-0000-0000-000000000000"
REFUSED = ("duplicate key value", "ACK operation failed", "Invalid or expired lease")


class Mover(threading.Thread):
    """Takes messages and moves each, in one transaction, into two other queues under ids of its own making."""

    def __init__(self, address: tuple[str, int], queue: str, seed: int, done: threading.Event):
        super().__init__(daemon=True)
        self.address, self.queue, self.chance, self.done = address, queue, random.Random(seed), done
        self.unknown = self.refused = self.moved = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with Client(self.address) as client:
                while not self.done.is_set():
                    self.step(client)
        except BaseException as error:  # told to the test
            self.error = error

    def step(self, client: Client) -> None:
        answer = client.get(pop_target(self.queue, batch=self.chance.randint(1, 3), partitions=2,
                                       wait=True, timeout=200))
        if answer.status != 200:
            assert answer.status in (204, 503), answer.body
            return
        messages = answer.json["messages"]
        if not messages:
            return
        operations = []
        for message in messages:
            number = message["data"]
            operations.append({"type": "ack", "transactionId": message["transactionId"],
                               "partitionId": message["partitionId"]})
            for side in ("left", "right"):
                operations.append({"type": "push",
                                   "items": [{"queue": f"{self.queue}-{side}", "partition": f"p{number % 3}",
                                              "payload": number, "transactionId": f"{number}"}]})
        leases = [messages[0]["leaseId"]]
        if self.chance.random() < 0.3:      # one that must be refused, whole
            bad = self.chance.choice([{**operations[0], "transactionId": "none"},
                                      {**operations[0], "leaseId": DEAD}, None])
            poison = {"type": "push", "items": [{"queue": f"{self.queue}-poison", "payload": 1}]}
            self.ask(client, [poison, *operations, *([bad] if bad else [])], leases if bad else [DEAD], must_fail=True)
        while self.ask(client, operations, leases) is None:
            self.unknown += 1               # asked again: it is done now, or was, and is refused as a repeat

    def ask(self, client: Client, operations: list[dict], leases: list[str], must_fail: bool = False) -> bool | None:
        """Whether it took effect; None: not known."""
        answer = client.post("/api/v1/transaction", {"operations": operations, "requiredLeases": leases})
        if answer.status == 503:
            return None
        assert answer.status == 200, answer.body
        result = answer.json
        if result["success"]:
            assert not must_fail and len(result["results"]) == len(operations), result
            self.moved += 1
            return True
        assert result["error"].startswith(REFUSED), result
        self.refused += 1
        return False


def test_all_or_nothing(start_daemon, queue: str) -> None:
    seed = seed_of_run()
    daemon = start_daemon(QUEEND_PATIENCE_MS=2000)
    chance = random.Random(seed)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as admin:
        client.configure(queue, leaseTime=2)
        for first in range(0, MESSAGES, 40):
            client.push_items([{"queue": queue, "partition": f"p{n % PARTITIONS}", "payload": n}
                               for n in range(first, first + 40)])
        done = threading.Event()
        movers = [Mover(daemon.address, queue, seed + number, done) for number in range(WORKERS)]
        for mover in movers:
            mover.start()

        def count() -> int:
            return admin.execute("SELECT count(*) FROM queen.messages WHERE queue = %s",
                                 (f"{queue}-left",)).fetchone()[0]

        killed = 0

        def all_moved() -> bool:
            nonlocal killed
            assert not any(mover.error for mover in movers), (seed, count(), [mover.error for mover in movers])
            if killed < KILLS and chance.random() < 0.5:
                killed += admin.execute("SELECT count(pg_terminate_backend(a.pid)) FROM (SELECT pid"
                                        " FROM pg_stat_activity WHERE datname = current_database()"
                                        " AND pid <> pg_backend_pid()"
                                        " AND query LIKE '%queend.transaction(%'"
                                        " ORDER BY state = 'active' DESC, random() LIMIT 1) AS a").fetchone()[0]
            return count() == MESSAGES
        until(all_moved, f"all are moved, seed {seed}")
        done.set()
        for mover in movers:
            mover.join(PATIENCE)
        assert not any(mover.error for mover in movers), (seed, [mover.error for mover in movers])
        assert killed and sum(mover.refused for mover in movers)
        for side in ("left", "right"):
            rows = admin.execute("SELECT payload, transaction_id FROM queen.messages WHERE queue = %s",
                                 (f"{queue}-{side}",)).fetchall()
            assert Counter(payload for payload, _ in rows) == Counter(range(MESSAGES)), f"seed {seed}"
        assert client.show(f"{queue}-poison").status == 404
        until(lambda: client.pop(queue) == [], "nothing is left")
        left = admin.execute("SELECT sum(pending_estimate) FROM queen.partition_consumers WHERE queue = %s",
                             (queue,)).fetchone()[0]
        assert left == 0 and client.dead(queue) == 0, f"seed {seed}"
