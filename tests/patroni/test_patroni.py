"""Two daemons on three servers that Patroni keeps, in random trouble under load; one checker judges the history.

`make test-patroni`: TROUBLES is how many (30), PATRONI_SEED begins with a seed that was printed, PATRONI_KINDS names
kinds. Beside the actors of all histories a probe of each daemon pushes one message after another: how long each push
takes to be answered, and how long it is until one is stored again, is printed for each kind of trouble.
"""
from __future__ import annotations

import os
import random
import signal
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psycopg
import pytest
from support.actors import STREAMED, WAITERS, Actor, Consumer, Listener, Producer, Program, Stage
from support.checker import Checker
from support.crowd import Crowd
from support.daemon import Daemon
from support.guides import blocks, settings_in
from support.patroni import Patroni, send

from queend.postgres.migrate import migrate

TROUBLES = int(os.environ.get("TROUBLES", "30"))
KINDS = ["switch over", "kill the primary", "freeze the primary", "kill PostgreSQL of the primary", "lose etcd",
         "freeze a standby", "kill a standby", "kill a daemon", "freeze a daemon", "primary and daemon"]
KINDS = [kind for kind in KINDS if kind in os.environ.get("PATRONI_KINDS", ",".join(KINDS)).split(",")]
DAEMONS, QUEUE = 2, "history"
GROUPS = {"first": [0], "second": [1], "both": [0, 1]}
# A takeover takes Patroni 15 to 30 s; then connections are made anew and groups looked up.
RECOVERY = 20.0


class Probe(Actor):
    """Pushes to one daemon, one after another, and knows when each was asked, how long it took and what it was told."""

    def __init__(self, stage: Stage, place: int):
        super().__init__(stage, f"probe-{place}")
        self.place, self.told = place, []

    def run(self) -> None:
        while not self.stage.quiet.is_set():
            key = self.key(self.name)
            item = {"queue": QUEUE, "partition": self.name, "payload": key, "transactionId": key}
            status = None
            while status is None and not self.stage.over.is_set():
                asked = time.monotonic()
                answer = self.ask(self.place, "POST", "/api/v1/push", {"items": [item]})
                now = time.monotonic()
                status = answer.json[0]["status"] if answer is not None and answer.status == 201 else None
                self.told.append((asked, now, status or (answer.status if answer else "cut")))
            if status:
                self.checker.push_answered(key, status, now)
            self.stage.quiet.wait(0.05)


