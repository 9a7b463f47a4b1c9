"""Random histories of two daemons, producers over HTTP and SQL, and consumers, while everything goes wrong that can;
one checker judges them.

A round has its own servers, daemons and seed, which is printed. `make test-faults` plays rounds for minutes
(FAULT_SECONDS); FAULT_SEED begins with a seed that was printed, FAULT_KINDS names what goes wrong (KINDS). The choices
come from the seed; how processes meet does not, so the same seed may need several runs.

Consumers ask in several ways (WAITERS). Mixed, one hides what another misses, so rounds with all of them take turns
with rounds of one kind alone. FAULT_WAITERS names kinds, with commas: only rounds of these are played.
"""
from __future__ import annotations

import itertools
import os
import random
import re
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import psycopg
import pytest
from support.actors import STREAMED, WAITERS, Consumer, Listener, Producer, Program, Stage
from support.checker import Checker, Fault
from support.clock import clock_of
from support.crowd import Crowd
from support.daemon import Daemon
from support.datagrams import Between
from support.pair import MINE, Pair
from support.ports import free_port
from support.troubles import Troubles

from queend.postgres.migrate import migrate

SECONDS = float(os.environ.get("FAULT_SECONDS", "12")) * 3 / 4  # test_buffer.py takes the rest
ROUND = min(SECONDS, 60.0)
# Groups, and at which daemons they ask: by pops; by streams.
DAEMONS, GROUPS, STREAMS = 2, {"first": [0], "second": [1], "both": [0, 1]}, {"both": [0, 1], "live": [0, 1]}
ALONE = [kind for kind in WAITERS if kind in os.environ.get("FAULT_WAITERS", ",".join(WAITERS)).split(",")]
MIXED = "FAULT_WAITERS" not in os.environ
# After trouble: connections that are made anew, a daemon that comes up, a relay that takes over; then two seconds count
# again.
RECOVERY = 8.0
QUEUE = "history"
SECRET = "0123456789abcdef" * 4
LONGEST = SECONDS / 4  # of one trouble
KINDS = ["freeze", "slow commits", "cut", "fail over", "kill a daemon", "restart the database", "kill a backend",
         "clock", "silence", "stop a daemon", "freeze the server", "end sessions", "hold locks", "slow network",
         "packets", "reload", "pause", "seek", "rates", "quiet", "quiet"]
KINDS = [kind for kind in KINDS if kind in os.environ.get("FAULT_KINDS", ",".join(KINDS)).split(",")]


