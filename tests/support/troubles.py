"""What goes wrong in a random history, and right again: each `do_…` is one kind of it, as long as the dice say."""
from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from .actors import LEASE, NAMES, Stage
from .checker import Checker
from .daemon import Daemon
from .datagrams import Between
from .http import Gone
from .pair import MINE, Pair
from .postgres import Postgres
from .proxy import CUT, pass_on
from .wait import until

LANES = 64
LANE_CLASS = 1903519076     # sql/function/push.sql
# Nobody need be quick during these, but what they are about goes on meanwhile.
HARMLESS = ("clock", "quiet", "silence", "packets", "reload")


class Troubles:
    """Of a round that has these."""

    dice: random.Random
    pair: Pair
    stage: Stage
    checker: Checker
    clocks: list[Path]
    between: list[Between]      # before each daemon's ear
    groups: list[str]
    longest: float
    happened: list[tuple[str, float, float]]
    start: Callable[[int], Daemon]

    def trouble(self, kind: str, end: float) -> None:
        """end: no trouble lasts longer."""
        left = min(end - time.monotonic(), self.longest)
        begin = time.monotonic()
        getattr(self, "do_" + kind.replace(" ", "_"))(max(0.5, left))
        self.happened.append((kind, round(begin, 1), round(time.monotonic(), 1)))
        if kind not in HARMLESS:
            self.checker.trouble(begin, time.monotonic())

    def wait(self, least: float, most: float, left: float) -> None:
        """Time is what this is about: deadlines pass, or do not."""
        time.sleep(min(self.dice.uniform(least, most), left))

    def do_quiet(self, left: float) -> None:
        self.wait(1.0, 14.0, left)

    def do_silence(self, left: float) -> None:
        """Nobody asks for anything, and what is stored meanwhile is there when they do again."""
        self.stage.silence.set()
        try:
            self.wait(3.0, 10.0, left)
        finally:
            self.stage.silence.clear()
        self.wait(4.0, 4.0, left)

    def do_freeze(self, left: float) -> None:
        """Backends stand still, for longer than every deadline, and go on."""
        pids = [pid for pid, in self.pair.primary.execute(f"SELECT pid FROM pg_stat_activity WHERE {MINE}"
                                                          " AND application_name LIKE 'queend%'")]
        pids = self.dice.choice([pids, self.dice.sample(pids, len(pids) // 2)])
        with standing(pids):
            self.wait(3.5, 8.0, left)

    def do_slow_commits(self, left: float) -> None:
        """A commit returns when a standby has it that is not there: 1 to 15 s later."""
        self.set_standbys("nobody")
        try:
            self.wait(1.0, 15.0, left)
        finally:
            self.set_standbys("")

    def set_standbys(self, names: str) -> None:
        with psycopg.connect(self.pair.primary.dsn(), autocommit=True) as session:
            session.execute("SET synchronous_commit = local")
            session.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            session.execute("SELECT pg_reload_conf()")

    def do_cut(self, left: float) -> None:
        """Connections end when the server has answered and before anybody hears it."""
        share = self.dice.choice([0.02, 0.2, 1.0])
        self.pair.front.rule = lambda to_server, data: [CUT] if not to_server and self.dice.random() < share else [data]
        try:
            self.wait(0.3, 3.0, left)
        finally:
            self.pair.front.rule = pass_on

    def do_fail_over(self, left: float) -> None:
        begin = time.monotonic()
        gone = self.pair.fail_over(stored)
        self.stage.tell("gone", len(gone))
        self.checker.replaced(begin, time.monotonic(), gone)

    def do_kill_a_daemon(self, left: float) -> None:
        place = self.dice.randrange(len(self.stage.daemons))
        self.stage.daemons[place].kill()
        self.wait(0.0, 2.0, left)
        self.stage.daemons[place] = self.start(place)

    def do_restart_the_database(self, left: float) -> None:
        with self.pair.primary.away():
            self.wait(0.0, 3.0, left)

    def do_kill_a_backend(self, left: float) -> None:
        """The server ends all its sessions then, and recovers."""
        rows = self.pair.primary.execute(f"SELECT pid FROM pg_stat_activity WHERE {MINE}"
                                         " ORDER BY state = 'active' DESC, random() LIMIT 1")
        for pid, in rows:
            send(pid, signal.SIGKILL)
        until(self.serves, "the server has recovered")

    def do_clock(self, left: float) -> None:
        self.dice.choice(self.clocks).write_text(self.dice.choice(["+3600\n", "-3600\n", "+0\n", "+5\n"]))

    def serves(self) -> bool:
        try:
            return bool(self.pair.primary.execute("SELECT true"))
        except psycopg.OperationalError:
            return False

    def do_stop_a_daemon(self, left: float) -> None:
        """It stands still, past its own deadlines and its leases, and goes on as if nothing had been."""
        pid = self.dice.choice(self.stage.daemons).pid
        with standing([pid]):
            self.wait(1.0, 12.0, left)

    def do_freeze_the_server(self, left: float) -> None:
        """Every process of it."""
        with self.pair.primary.frozen():
            self.wait(1.0, 8.0, left)

    def do_end_sessions(self, left: float) -> None:
        """Again and again, some of them."""
        for _ in range(self.dice.randint(1, 5)):
            self.pair.primary.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {MINE}"
                                      f" AND random() < {self.dice.choice([0.2, 0.5, 1.0])}")
            self.wait(0.0, 1.0, left)

    def do_hold_locks(self, left: float) -> None:
        """A session of somebody else's holds lanes, or cursors."""
        with psycopg.connect(self.pair.primary.dsn(dbname="history")) as session:
            if self.dice.random() < 0.5:
                for lane in sorted(self.dice.sample(range(LANES), self.dice.choice([8, 32, LANES]))):
                    session.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LANE_CLASS, lane))
            else:
                session.execute("SELECT FROM queend.cursors WHERE partition_id %% 3 <> %s ORDER BY partition_id,"
                                " group_id FOR UPDATE", (self.dice.randrange(4),))
            self.wait(0.5, 8.0, left)

    def do_slow_network(self, left: float) -> None:
        """Each piece between daemons and server takes its time."""
        late = self.dice.choice([0.005, 0.05, 0.4])
        self.pair.front.rule = lambda to_server, data: [lambda: time.sleep(self.dice.uniform(0.0, late)), data]
        try:
            self.wait(0.5, 6.0, left)
        finally:
            self.pair.front.rule = pass_on

    def do_packets(self, left: float) -> None:
        """What the daemons tell each other is lost, doubled, late, in disorder, or somebody else's."""
        old: list[bytes] = []

        def rule(packet: bytes) -> list[bytes]:
            old.append(packet)
            del old[:-100]
            forged = bytearray(packet)
            forged[self.dice.randrange(len(forged))] ^= 1 << self.dice.randrange(8)
            return self.dice.choice([[], [packet], [packet, packet], [self.dice.choice(old)], [bytes(forged)],
                                     [bytes(forged), packet], [packet[:self.dice.randrange(len(packet))]],
                                     [*reversed(old[-3:])]])

        for one in self.between:
            one.rule = rule
        try:
            self.wait(1.0, 8.0, left)
        finally:
            for one in self.between:
                one.passes()

    def do_reload(self, left: float) -> None:
        for _ in range(self.dice.randint(1, 5)):
            self.dice.choice(self.stage.daemons).process.send_signal(signal.SIGHUP)
            self.wait(0.0, 0.3, left)

    def do_pause(self, left: float) -> None:
        """Of the queue, or of a group: nothing comes from its answer on."""
        group = self.dice.choice([None, *self.groups])
        path = (f"/api/v1/queues/{self.stage.queue}" if group is None
                else f"/api/v1/consumer-groups/{group}/queues/{self.stage.queue}")
        self.ask_for_sure(f"{path}/pause", {}, known=False)
        begin = time.monotonic()
        self.wait(0.5, 6.0, left)
        end = time.monotonic()
        self.ask_for_sure(f"{path}/resume", {})
        for one in self.groups if group is None else [group]:
            self.checker.paused(one, begin, end)

    def do_seek(self, left: float) -> None:
        """A group goes back some way in some partitions."""
        group = self.dice.choice(self.groups)
        with psycopg.connect(self.pair.primary.dsn(dbname="history")) as session:
            places = session.execute(
                "SELECT p.name, c.committed FROM queend.cursors c JOIN queend.partitions p ON p.id = c.partition_id"
                " JOIN queend.consumer_groups g ON g.id = c.group_id WHERE g.name = %s ORDER BY 1", (group,)).fetchall()
        for partition, at in self.dice.sample(places, min(3, len(places))):
            to, asked = max(0, at - self.dice.randint(0, 60)), time.monotonic()
            answer = self.ask_for_sure(f"/api/v1/consumer-groups/{group}/queues/{self.stage.queue}/partitions/"
                                       f"{partition}/seek", {"offset": to})
            if answer["updated"]:
                self.checker.sought(group, asked, time.monotonic(), {partition: to})

    def do_rates(self, left: float) -> None:
        """Deliveries are bounded for a while."""
        rate = self.dice.choice(["rateLimit", "groupRateLimit", "queueRateLimit"])
        self.configure(**{rate: self.dice.choice([5, 50, 1000])})
        self.wait(1.0, 6.0, left)
        self.configure(**{rate: 0})

    def configure(self, **options: int) -> None:
        self.ask_for_sure("/api/v1/configure", {"queue": self.stage.queue, **NAMES, "options": {
            "leaseTime": LEASE, "retryLimit": 1000, **options}})

    def ask_for_sure(self, path: str, body: dict, known: bool = True) -> dict:
        """Of any daemon, until it is done. known: a group that is not there is a fault; else it is one whose consumers
        have not been served yet."""
        def ask() -> dict | None:
            try:
                with self.dice.choice(self.stage.daemons).client(20) as client:
                    answer = client.post(path, body)
            except (OSError, Gone, AssertionError):
                return None
            if not known and answer.status == 404 and answer.json["code"] == "group_not_found":
                return None
            assert answer.status in (200, 503), (path, answer.status, answer.body)
            return answer.json if answer.status == 200 else None
        return until(ask, path, 60)


@contextmanager
def standing(pids: list[int]) -> Iterator[None]:
    """They stand still meanwhile."""
    for pid in pids:
        send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            send(pid, signal.SIGCONT)


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def stored(server: Postgres) -> set[str]:
    """Payloads of all messages that a server has."""
    with psycopg.connect(server.dsn(dbname="history")) as session:
        return {key for key, in session.execute("SELECT payload #>> '{}' FROM queen.messages UNION ALL"
                                                " SELECT payload #>> '{}' FROM queend.outbox")}
