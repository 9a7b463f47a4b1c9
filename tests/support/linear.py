"""Whether the operations that clients made on one key could have happened one after another: each at a moment between
its call and its answer (Wing and Gong, with Lowe's memory of what was tried)."""
from __future__ import annotations

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
    if call.op == "delete":
        return [State(0, None, seen.highest)]
    version = call.answer["version"]
    value = call.value if call.op == "put" else (seen.value if seen.version else 0) + 1
    if version <= seen.highest or call.op == "incr" and call.answer["value"] != value:
        return []
    return [State(version, value, version)]


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
    """The version that a call gave the key; 0: none, or nobody was told."""
    return call.answer["version"] if call.answer and call.op in ("put", "incr") and call.answer["applied"] else 0


def seen(call: Call) -> int:
    """The version that a call found and left; 0: none."""
    return 0 if not call.answer or given(call) or call.op == "restore" else call.answer.get("version") or 0


def explained(calls: list[Call]) -> bool:
    """Returns whether there is an order. Calls without an answer may have happened at any time since, or never.

    Versions rise, so only the least one that was given is tried next, and not while a smaller one is still to be seen.
    A call without an answer is not tried directly after another one whose effect it would only replace."""
    calls = sorted(calls, key=lambda call: call.begun)
    needed = sum(1 << i for i, call in enumerate(calls) if call.answer is not None or call.op == "restore")
    by_version = sorted((given(call), i) for i, call in enumerate(calls) if given(call))
    by_seen = sorted((seen(call), i) for i, call in enumerate(calls) if seen(call))
    restores = sum(1 << i for i, call in enumerate(calls) if call.op == "restore")
    tried: set[tuple[int, State, bool]] = set()
    stack = [(0, State(), False)]
    while stack:
        done, state, unsure = stack.pop()
        if done & needed == needed:
            return True
        if (done, state, unsure) in tried:
            continue
        tried.add((done, state, unsure))
        first_end = min(call.ended for i, call in enumerate(calls) if needed >> i & 1 and not done >> i & 1)
        least = next((i for _, i in by_version if not done >> i & 1), -1)
        if least >= 0 and done & restores == restores:
            still = next((version for version, i in by_seen if not done >> i & 1), 0)
            least = -1 if 0 < still < given(calls[least]) else least
        following = []
        for i, call in enumerate(calls):
            if call.begun > first_end:
                break
            answered = bool(needed >> i & 1)
            if done >> i & 1 or given(call) and i != least or unsure and not answered and (
                    call.op != "incr" and call.expect is None):
                continue
            following += [(answered, -i, done | 1 << i, after, not answered) for after in applied(state, call)]
        # tried last to first: calls with an answer before the others
        following.sort(key=lambda one: one[:2])
        stack += [one[2:] for one in following]
    return False
