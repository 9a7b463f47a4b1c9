"""One judge over all histories: it is told what was asked and answered, and says what a queue must never do.

A message is known by its payload, a value no other message has. Times are seconds of the observer's monotonic clock.
What was asked and never answered may have happened or not: it is allowed either way.

| fault | what it means |
|---|---|
| lost | answered `queued`, `buffered` or `duplicate`, or committed by SQL, and never delivered to a group |
| doubled | one message stored twice, or consumed twice by one group |
| order | delivered before one that stands before it in its partition, or stored before an older one of its producer |
| acknowledged | delivered again after its acknowledgment was confirmed |
| gone | delivered although the database that is served now never had it |
| paused | delivered by a pop that began after a pause was answered and ended before its end was asked for |
| left | delivered, never acknowledged, and not delivered again to a group that went on until nothing more came |
| late | committed and deliverable for longer than `within`, and what may have it, alone, got nothing: a pop of any |
|      | partition or of the message's own, or a stream with all its credit |
"""
from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

FOREVER = float("inf")
LONGEST_POP = 30.0
TAKEN = ("queued", "buffered", "duplicate")
Place = tuple[str, int]  # partition, offset


@dataclass(frozen=True)
class Fault:
    kind: str
    key: Any
    story: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.key!r} {self.story}"


@dataclass
class Pushed:
    partition: str
    producer: Any
    number: int  # of this producer, in the order asked
    asked: float
    stored: float | None = None  # when somebody was told that it is kept
    visible: float | None = None  # when it stood in the log for sure


@dataclass
class Pop:
    group: str
    daemon: Any
    wildcard: bool
    waits: bool
    asked: float
    ended: float
    lease_ends: float  # FOREVER: acknowledged with its delivery
    messages: dict[Place, Any] = field(default_factory=dict)  # → key
    partition: str | None = None  # the one it named
    released: float = FOREVER  # when an acknowledgment that ends the lease was confirmed
    era: int = 0


class Busy:
    """Spans of time, to be asked often."""

    def __init__(self, spans: list[tuple[float, float]]):
        spans = sorted(spans)
        self.begins = [begin for begin, _ in spans]
        self.ends = list(accumulate((end for _, end in spans), max))

    def until(self, moment: float) -> float:
        """The last end of those that begin before the moment; 0 if none does."""
        at = bisect_left(self.begins, moment)
        return self.ends[at - 1] if at else 0.0


