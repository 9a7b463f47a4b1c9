"""Random histories of two daemons, producers over HTTP and SQL, and consumers, while everything goes wrong that can;
one checker judges them.

A round has its own servers, daemons and seed, which is printed. `make test-faults` plays rounds for minutes
(FAULT_SECONDS); FAULT_SEED begins with a seed that was printed, FAULT_KINDS names what goes wrong (KINDS). The choices
come from the seed; how processes meet does not, so the same seed may need several runs.
"""
from __future__ import annotations

import os
import random
import re
import signal
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import psycopg
import pytest
from support.actors import LEASE, Consumer, Producer, Program, Stage
from support.checker import Checker, Fault
from support.clock import clock_of
from support.crowd import Crowd
from support.daemon import Daemon
from support.pair import MINE, Pair
from support.postgres import Postgres
from support.proxy import CUT, pass_on
from support.wait import until

from queend.service.migrate import migrate

SECONDS = float(os.environ.get("FAULT_SECONDS", "12")) * 3 / 4  # test_buffer.py takes the rest
ROUND = min(SECONDS, 60.0)
DAEMONS, GROUPS = 2, {"first": [0], "second": [1], "both": [0, 1]}
# After trouble: connections that are made anew, a daemon that comes up, a relay that takes over; then two seconds count
# again.
RECOVERY = 8.0
QUEUE = "history"
LONGEST = SECONDS / 4  # of one trouble
KINDS = ["freeze", "slow commits", "cut", "fail over", "kill a daemon", "restart the database", "kill a backend",
         "clock", "silence", "quiet", "quiet"]
KINDS = [kind for kind in KINDS if kind in os.environ.get("FAULT_KINDS", ",".join(KINDS)).split(",")]


