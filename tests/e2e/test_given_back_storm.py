"""Queues, groups and partitions are deleted while everything else goes on, and the server changes in the middle:
nothing that was given back is used (what AddressSanitizer would tell), and in the end all of it is given back."""
from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from support.client import Client, ack_of, pop_target
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import Answer, Gone
from support.postgres import Postgres, running
from support.remembered import NOTHING, remembered
from support.sanitizer import PRELOAD
from support.seeds import seed_of_run
from support.wait import until

SECONDS = float(os.environ.get("STORM_SECONDS", "8" if PRELOAD else "4"))      # all processors are busy meanwhile
OFTEN = {"RETENTION_INTERVAL": 100, "EVICTION_INTERVAL": 100, "PARTITION_CLEANUP_DAYS": 1, "NUM_WORKERS": 3}


@pytest.fixture(scope="module")
def server(request) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), synchronous_commit="off") as own:
        yield own


class Chaos:
    """Clients that do everything to queues that are deleted under their hands. Any answer is fine that says what it is;
    a daemon that uses what it gave back is not."""

    QUEUES = 4
    PARTITIONS = 12
    GROUPS = 3

    def __init__(self, daemon: Daemon, seed: int):
        self.daemon, self.seed = daemon, seed
        self.over = threading.Event()
        self.answers: dict[int, int] = {}

    def queue(self, chance: random.Random) -> str:
        return f"space.q{chance.randrange(self.QUEUES)}"

    def ask(self, client: Client, method: str, target: str, body: object = None) -> Answer:
        try:
            answer = client.request(method, target, body)
        except Gone as error:
            raise AssertionError(f"{error}: {self.daemon.story()}") from error
        self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
        assert answer.status in (200, 201, 204, 404, 409, 503), (method, target, answer.status, answer.body)
        return answer

    def items(self, chance: random.Random) -> list[dict]:
        return [{"queue": self.queue(chance), "partition": f"p{chance.randrange(self.PARTITIONS)}",
                 "payload": "x" * chance.choice([3, 300, 3000]),
                 **({"transactionId": f"{chance.randrange(1000)}"} if chance.random() < 0.3 else {})}
                for _ in range(chance.choice([1, 2, 40]))]

    def pop(self, chance: random.Random, wait: bool) -> str:
        query = {"consumerGroup": f"g{chance.randrange(self.GROUPS)}", "batch": chance.choice([1, 5, 100]),
                 "partitions": chance.choice([1, 4, 20]),
                 "autoAck": chance.random() < 0.4,
                 **({"wait": True, "timeout": chance.choice([50, 400, 1500])} if wait else {})}
        place = chance.random()
        if place < 0.1:
            return pop_target(None, namespace="space", **query)
        return pop_target(self.queue(chance), f"p{chance.randrange(self.PARTITIONS)}" if place > 0.8 else None, **query)

    def client(self, number: int) -> None:
        chance = random.Random(self.seed * 1000 + number)
        with self.daemon.client() as own:
            while not self.over.is_set():
                what = chance.random()
                if what < 0.4:
                    self.ask(own, "POST", "/api/v1/push", {"items": self.items(chance)})
                    continue
                got = self.ask(own, "GET", self.pop(chance, what < 0.7))
                messages = got.json["messages"] if got.status == 200 else []
                if not messages or chance.random() < 0.2:
                    continue
                group = {"consumerGroup": messages[0]["consumerGroup"]}
                if chance.random() < 0.7:
                    status = chance.choice(["completed", "completed", "completed", "failed", "dlq"])
                    self.ask(own, "POST", "/api/v1/ack/batch",
                             {"acknowledgments": [ack_of(m, status) for m in messages], **group})
                else:
                    operations = [{"type": "ack", **ack_of(messages[0]), **group},
                                  {"type": "push", "items": self.items(chance)[:2]}]
                    self.ask(own, "POST", "/api/v1/transaction", {"operations": operations})

    def leaver(self, number: int) -> None:
        """Vanishes while it waits, or while its answer is on its way."""
        chance = random.Random(self.seed * 1000 + 500 + number)
        while not self.over.is_set():
            with self.daemon.client() as own:
                own.send("GET", self.pop(chance, True))
                if chance.random() < 0.5:
                    self.over.wait(chance.random() * 0.05)

    def reaper(self, number: int, every: float, work: Callable[[Client, random.Random], None]) -> None:
        chance = random.Random(self.seed * 1000 + 900 + number)
        with self.daemon.client() as own:
            while not self.over.wait(chance.random() * every):
                work(own, chance)

    def delete(self, client: Client, chance: random.Random) -> None:
        self.ask(client, "DELETE", f"/api/v1/resources/queues/{self.queue(chance)}")

    def delete_group(self, client: Client, chance: random.Random) -> None:
        self.ask(client, "DELETE",
                 f"/api/v1/consumer-groups/g{chance.randrange(self.GROUPS)}/queues/{self.queue(chance)}")

    def look(self, client: Client, chance: random.Random) -> None:
        for target in ("/metrics/prometheus", "/api/v1/status", f"/api/v1/resources/queues/{self.queue(chance)}"):
            self.ask(client, "GET", target)

    def clean(self, conninfo: str) -> None:
        """Partitions go as in maintenance, whatever is in them."""
        chance = random.Random(self.seed)
        while not self.over.wait(chance.random() * 0.3):
            try:
                with psycopg.connect(conninfo, autocommit=True) as db:
                    some = [f"p{n}" for n in range(self.PARTITIONS) if chance.random() < 0.5]
                    db.execute("UPDATE queend.log SET created_at = created_at - 3600000000 WHERE partition_id IN"
                               " (SELECT id FROM queend.partitions WHERE name = ANY (%s))", [some])
                    db.execute("UPDATE queend.cursors SET consumed_at = 0 WHERE partition_id IN (SELECT id"
                               " FROM queend.partitions WHERE name = ANY (%s))", [some])
                    db.execute("UPDATE queend.partitions SET created_at = created_at - interval '3 days'"
                               " WHERE name = ANY (%s)", [some])
            except psycopg.Error:
                continue      # the server changes

    def run(self, seconds: float, during: Callable[[], None]) -> None:
        with Crowd() as crowd:
            crowd.all(self.client, range(10))
            crowd.all(self.leaver, range(3))
            for number, (every, work) in enumerate([(0.3, self.delete), (0.4, self.delete_group), (0.5, self.look)]):
                crowd.go(self.reaper, number, every, work)
            crowd.go(self.clean, self.daemon.conninfo)
            try:
                if during is not None:
                    self.over.wait(seconds / 2)
                    during()
                self.over.wait(seconds / 2)
            finally:
                self.over.set()
        assert self.daemon.process.poll() is None, self.daemon.story()