class History:
    def __init__(self, folder: Path, seed: str, packages: Path):
        self.folder, self.dice, self.happened = folder, random.Random(seed), []
        self.frozen: list[tuple[int, float, float]] = []      # daemons that were frozen: place, from, to
        self.cluster = Patroni(folder, packages)
        self.page = settings_in(blocks("high-availability.md", "sh")[0])
        with psycopg.connect(self.cluster.dsn() + " target_session_attrs=read-write", autocommit=True) as session:
            session.execute("CREATE DATABASE history")
        self.dsn = self.cluster.dsn("history") + " target_session_attrs=read-write"
        migrate(self.dsn)
        waiters = [kind for kind in WAITERS if kind not in STREAMED]
        self.checker = Checker([*GROUPS, "live", *waiters], within=2.0, recovery=RECOVERY)
        self.stage = Stage(QUEUE, seed, self.checker, [], self.dsn)
        self.stage.daemons += [self.start(place) for place in range(DAEMONS)]
        with self.stage.daemons[0].client() as client:
            client.configure(QUEUE, leaseTime=5, retryLimit=1000, namespace="histories", task="history")
        self.probes = [Probe(self.stage, place) for place in range(DAEMONS)]
        both = [*range(DAEMONS)]
        self.actors = [
            *self.probes, Producer(self.stage, "here", True, [0]), Producer(self.stage, "there", True, [1]),
            Producer(self.stage, "roaming", True, both), Producer(self.stage, "nameless", False, both),
            Program(self.stage, "outbox", True, 5.0), Program(self.stage, "log", False, 5.0),
            *(Consumer(self.stage, f"{group}.{n}", group, places) for group, places in GROUPS.items() for n in (0, 1)),
            *(Consumer(self.stage, kind, kind, both, kind) for kind in waiters),
            *(Listener(self.stage, f"live.{n}", "live", both) for n in (0, 1))]

    def start(self, place: int) -> Daemon:
        """With the time limits of the page: a statement that hangs is given up after 6 s."""
        limits = {name: self.page[name] for name in ("DB_STATEMENT_TIMEOUT", "LIBQUEEN_INFLIGHT_DEADLINE_MS")}
        return Daemon(self.cluster.dsn("history"), QUEEND_BUFFER_BYTES=256 << 20,
                      FILE_BUFFER_DIR=self.folder / f"buffer-{place}", **limits)

    def play(self, troubles: int) -> None:
        kinds, crowd = [], Crowd()
        crowd.all(lambda actor: actor.run(), self.actors)
        try:
            for _ in range(troubles):
                kinds = kinds or self.dice.sample(KINDS, len(KINDS))
                time.sleep(self.dice.uniform(2.0, 5.0))     # nothing is wrong meanwhile
                self.trouble(kinds.pop())
                if crowd.failures:
                    break
            time.sleep(5.0)
            self.stage.quiet.set()
            self.stage.drain(crowd, patience=90.0)
        finally:
            self.stage.quiet.set()
            self.stage.over.set()
        crowd.join()

    def trouble(self, kind: str) -> None:
        begin = time.monotonic()
        getattr(self, "do_" + kind.replace(" ", "_").lower())()
        self.cluster.await_whole()
        end = time.monotonic()
        self.checker.trouble(begin, end)
        self.happened.append((kind, begin, end))
        print(f"{kind}: {end - begin:.1f} s", flush=True)

    def do_switch_over(self) -> None:
        self.cluster.switch_over()

    def do_kill_the_primary(self) -> None:
        node = self.cluster.leader()
        self.cluster.kill(node)
        time.sleep(self.dice.uniform(0.0, 30.0))
        self.cluster.start(node)

    def do_freeze_the_primary(self) -> None:
        """For less than its lease lasts, or for longer: then it goes on and does not know that it was replaced."""
        family = self.cluster.leader().family()
        send(family, signal.SIGSTOP)
        time.sleep(self.dice.choice([3.0, 10.0, 25.0, 40.0]))
        send(family[::-1], signal.SIGCONT)

    def do_kill_postgresql_of_the_primary(self) -> None:
        self.cluster.leader().kill_servers()

    def do_lose_etcd(self) -> None:
        self.cluster.lose_etcd(self.dice.uniform(1.0, 25.0))

    def do_freeze_a_standby(self) -> None:
        family = self._standby().family()
        send(family, signal.SIGSTOP)
        time.sleep(self.dice.uniform(2.0, 20.0))
        send(family[::-1], signal.SIGCONT)

    def do_kill_a_standby(self) -> None:
        node = self._standby()
        self.cluster.kill(node)
        time.sleep(self.dice.uniform(0.0, 20.0))
        self.cluster.start(node)

    def do_kill_a_daemon(self) -> None:
        place = self.dice.randrange(DAEMONS)
        self.stage.daemons[place].kill()
        time.sleep(self.dice.uniform(0.0, 2.0))
        self.stage.daemons[place] = self.start(place)

    def do_freeze_a_daemon(self) -> None:
        place = self.dice.randrange(DAEMONS)
        begin, process = time.monotonic(), self.stage.daemons[place].process
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.dice.uniform(1.0, 12.0))
        process.send_signal(signal.SIGCONT)
        self.frozen.append((place, begin, time.monotonic()))

    def do_primary_and_daemon(self) -> None:
        """The daemon goes in the middle of a takeover, with a buffer that is not empty, and comes back."""
        node = self.cluster.leader()
        self.cluster.kill(node)
        time.sleep(self.dice.uniform(0.0, 15.0))
        place = self.dice.randrange(DAEMONS)
        self.stage.daemons[place].kill()
        self.cluster.start(node)
        self.stage.daemons[place] = self.start(place)

    def _standby(self):
        leader = self.cluster.leader()
        return self.dice.choice([node for node in self.cluster.nodes.values() if node is not leader])

    def figures(self) -> str:
        """Per kind of trouble: how often; the longest time to the answer of a push (503 and cut connections count as
        answers) by a daemon that was not frozen itself; how long no push was stored (`queued`), median and longest; how
        many were refused."""
        lines = ["| trouble | times | longest push, s | not stored for, s: median, longest | refused |",
                 "|---|---|---|---|---|"]
        waits, gaps, refused = defaultdict(list), defaultdict(list), defaultdict(int)
        for kind, begin, end in self.happened:
            for probe in self.probes:
                told = [one for one in probe.told if begin <= one[1] and one[0] <= end + RECOVERY]
                stored = [now for _, now, status in told if status in ("queued", "duplicate")]
                waits[kind].append(max((now - asked for asked, now, _ in told
                                        if not self.thaw(probe.place, asked, now)), default=0.0))
                gaps[kind].append(max((b - a for a, b in zip([begin, *stored], stored)), default=end - begin))
                refused[kind] += sum(status not in ("queued", "duplicate", "buffered") for _, _, status in told)
        for kind in sorted(waits):
            lines.append(f"| {kind} | {len(waits[kind]) // DAEMONS} | {max(waits[kind]):.1f} |"
                         f" {statistics.median(gaps[kind]):.1f}, {max(gaps[kind]):.1f} | {refused[kind]} |")
        everything = [(now - asked, now, self.thaw(probe.place, asked, now)) for probe in self.probes
                      for asked, now, _ in probe.told]
        median = statistics.median(took for took, *_ in everything) * 1000
        longest = max(took for took, _, thawed in everything if not thawed)
        late = max((now - thawed for _, now, thawed in everything if thawed), default=0.0)
        lines.append(f"{len(everything)} pushes of the probes: median {median:.1f} ms, longest {longest:.1f} s; of a "
                     f"daemon that was frozen meanwhile, after it went on: {late:.1f} s")
        return "\n".join(lines)

    def thaw(self, place: int, asked: float, now: float) -> float:
        """Returns when the daemon of this push went on, 0 if it was not frozen meanwhile."""
        return max((end for frozen, begin, end in self.frozen if frozen == place and asked < end and begin < now),
                   default=0.0)

    def end(self) -> None:
        for daemon in self.stage.daemons:
            if daemon.process.poll() is None:
                daemon.kill()
        self.cluster.stop()


def test_random_troubles_lose_nothing(request: pytest.FixtureRequest) -> None:
    seed = os.environ.get("PATRONI_SEED") or str(random.randrange(10**9))
    print(f"PATRONI_SEED={seed}", flush=True)
    # Not below pytest's own folder: the servers' account walks the path.
    with tempfile.TemporaryDirectory(prefix="queend-patroni-") as name:
        os.chmod(name, 0o755)
        one = History(Path(name), seed, Path(request.config.getoption("--patroni")).resolve())
        try:
            one.play(TROUBLES)
            faults = one.checker.faults(drained=True)
            print(one.figures(), one.stage.told, sep="\n", flush=True)
            told = "\n".join(f"{fault}\n    {one.checker.story(fault.key)}" for fault in faults[:20])
            assert not faults, f"PATRONI_SEED={seed} {one.happened}: {len(faults)} faults\n{told}"
        finally:
            one.end()