class Round:
    def __init__(self, folder: Path, seed: str, major: int | None):
        self.folder, self.dice, self.happened = folder, random.Random(seed), []
        self.pair = Pair(folder, major)
        self.pair.primary.execute("CREATE DATABASE history")
        self.dsn = self.pair.dsn("history")
        migrate(self.dsn)
        self.checker = Checker(GROUPS, within=2.0, recovery=RECOVERY)
        self.clocks = [folder / f"clock-{place}" for place in range(DAEMONS)]
        for clock in self.clocks:
            clock.write_text("+0\n")
        self.stage = Stage(QUEUE, seed, self.checker, [], self.dsn)
        self.stage.daemons += [self.start(place) for place in range(DAEMONS)]
        with self.stage.daemons[0].client() as client:
            client.configure(QUEUE, leaseTime=LEASE, retryLimit=1000)

    def start(self, place: int, port: int = 0) -> Daemon:
        return Daemon(self.dsn, PORT=port, QUEEND_BUFFER_BYTES=256 << 20,
                      FILE_BUFFER_DIR=self.folder / f"buffer-{place}", DB_STATEMENT_TIMEOUT=2500,
                      LIBQUEEN_INFLIGHT_DEADLINE_MS=3000, DB_CONNECTION_TIMEOUT=1000, QUEEND_SLOTS=4,
                      QUEEND_COMPRESS_FROM=0, **clock_of(self.clocks[place]))

    # -- what goes wrong, and right again ------------------------------------------------------------------------------

    def trouble(self, kind: str, end: float) -> None:
        """end: no trouble lasts longer."""
        left = min(end - time.monotonic(), LONGEST)
        begin = time.monotonic()
        getattr(self, "do_" + kind.replace(" ", "_"))(max(0.5, left))
        self.happened.append((kind, round(begin, 1), round(time.monotonic(), 1)))
        if kind not in ("clock", "quiet", "silence"):
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
        for pid in pids:
            send(pid, signal.SIGSTOP)
        try:
            self.wait(3.5, 8.0, left)
        finally:
            for pid in pids:
                send(pid, signal.SIGCONT)

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
        place = self.dice.randrange(DAEMONS)
        self.stage.daemons[place].kill()
        self.wait(0.0, 2.0, left)
        self.stage.daemons[place] = self.start(place, self.stage.daemons[place].port)

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

    def evidence(self, faults: list[Fault]) -> str:
        """The first fault of each kind, group and partition, and what the database and the daemons have to say."""
        first: dict[str, list[Fault]] = defaultdict(list)
        for fault in faults:
            first[re.sub(r"told at \S+|at \d+\.\d+|:\d+", "", fault.story)].append(fault)
        lines = [f"{len(alike)} times {alike[0]}\n    {self.checker.story(alike[0].key)}"
                 for alike in list(first.values())[:20]]
        lines += [f"last pops of {group}: {[(p.daemon, round(p.ended, 1), len(p.messages)) for p in pops[-5:]]};"
                  f" without an answer: {self.checker.blind[group][-5:]}" for group, pops in self.checker.pops.items()]
        with psycopg.connect(self.pair.primary.dsn(dbname="history")) as session:
            for what in ("cursors", "partitions", "consumer_groups", "standing"):
                lines += [what, *(f"    {row}" for row, in session.execute(f"SELECT x::text FROM queend.{what} x"))]
            lines += ["sessions", *map(str, session.execute(
                "SELECT pid, state, wait_event, now() - xact_start, left(query, 80) FROM pg_stat_activity"
                f" WHERE {MINE} AND state <> 'idle'"))]
        return "\n".join(lines + [daemon.story() for daemon in self.stage.daemons])

    # -- its course ----------------------------------------------------------------------------------------------------

    def play(self, seconds: float) -> None:
        end, kinds = time.monotonic() + seconds, []
        actors = [Producer(self.stage, "here", True, [0]), Producer(self.stage, "there", True, [1]),
                  Producer(self.stage, "roaming", True, [0, 1]), Producer(self.stage, "nameless", False, [0, 1]),
                  Program(self.stage, "outbox", True, 15.0), Program(self.stage, "log", False, 15.0)]
        actors += [Consumer(self.stage, f"{group}.{n}", group, places)
                   for group, places in GROUPS.items() for n in range(2)]
        crowd = Crowd()
        crowd.all(lambda actor: actor.run(), actors)
        try:
            while time.monotonic() < end and not crowd.failures:
                # each of them once, in some order, then again
                kinds = kinds or self.dice.sample(KINDS, len(KINDS))
                self.trouble(kinds.pop(), end)
                self.wait(0.0, 2.0, max(0.0, end - time.monotonic()))
            self.stage.quiet.set()
            begin, patience = time.monotonic(), 60.0
            while self.checker.missing() and time.monotonic() < begin + patience and not crowd.failures:
                self.stage.over.wait(0.1)
        finally:
            self.stage.quiet.set()
            self.stage.over.set()
        crowd.join()

    def stop(self) -> None:
        for daemon in self.stage.daemons:
            daemon.stop()

    def end(self) -> None:
        for daemon in self.stage.daemons:
            if daemon.process.poll() is None:
                daemon.kill()
        self.pair.stop()


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


def play(seed: str, seconds: float, major: int | None) -> Counter[str]:
    # Not below pytest's own folder: the servers' account walks the path.
    with tempfile.TemporaryDirectory(prefix="queend-faults-") as name:
        os.chmod(name, 0o755)
        one = Round(Path(name), seed, major)
        try:
            one.play(seconds)
            faults = one.checker.faults(drained=True)
            print(f"\nFAULT_SEED={seed}: {dict(Counter(kind for kind, _, _ in one.happened))}; {one.stage.told};"
                  f" {dict(Counter(fault.kind for fault in faults))}", flush=True)
            assert not faults, f"FAULT_SEED={seed} {one.happened}: {len(faults)} faults\n{one.evidence(faults)}"
            one.stop()
        finally:
            one.end()
    return Counter(kind for kind, _, _ in one.happened)


def test_a_queue_stays_a_queue(request: pytest.FixtureRequest) -> None:
    """In the ordinary run one round of a few seconds, else rounds of a minute."""
    end, seeds, happened = time.monotonic() + SECONDS, random.Random(), Counter()
    seed = os.environ.get("FAULT_SEED") or str(seeds.randrange(10**9))
    while True:
        happened += play(seed, ROUND, request.config.getoption("--postgres"))
        if time.monotonic() + ROUND > end:
            break
        seed = str(seeds.randrange(10**9))
    print(happened)
