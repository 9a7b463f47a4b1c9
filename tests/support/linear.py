"""Whether the operations that clients made on one key could have happened one after another: each at a moment between
its call and its answer (Wing and Gong, with Lowe's memory of what was tried)."""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple


class State(NamedTuple):
    """A key. version 0: absent; -1: written by a call whose answer was lost, so that nobody was told its version."""

    version: int = 0
    value: Any = None
    highest: int = 0          # version that was ever given


@dataclass
class Call:
    """answer: the result; None if nobody knows whether the call took effect."""

    op: str                   # get, put, delete, incr, check; or restore: the server has this row now
    begun: float
    ended: float = inf
    value: Any = None         # of put, and of restore
    expect: int | None = None
    answer: dict[str, Any] | None = None


def applied(state: State, call: Call) -> list[State]:
    """States after the call, one for each way in which it may have happened; none if its answer contradicts them."""
    if call.op == "restore":
        return [State(call.expect or 0, call.value, state.highest)]
    if call.answer is None:
        return unanswered(state, call)
    seen = told(state, call)
    if seen is None:
        return []
    done = call.answer.get("applied", True)
    if done != (refusal(seen, call) is None) or not done and call.answer["reason"] != refusal(seen, call):
        return []
    if not done or call.op in ("get", "check"):
        return [seen]
    version = call.answer["version"]
    value = call.value if call.op == "put" else (seen.value if seen.version else 0) + 1
    if version <= seen.highest or call.op == "incr" and call.answer["value"] != value:
        return []
    return [State(0, None, version) if call.op == "delete" else State(version, value, version)]


def refusal(state: State, call: Call) -> str | None:
    """Why the state refuses the call; None if it does not."""
    if call.expect == 0 and state.version:
        return "exists"
    if (call.expect or call.op == "delete") and not state.version:
        return "absent"
    return "version" if call.expect and state.version != call.expect else None


def told(state: State, call: Call) -> State | None:
    """The state, with a version that the answer tells. None if the answer tells of another one."""
    answer = call.answer
    assert answer is not None
    if call.op == "get" or not answer["applied"] or call.op == "check":
        if call.op == "get" and not answer["found"]:
            return state if state.version == 0 else None
        version = answer["version"]
        if not version:
            return state if state.version == 0 else None
        if answer["value"] != state.value:
            return None
    else:
        version = call.expect or state.version
    if state.version == -1 and version > state.highest:
        return State(version, state.value, version)
    return state if state.version == version else None


def unanswered(state: State, call: Call) -> list[State]:
    """States after a call that took effect, if it did."""
    if call.op in ("get", "check"):
        return []
    if state.version == -1 and call.expect and call.expect > state.highest:
        state = State(call.expect, state.value, call.expect)
    if refusal(state, call) is not None:
        return []
    if call.op == "delete":
        return [State(0, None, state.highest)]
    return [State(-1, call.value if call.op == "put" else (state.value if state.version else 0) + 1, state.highest)]


def given(call: Call) -> int:
    """The version that a call gave the key, or of its deletion; 0: none, or nobody was told."""
    writes = call.answer and call.op in ("put", "incr", "delete") and call.answer["applied"]
    return call.answer["version"] if writes else 0


def seen(call: Call) -> int:
    """The version that a call found and left; 0: none."""
    return 0 if not call.answer or given(call) or call.op == "restore" else call.answer.get("version") or 0


class Order:
    """The calls on one key by begin, and masks of them: bit i is call i."""

    def __init__(self, calls: list[Call]):
        self.calls = sorted(calls, key=lambda call: call.begun)
        self.needed = self.mask(lambda call: call.answer is not None or call.op == "restore")
        # what each restore leaves behind: a version that was seen before it cannot be seen later
        self.restores = [(i, self.mask(lambda call, at=call.begun: call.ended < at))
                         for i, call in enumerate(self.calls) if call.op == "restore"]
        self.unsure = [i for i in range(len(calls)) if not self.needed >> i & 1]
        self.given, self.giving = self._by(given)
        self.seen, self.seeing = self._by(seen)
        self.sees: dict[int, int] = defaultdict(int)
        for version, i in self.seen:
            self.sees[version] |= 1 << i

    def mask(self, wanted: Callable[[Call], bool]) -> int:
        return sum(1 << i for i, call in enumerate(self.calls) if wanted(call))

    def _by(self, version: Callable[[Call], int]) -> tuple[list[tuple[int, int]], list[int]]:
        """The versions with their calls, ascending, and the mask of all before each place."""
        pairs = sorted((version(call), i) for i, call in enumerate(self.calls) if version(call))
        masks = [0]
        for _, i in pairs:
            masks.append(masks[-1] | 1 << i)
        return pairs, masks

    def least(self, done: int, state: State) -> int | None:
        """The call that gives the next version; -1: no call may. None: a smaller version was passed over."""
        place = bisect_right(self.given, (state.highest, len(self.calls)))
        if self.giving[place] & ~done:
            return None
        if place == len(self.given):
            return -1
        version, call = self.given[place]
        return -1 if self.bound(done, self.seeing[bisect_left(self.seen, (version, -1))]) else call

    def bound(self, done: int, sight: int) -> int:
        """Those of the calls `sight` that are left and must come before the next restore."""
        return sight & ~done & next((before for i, before in self.restores if not done >> i & 1), -1)

    def stays(self, done: int, state: State) -> bool:
        """Whether the version that the key has is still to be seen."""
        return bool(state.version > 0 and self.bound(done, self.sees.get(state.version, 0)))

    def possible(self, done: int) -> list[int]:
        """Calls that may be next: begun before the first end of those that are left."""
        left = self.needed & ~done
        first = (left & -left).bit_length() - 1
        found, end = [], inf
        for i in range(first, len(self.calls)):
            if self.calls[i].begun > end:
                break
            if left >> i & 1:
                found.append(i)
                end = min(end, self.calls[i].ended)
        return [i for i in self.unsure if not done >> i & 1 and self.calls[i].begun <= end] + [
            i for i in found if self.calls[i].begun <= end]


def explained(calls: list[Call]) -> bool:
    return not contradiction(calls)


def contradiction(calls: list[Call], most: int = 1_000_000) -> list[Call]:
    """Returns nothing if there is an order. Otherwise the calls around the first that fits into none, as far as `most`
    steps show. Calls without an answer may have happened at any time since, or never.

    Versions rise, so only the least one that was given is tried next, and a version is not left while it is still to be
    seen.
    A call without an answer is not tried directly after another one whose effect it would only replace."""
    order = Order(calls)
    tried: set[tuple[int, State, bool]] = set()
    stack = [(0, State(), False)]
    furthest = 0              # the first call that is left
    while stack:
        done, state, unsure = stack.pop()
        if done & order.needed == order.needed:
            return []
        least = order.least(done, state)
        if (done, state, unsure) in tried or least is None:
            continue
        tried.add((done, state, unsure))
        left = order.needed & ~done
        furthest = max(furthest, (left & -left).bit_length() - 1)
        if len(tried) > most:
            break
        following = []
        stays = order.stays(done, state)
        for i in order.possible(done):
            call, answered = order.calls[i], bool(order.needed >> i & 1)
            if given(call) and i != least or unsure and not answered and call.op != "incr" and call.expect is None:
                continue
            following += [(answered, -i, done | 1 << i, after, not answered) for after in applied(state, call)
                          if not stays or after.version == state.version]
        # tried last to first: calls with an answer before the others
        following.sort(key=lambda one: one[:2])
        stack += [one[2:] for one in following]
    return order.calls[max(furthest - 25, 0):furthest + 25]