class Round(Troubles):
    longest = LONGEST

    def __init__(self, folder: Path, seed: str, major: int | None, waiter: str | None):
        # waiter: the only kind of consumers; None: all of them
        self.folder, self.dice, self.happened = folder, random.Random(seed), []
        self.waiter = waiter
        self.groups = [*GROUPS] if waiter else [*{**GROUPS, **STREAMS}, *WAITERS]
        self.pair = Pair(folder, major)
        self.pair.primary.execute("CREATE DATABASE history")
        self.dsn = self.pair.dsn("history")
        migrate(self.dsn)
        self.checker = Checker(self.groups, within=2.0, recovery=RECOVERY)
        self.clocks = [folder / f"clock-{place}" for place in range(DAEMONS)]
        for clock in self.clocks:
            clock.write_text("+0\n")
        self.ports, self.ears = ([free_port() for _ in range(DAEMONS)] for _ in range(2))
        self.between = [Between(ear) for ear in self.ears]
        self.stage = Stage(QUEUE, seed, self.checker, [], self.dsn)
        self.stage.daemons += [self.start(place) for place in range(DAEMONS)]
        self.configure()

    def start(self, place: int) -> Daemon:
        return Daemon(self.dsn, PORT=self.ports[place], QUEEND_BUFFER_BYTES=256 << 20,
                      FILE_BUFFER_DIR=self.folder / f"buffer-{place}", DB_STATEMENT_TIMEOUT=2500,
                      LIBQUEEN_INFLIGHT_DEADLINE_MS=3000, DB_CONNECTION_TIMEOUT=1000, QUEEND_SLOTS=4,
                      QUEEND_COMPRESS_FROM=0, QUEEN_UDP_NOTIFY_PORT=self.ears[place],
                      QUEEN_UDP_PEERS=",".join(f"127.0.0.1:{self.between[other].port}" for other in range(DAEMONS)
                                               if other != place),
                      QUEEN_SYNC_SECRET=SECRET, **clock_of(self.clocks[place]))

    def evidence(self, faults: list[Fault]) -> str:
        """The first fault of each kind, group and partition, and what the database and the daemons have to say."""
        first: dict[str, list[Fault]] = defaultdict(list)
        for fault in faults:
            first[re.sub(r"told at \S+|at \d+\.\d+|:\d+", "", fault.story)].append(fault)
        lines = [f"{len(alike)} times {alike[0]}\n    {self.checker.story(alike[0].key)}"
                 for alike in list(first.values())[:20]]
        lines += [f"last pops of {group}: {[(p.daemon, round(p.ended, 1), len(p.messages)) for p in pops[-5:]]};"
                  f" without an answer: {self.checker.blind[group][-5:]}" for group, pops in self.checker.pops.items()]
        lines += [line for key in [fault.key for fault in faults if isinstance(fault.key, str)][:1]
                  for line in self.checker.around(key)]
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
        if self.waiter:
            # one stream alone: what another one has claimed would excuse it
            actors += [self.consumer(f"{group}.{n}", group, places, self.waiter) for group, places in GROUPS.items()
                       for n in range(1 if self.waiter in STREAMED else 2)]
        else:
            actors += [Consumer(self.stage, f"{group}.{n}", group, places)
                       for group, places in GROUPS.items() for n in range(2)]
            actors += [Listener(self.stage, f"{group}.stream.{n}", group, places)
                       for group, places in STREAMS.items() for n in range(2)]
            actors += [self.consumer(kind, kind, [*range(DAEMONS)], kind) for kind in WAITERS]
        crowd = Crowd()
        crowd.all(lambda actor: actor.run(), actors)
        try:
            while time.monotonic() < end and not crowd.failures:
                # each of them once, in some order, then again
                kinds = kinds or self.dice.sample(KINDS, len(KINDS))
                self.trouble(kinds.pop(), end)
                self.wait(0.0, 2.0, max(0.0, end - time.monotonic()))
            self.stage.quiet.set()
            self.stage.drain(crowd)
        finally:
            self.stage.quiet.set()
            self.stage.over.set()
        crowd.join()

    def consumer(self, name: str, group: str, places: list[int], kind: str) -> Consumer:
        of = Listener if kind in STREAMED else Consumer
        return of(self.stage, name, group, places, kind)

    def stop(self) -> None:
        for daemon in self.stage.daemons:
            daemon.stop()

    def end(self) -> None:
        for daemon in self.stage.daemons:
            if daemon.process.poll() is None:
                daemon.kill()
        for one in self.between:
            one.close()
        self.pair.stop()


def play(seed: str, seconds: float, major: int | None, waiter: str | None) -> Counter[str]:
    # Not below pytest's own folder: the servers' account walks the path.
    with tempfile.TemporaryDirectory(prefix="queend-faults-") as name:
        os.chmod(name, 0o755)
        one = Round(Path(name), seed, major, waiter)
        try:
            one.play(seconds)
            faults = one.checker.faults(drained=True)
            name = f"FAULT_SEED={seed} {waiter or 'all'}"
            print(f"\n{name}: {dict(Counter(kind for kind, _, _ in one.happened))}; {one.stage.told};"
                  f" {dict(Counter(fault.kind for fault in faults))}", flush=True)
            assert not faults, f"{name} {one.happened}: {len(faults)} faults\n{one.evidence(faults)}"
            one.stop()
        finally:
            one.end()
    return Counter(kind for kind, _, _ in one.happened)


def test_a_queue_stays_a_queue(request: pytest.FixtureRequest) -> None:
    """In the ordinary run one round of a few seconds, else rounds of a minute."""
    end, seeds, happened = time.monotonic() + SECONDS, random.Random(), Counter()
    seed = os.environ.get("FAULT_SEED", "1")
    for waiter in itertools.cycle([*([None] if MIXED else []), *ALONE]):
        happened += play(seed, ROUND, request.config.getoption("--postgres"), waiter)
        if time.monotonic() + ROUND > end:
            break
        seed = str(seeds.randrange(10**9))
    print(happened)