class Checker:
    """within: seconds after which a message that is committed must be deliverable. recovery: seconds a daemon has after
    trouble before that counts again."""

    def __init__(self, groups: Iterable[str], within: float = 2.0, recovery: float = 0.0):
        self.groups, self.within, self.recovery = list(groups), within, recovery
        self.lock = threading.Lock()
        self.pushed: dict[Any, Pushed] = {}
        self.names: set[str] = set()  # of their partitions
        self.excused: dict[Any, float] = {}  # key → when the database went that had it
        self.pops: dict[str, list[Pop]] = {group: [] for group in self.groups}
        # claims that nobody may know of
        self.blind: dict[str, list[tuple[float, float]]] = {group: [] for group in self.groups}
        self.troubles: list[tuple[float, float]] = []
        self.pauses: dict[str, list[tuple[float, float]]] = {group: [] for group in self.groups}
        self.acked: dict[tuple[str, Place], list[tuple[float, Pop]]] = defaultdict(list)
        self.unsure: set[tuple[str, Place]] = set()  # acknowledged, perhaps: nobody answered
        self.eras: dict[str, list[tuple[float, float, dict[str, int] | None]]] = {group: [] for group in self.groups}
        self.numbers: dict[Any, int] = defaultdict(int)

    # -- what happened -------------------------------------------------------------------------------------------------

    def push_asked(self, key: Any, partition: str, producer: Any, at: float) -> None:
        """The producer asks for one after the other, and not for the next before it knows of the last."""
        with self.lock:
            self.names.add(partition)
            if key not in self.pushed:
                self.pushed[key] = Pushed(partition, producer, self.numbers[producer], at)
                self.numbers[producer] += 1

    def push_answered(self, key: Any, status: str, at: float) -> None:
        with self.lock:
            push = self.pushed[key]
            if status in TAKEN and push.stored is None:
                push.stored = at
            if status in TAKEN and status != "buffered" and push.visible is None:
                push.visible = at

    def push_refused(self, key: Any) -> None:
        """Notes that a message was refused with code `unavailable` beside others of its request that were stored. The
        message may be stored or not. If it is stored, it may stand behind messages that were asked for later."""
        with self.lock:
            self.pushed[key].producer = (self.pushed[key].producer, key)

    def committed(self, key: Any, at: float) -> None:
        """A transaction of SQL that pushed it has committed."""
        self.push_answered(key, "queued", at)

    def popped(self, group: str, messages: list[tuple[str, int, Any]], asked: float, ended: float,
               lease: float | None = None, daemon: Any = None, wildcard: bool = True, waits: bool = False,
               partition: str | None = None) -> Pop:
        """messages: (partition, offset, key). lease: its seconds; None: acknowledged with the delivery. partition: the
        one that it named."""
        pop = Pop(group, daemon, wildcard, waits, asked, ended, FOREVER if lease is None else ended + lease,
                  {(name, offset): key for name, offset, key in messages}, partition)
        with self.lock:
            self.pops[group].append(pop)
            if lease is None:
                pop.released = ended
                for place in pop.messages:
                    self.acked[group, place].append((ended, pop))
        return pop

    def partitions(self) -> list[str]:
        """Those that something was pushed to."""
        with self.lock:
            return sorted(self.names) or ["all"]

    def pop_unanswered(self, group: str, asked: float, ended: float, lease: float) -> None:
        """It may have claimed whatever there was."""
        with self.lock:
            self.blind[group].append((asked, ended + lease))

    def ack_answered(self, pop: Pop, places: Iterable[Place], at: float, released: bool = False) -> None:
        """Confirmed. An acknowledgment that was asked and not confirmed needs no telling: its lease ends by itself."""
        with self.lock:
            for place in places:
                self.acked[pop.group, place].append((at, pop))
            if released:
                pop.released = min(pop.released, at)

    def ack_unanswered(self, pop: Pop) -> None:
        """It may have been done."""
        with self.lock:
            self.unsure |= {(pop.group, place) for place in pop.messages}

    def extended(self, pop: Pop, until: float) -> None:
        """Its lease may last until then."""
        with self.lock:
            pop.lease_ends = max(pop.lease_ends, until)

    def sought(self, group: str, asked: float, answered: float, positions: dict[str, int]) -> None:
        """The group was moved, in the partitions named, to these offsets."""
        with self.lock:
            self.eras[group].append((asked, answered, positions))

    def paused(self, group: str, answered: float, resumed: float) -> None:
        """From the answer on, until its end was asked for."""
        with self.lock:
            self.pauses[group].append((answered, resumed))

    def trouble(self, begin: float, end: float) -> None:
        """Nobody has to be quick in between."""
        with self.lock:
            self.troubles.append((begin, end + self.recovery))

    def replaced(self, asked: float, answered: float, gone: Iterable[Any]) -> None:
        """Another database took over, which lacks the newest commits of the one before: these messages, and movements
        of the groups."""
        with self.lock:
            self.excused |= dict.fromkeys(gone, asked)
            for group in self.groups:
                self.eras[group].append((asked, answered, None))

    # -- the verdict ---------------------------------------------------------------------------------------------------

    def faults(self, drained: bool = False) -> list[Fault]:
        """drained: the groups went on until nothing was missing, or for long enough."""
        with self.lock:
            for group in self.groups:
                self.pops[group].sort(key=lambda pop: pop.ended)
                for pop in self.pops[group]:
                    # Of the era before, or of that after it; -1: under way while it changed.
                    before = sum(answered <= pop.asked for _, answered, _ in self.eras[group])
                    after = sum(asked <= pop.ended for asked, _, _ in self.eras[group])
                    pop.era = before if before == after else -1
            return [*self._stored_twice(), *self._gone(), *self._lost(), *self._order(), *self._again(), *self._late(),
                    *self._paused(),
                    *(self._left() if drained else [])]

    def story(self, key: Any) -> str:
        """What is known of one message."""
        push = self.pushed.get(key)
        told = [] if push is None else [(push.asked, "asked"), *(
            (at, what) for at, what in ((push.stored, "kept"), (push.visible, "stored")) if at is not None)]
        for group in self.groups:
            for pop in self.pops[group]:
                for place, other in pop.messages.items():
                    if other == key:
                        told.append((pop.ended,
                                     f"to {group} from {pop.daemon} at {place}, asked {pop.asked:.2f}, era {pop.era}"))
                        told += [(at, f"confirmed for {group}")
                                 for at, by in self.acked.get((group, place), ()) if by is pop]
        return "; ".join(f"{at:.2f} {what}" for at, what in sorted(told))

    def around(self, key: Any) -> list[str]:
        """What each group was given of the message's partition, and when that was confirmed."""
        if key not in self.pushed:
            return []
        partition, lines = self.pushed[key].partition, []
        for group in self.groups:
            for pop in self.pops[group]:
                offsets = [offset for name, offset in pop.messages if name == partition]
                if offsets:
                    confirmed = {offset: round(at, 2) for offset in offsets
                                 for at, by in self.acked.get((group, (partition, offset)), ()) if by is pop}
                    lines.append(f"{pop.ended:.2f} to {group} from {pop.daemon}, asked {pop.asked:.2f}, era {pop.era}:"
                                 f" {offsets}, confirmed {confirmed}")
        return lines

    def missing(self) -> list[tuple[str, Any]]:
        """(group, key) of what was stored and is not consumed yet."""
        with self.lock:
            due = {key for key, push in self.pushed.items() if push.stored is not None and key not in self.excused}
            return [(group, key) for group in self.groups for key in due - self._consumed(group)]

    def _consumed(self, group: str) -> set[Any]:
        return {key for pop in self.pops[group] for place, key in pop.messages.items() if (group, place) in self.acked
                or (group, place) in self.unsure}

    def _places(self) -> dict[Any, set[Place]]:
        """Where each message stands: as told by the deliveries since a database was last replaced."""
        places: dict[Any, set[Place]] = defaultdict(set)
        for group in self.groups:
            replaced = max((answered for _, answered, positions in self.eras[group] if positions is None), default=0.0)
            for pop in self.pops[group]:
                if pop.asked >= replaced:
                    for place, key in pop.messages.items():
                        places[key].add(place)
        return places

    def _stored_twice(self) -> list[Fault]:
        found = [Fault("doubled", key, f"stands at {sorted(places)}")
                 for key, places in self._places().items() if len(places) > 1]
        for group in self.groups:
            for pop in self.pops[group]:
                for (partition, offset), key in pop.messages.items():
                    if key not in self.pushed or self.pushed[key].partition != partition:
                        found.append(Fault("doubled", key,
                                           f"was delivered from {partition}:{offset}, where nobody pushed it"))
        return found

    def _gone(self) -> list[Fault]:
        return [Fault("gone", key,
                      f"was lost with its database at {self.excused[key]:.2f} and came to {group} at {pop.ended:.2f}")
                for group in self.groups for pop in self.pops[group] for key in pop.messages.values()
                if key in self.excused and (self.pushed[key].stored or FOREVER) < self.excused[key]
                and pop.asked > max(answered for _, answered, positions in self.eras[group] if positions is None)]

    def _lost(self) -> list[Fault]:
        found = []
        places = self._places()
        for group in self.groups:
            seen = {key for pop in self.pops[group] for key in pop.messages.values()}
            # What was there when the group was moved may have been passed over: that counts below.
            moved = {partition: asked for asked, _, positions in self.eras[group] for partition in positions or ()}
            found += [Fault("lost", key, f"of {push.partition}, told at {push.stored:.2f}, never came to {group}")
                      for key, push in self.pushed.items() if push.stored is not None and key not in seen
                      and key not in self.excused and push.asked > moved.get(push.partition, 0.0)]
            for number, (asked, answered, positions) in enumerate(self.eras[group], 1):
                later = {partition for _, _, others in self.eras[group][number:]
                         for partition in (positions or {} if others is None else others)}
                for partition, start in (positions or {}).items():
                    if partition in later:
                        continue
                    again = {key for pop in self.pops[group] if pop.ended >= asked for key in pop.messages.values()}
                    found += [Fault("lost", key, f"at {place}: never came to {group} after it was moved back to {start}"
                                                 f" at {answered:.2f}")
                              for key, where in places.items() for place in where
                              if place[0] == partition and place[1] >= start and key not in again
                              and key not in self.excused]
        return found

    def _paused(self) -> list[Fault]:
        return [Fault("paused", [*pop.messages.values()], f"came to {group}, asked at {pop.asked:.2f}, paused at"
                                                          f" {answered:.2f} until {resumed:.2f}")
                for group in self.groups for answered, resumed in self.pauses[group] for pop in self.pops[group]
                if pop.messages and answered < pop.asked and pop.ended < resumed]

    def _left(self) -> list[Fault]:
        found = []
        for group in self.groups:
            moved = {partition for _, _, positions in self.eras[group] for partition in positions or ()}
            done, told = self._consumed(group), set()
            for pop in self.pops[group]:
                for (partition, offset), key in pop.messages.items():
                    if key not in done and key not in told and key not in self.excused and partition not in moved:
                        told.add(key)
                        found.append(Fault(
                            "left", key, f"at {partition}:{offset} came to {group} at {pop.ended:.2f}, and not again"))
        return found

    def _order(self) -> list[Fault]:
        found = []
        for group in self.groups:
            # (era, partition) → (highest offset of what has ended, when, its key) along the first deliveries
            seen: set[tuple[int, Place]] = set()
            ended: dict[tuple[int, str], list[tuple[float, int]]] = defaultdict(list)
            for pop in self.pops[group]:
                if list(pop.messages) != sorted(pop.messages,
                                                key=lambda place: place[1]) and len({p for p, _ in pop.messages}) == 1:
                    found.append(Fault("order", [*pop.messages.values()],
                                       f"in one answer to {group}: {[*pop.messages]}"))
                if pop.era < 0:
                    continue
                for place, key in pop.messages.items():
                    if (pop.era, place) in seen:
                        continue
                    seen.add((pop.era, place))
                    line = ended[pop.era, place[0]]
                    at = bisect_left(line, (pop.asked, -1))     # of pops that had ended before this one was asked
                    if at and line[at - 1][1] > place[1]:
                        found.append(Fault("order", key, f"at {place} came to {group} at {pop.ended:.2f},"
                                                         f" after offset {line[at - 1][1]}"))
                for partition in {partition for partition, _ in pop.messages}:
                    line = ended[pop.era, partition]
                    highest = max(offset for name, offset in pop.messages if name == partition)
                    line.append((pop.ended, max(highest, line[-1][1] if line else -1)))
        by_producer: dict[tuple[Any, str], list[tuple[int, int, Any]]] = defaultdict(list)
        for key, places in self._places().items():
            push = self.pushed.get(key)
            if push is not None and push.stored is not None and key not in self.excused and {
                    partition for partition, _ in places} == {push.partition}:
                by_producer[push.producer,
                            push.partition].append((push.number, min(offset for _, offset in places), key))
        for (producer, partition), line in by_producer.items():
            line.sort(key=lambda one: one[0])
            for (_, first, key), (_, second, later) in zip(line, line[1:], strict=False):
                if second <= first:
                    found.append(Fault("order", later, f"of {producer} stands at {partition}:{second}, {key!r},"
                                                       f" asked for before it, at {first}"))
        return found

    def _again(self) -> list[Fault]:
        found = []
        for group in self.groups:
            for pop in self.pops[group]:
                if pop.era < 0:
                    continue
                for place, key in pop.messages.items():
                    confirmed = [(at, other) for at, other in self.acked.get((group, place), ()) if other is not pop
                                 and other.era == pop.era]
                    before = [at for at, _ in confirmed if at < pop.asked]
                    mine = [at for at, other in self.acked.get((group, place), ()) if other is pop]
                    if before:
                        found.append(Fault("acknowledged", key, f"at {place} came to {group} at {pop.ended:.2f},"
                                           f" confirmed at {min(before):.2f}"))
                    elif mine and any(at < pop.ended for at, _ in confirmed):
                        (found.append(Fault("doubled", key, f"at {place} was consumed twice by {group},"
                                            f" at {min(at for at, _ in confirmed):.2f} and {min(mine):.2f}")))
        return found

    def _beside(self, pop: Pop, ends: list[float]) -> bool:
        """Whether another pop of the group was under way that got something: it may have had in hand all there was."""
        since = pop.ended if pop.waits else pop.asked
        begin = bisect_left(ends, since)
        return any(other.messages and other.asked <= pop.ended
                   for other in self.pops[pop.group][begin:bisect_right(ends, pop.ended + LONGEST_POP)])

    def _late(self) -> list[Fault]:
        found = []
        for group in self.groups:
            first: dict[Any, float] = {}
            held: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for pop in self.pops[group]:
                for (partition, _), key in pop.messages.items():
                    first.setdefault(key, pop.ended)
                for partition in {partition for partition, _ in pop.messages}:
                    held[partition].append((pop.asked, min(pop.released, pop.lease_ends)))
            moved = [(asked, answered) for asked, answered, _ in self.eras[group]]
            troubles = Busy([*self.blind[group], *self.troubles, *moved])
            leases = {partition: Busy(spans) for partition, spans in held.items()}
            all_ends = [pop.ended for pop in self.pops[group]]
            empty = [pop for pop in self.pops[group] if (pop.wildcard or pop.partition) and not pop.messages
                     and not self._beside(pop, all_ends)]
            ends = [pop.ended for pop in empty]
            told: set[str] = set()      # the first of a partition says it: what stands behind it waits with it
            for key, push in sorted(self.pushed.items(), key=lambda one: one[1].asked):
                if push.visible is None or key in self.excused or push.partition in told:
                    continue
                # A group that is moved may pass it over.
                until = min([first.get(key, FOREVER), *(asked for asked, _, positions in self.eras[group]
                                                        if asked > push.asked and push.partition in (positions or ()))])
                asked = empty[bisect_right(ends, push.visible + self.within):bisect_left(ends, until)]
                for pop in asked:
                    if pop.partition not in (None, push.partition):
                        continue
                    free = max(push.visible, troubles.until(pop.ended),
                               leases[push.partition].until(pop.ended) if push.partition in leases else 0)
                    if (pop.ended if pop.waits else pop.asked) > free + self.within:
                        found.append(Fault("late", key,
                                           f"of {push.partition}, told at {push.visible:.2f} and free since {free:.2f}:"
                                                        f" a pop of {group} at {pop.daemon} was empty at"
                                                        f" {pop.ended:.2f}; it came at {first.get(key, FOREVER):.2f}"))
                        told.add(push.partition)
                        break
        return found
