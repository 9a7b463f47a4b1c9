"""How many push streams: models of databases and of their clients stand behind them, in a time of their own."""
import heapq
import random

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import SpreadProbe

SECOND = 1_000_000


class Database:
    """Batches of items, each batch computed by one of `cores` (fixed + per_item x items), then `away` us of waiting."""

    def __init__(self, cores, fixed, per_item, away, noise=0.0):
        self.cores = [0.0] * cores
        self.fixed, self.per_item, self.away = fixed, per_item, away
        self.chance, self.noise = random.Random(7), noise

    def ends(self, now, items):
        core = min(range(len(self.cores)), key=self.cores.__getitem__)
        work = (self.fixed + self.per_item * items) * self.chance.uniform(1 - self.noise, 1 + self.noise)
        self.cores[core] = max(now, self.cores[core]) + work
        return self.cores[core] + self.away


def live(probe, database, clients, seconds, pause=0, now=0.0):
    """Clients in a closed loop: each sends one item and the next one after its answer (and a pause). Items belong to
    streams as lanes do. Returns (time, share of the time by number of streams, items per second)."""
    chance = random.Random(3)
    waiting, flying, events, moving, sent = {}, {}, [], False, {}
    spent, stored, began = {}, 0, now

    def deal(lane):
        waiting.setdefault(lane % probe.active, []).append(lane)

    for _ in range(clients):
        heapq.heappush(events, (now + chance.random() * (pause + 1), "item", chance.randrange(64)))
    while now < began + seconds * SECOND:
        at, what, which = heapq.heappop(events)
        spent[probe.active] = spent.get(probe.active, 0) + at - now
        now = at
        if what == "item":
            deal(which)
        else:
            n = len(flying.pop(which))
            stored += n
            before = probe.active
            probe.done(int(now), n, bool(waiting.get(which)), int(now - sent[which]))
            for _ in range(n):
                heapq.heappush(events, (now + chance.random() * (pause + 50), "item", chance.randrange(64)))
            if probe.active != before:                # dealt anew, and sent when all of before is stored
                moving = bool(flying)
                lanes = [lane for part in waiting.values() for lane in part]
                waiting = {}
                for lane in lanes:
                    deal(lane)
        moving = moving and bool(flying)
        for stream in [] if moving else list(waiting):
            if stream not in flying and waiting[stream]:
                flying[stream], sent[stream] = waiting.pop(stream), now
                heapq.heappush(events, (database.ends(now, len(flying[stream])), "done", stream))
    return now, {n: t / (now - began) for n, t in spent.items()}, stored / (now - began) * SECOND


def fixed(n, database, clients, seconds=5, **more):
    class Fixed:
        active = n
        def done(self, *_):
            pass
    return live(Fixed(), database(), clients, seconds, **more)[2]


def test_it_starts_with_one_and_one_is_all_there_is_without_room():
    assert SpreadProbe().active == 1
    probe = SpreadProbe(most=1)
    for now in range(0, 60 * SECOND, 10_000):
        assert probe.done(now, 100) == 1


def test_without_a_window_every_batch_changes_it():
    probe = SpreadProbe(most=3, window_us=0)
    assert [probe.done(0, 1) for _ in range(6)] == [2, 3, 1, 2, 3, 1]


def test_without_demand_nothing_is_tried():
    probe = SpreadProbe()
    for now in range(0, 60 * SECOND, 10_000):
        assert probe.done(now, 100, crowded=False) == 1 and not probe.trying


# Ten times slower than real ones, which spares events.
DATABASES = {
    "far away": lambda: Database(cores=8, fixed=2000, per_item=100, away=100_000),
    "many cores": lambda: Database(cores=8, fixed=2000, per_item=100, away=2000),
    "two cores": lambda: Database(cores=2, fixed=2000, per_item=100, away=5000),
    "one core": lambda: Database(cores=1, fixed=2000, per_item=60, away=3000),
    "one core, dear calls": lambda: Database(cores=1, fixed=30_000, per_item=60, away=3000),
    "uneven": lambda: Database(cores=4, fixed=5000, per_item=100, away=20_000, noise=0.3),
}