def settled(client: Client) -> None:
    """Everything is deleted, and given back."""
    def deleted() -> bool:
        for number in range(Chaos.QUEUES):
            client.request("DELETE", f"/api/v1/resources/queues/space.q{number}")
        return remembered(client) == NOTHING
    until(deleted, "all is given back")


@pytest.mark.parametrize("streams", [1, 6])
def test_deletions_in_a_storm(start_daemon, streams: int) -> None:
    seed = seed_of_run()
    daemon = start_daemon(QUEEND_PUSH_STREAMS=streams, **OFTEN)
    chaos = Chaos(daemon, seed)
    chaos.run(SECONDS, None)
    with daemon.client() as client:
        settled(client)
    assert chaos.answers[201] and chaos.answers[200], chaos.answers
    daemon.stop()


def test_deletions_while_the_server_changes(server) -> None:
    seed = seed_of_run()
    with Daemon(server.database(), QUEEND_SLOTS=4, **OFTEN) as daemon:
        chaos = Chaos(daemon, seed)
        chaos.run(SECONDS, server.restart)
        with daemon.client() as client:
            until(lambda: client.get("/readyz").status == 200, "the daemon is ready")
            settled(client)
        assert daemon.told("server_changed") and chaos.answers[201] and chaos.answers[200], chaos.answers
        daemon.stop()