@pytest.mark.parametrize("clients", [64, 400])
@pytest.mark.parametrize("database", DATABASES.values(), ids=DATABASES)
def test_it_settles_near_the_best_fixed_number(database, clients):
    best = max(fixed(n, database, clients) for n in (1, 2, 4))
    probe, behind = SpreadProbe(most=4), database()
    now, _, _ = live(probe, behind, clients, 30)
    _, _, rate = live(probe, behind, clients, 30, now=now)
    assert rate > 0.9 * best


def test_where_one_wins_trials_cost_little():
    database = DATABASES["one core, dear calls"]
    probe, behind = SpreadProbe(most=4), database()
    now, _, _ = live(probe, behind, 64, 60)
    _, spent, rate = live(probe, behind, 64, 100, now=now)
    assert probe.active == 1 and spent[1] > 0.97
    assert rate > 0.97 * fixed(1, database, 64)


def test_it_falls_back_when_the_load_goes_away():
    database = DATABASES["many cores"]
    probe, behind = SpreadProbe(most=4), database()
    now, _, _ = live(probe, behind, 200, 30)
    assert probe.active > 1
    live(probe, behind, 1, 60, pause=50_000, now=now)
    assert probe.active == 1


def test_it_finds_another_number_when_the_database_changes():
    probe = SpreadProbe(most=4)
    now, _, _ = live(probe, DATABASES["one core, dear calls"](), 200, 40)
    assert probe.active == 1
    now, _, _ = live(probe, DATABASES["many cores"](), 200, 40, now=now)
    assert probe.active > 1
    live(probe, DATABASES["one core, dear calls"](), 200, 40, now=now)
    assert probe.active == 1


def burst(probe, now, seconds, gains=True):
    """Batches of 10 ms on every stream, more waiting: twice as many streams store twice as much, or the same. Returns the
    time and how much of it was part of a trial."""
    end, tried = now + seconds * SECOND, 0
    while now < end:
        each = 10_000 if gains else 10_000 * probe.active
        now += each
        tried += each * probe.trying
        for _ in range(probe.active):
            probe.done(int(now), 100, True, each)
    return now, tried / SECOND


def test_pauses_in_the_load_decide_nothing():
    probe, now, spent = SpreadProbe(most=4), 0, 0
    for _ in range(100):                      # each burst is over before a trial is
        now, tried = burst(probe, now, 0.9, gains=False)
        now, spent = now + 3 * SECOND, spent + tried
        assert probe.active == 1 or probe.trying
    assert spent < 9                          # of 90: a trial in vain costs a pause, of time under load


def test_a_load_with_pauses_gets_its_streams():
    probe, now = SpreadProbe(most=4), 0
    for _ in range(10):
        now = burst(probe, now, 0.9)[0] + 5 * SECOND
    assert probe.active == 4
    now = burst(probe, now, 3)[0]
    while not probe.trying:                   # of fewer
        now = burst(probe, now, 0.01)[0]
    burst(probe, now + 100 * SECOND, 0.01)    # too long ago to be compared with
    assert not probe.trying and probe.active == 4


def test_a_trickle_needs_one_stream():
    probe = SpreadProbe(most=4)
    now, _ = burst(probe, 0, 10)
    assert probe.active == 4
    for _ in range(20):
        now += SECOND
        probe.done(now, 1, False, 10_000)
    assert probe.active == 1


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 2 * SECOND), st.integers(0, 20_000), st.booleans()), max_size=300),
       st.integers(-1, 9), st.integers(0, SECOND))
def test_whatever_happens_it_stays_within_its_bounds(steps, most, window):
    probe = SpreadProbe(most, window)
    now = 0
    for pause, items, crowded in steps:
        now += pause
        before = probe.active
        after = probe.done(now, items, crowded)
        assert after == probe.active and 1 <= after <= max(most, 1)
        assert window == 0 or after in (before, before * 2, before // 2)
