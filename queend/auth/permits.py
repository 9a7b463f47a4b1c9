"""Queue permissions: a claim that limits a token to queues by pattern and verb."""
from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from .levels import EVERY_QUEUE, MANAGE, POP, PUSH, READS
from .refused import unverified

VERBS = {"push": PUSH, "pop": POP, "read": READS, "manage": MANAGE, "*": PUSH | POP | READS | MANAGE}
RULES_MOST, PATTERN_BYTES = 256, 255

GROUPED = {"pop": POP, "read": READS, "manage": MANAGE}      # verbs that may name groups

Rules = list[tuple[bytes, int, bytes | None]]      # pattern of queues, verbs, pattern of groups (None: not grouped)


def rules_of(claim: str, value: Any) -> Rules:
    """Reads {pattern: verb, or a list of verbs} as rules; a verb is `pop`, or `pop:` and a pattern of groups. Any other
    value refuses the token, so that a mistake never loses a limit."""
    if not isinstance(value, dict) or len(value) > RULES_MOST:
        raise unverified(f"Claim {claim} must be an object of at most {RULES_MOST} queue patterns")
    rules: Rules = []
    for pattern, given in value.items():
        verbs: dict[bytes | None, int] = {None: 0}      # by pattern of groups
        for verb in given if isinstance(given, list) else [given]:
            word, colon, groups = verb.partition(":") if isinstance(verb, str) else ("", "", "")
            if word not in (GROUPED if colon else VERBS) or colon and not groups:
                raise unverified(f"Claim {claim} supports the verbs {', '.join(VERBS)}, and {', '.join(GROUPED)} with "
                                 "a group pattern, as in pop:billing-*")
            key = _pattern(claim, groups) if colon else None
            verbs[key] = verbs.get(key, 0) | VERBS[word]
        text = _pattern(claim, pattern)
        rules += [(text, sum_, groups) for groups, sum_ in verbs.items() if sum_ or len(verbs) == 1]
    if len(rules) > RULES_MOST:
        raise unverified(f"Claim {claim} must have at most {RULES_MOST} patterns, including patterns of groups")
    return rules


def _pattern(claim: str, text: str) -> bytes:
    pattern = text.encode(errors="surrogatepass")
    if len(pattern) > PATTERN_BYTES:
        raise unverified(f"Claim {claim} has a pattern of more than {PATTERN_BYTES} bytes")
    return pattern


def allows(rules: Rules | None, queue: str, verb: int, group: str | None = None) -> bool:
    """Returns whether the queue may be used so on behalf of the group. EVERY_QUEUE needs a rule for all queues. Without
    a group only rules that are not grouped count. Follows grant_allows of the core."""
    if rules is None:
        return True
    name = queue.encode(errors="surrogatepass")
    whose = None if group is None else group.encode(errors="surrogatepass")
    return any(
        verbs & verb and (bool(pattern) and not pattern.strip(b"*") if queue == EVERY_QUEUE else fits(pattern, name))
        and (groups is None or whose is not None and fits(groups, whose)) for pattern, verbs, groups in rules)


def allows_some(rules: Rules | None, queue: str, verb: int) -> bool:
    """Returns whether the queue may be used so on behalf of some group."""
    name = queue.encode(errors="surrogatepass")
    return rules is None or any(verbs & verb and fits(pattern, name) for pattern, verbs, _ in rules)


def reads_some(rules: Rules | None, queue: str | None = None, group: str | None = None) -> bool:
    """Returns whether the queue may be read on behalf of the group. Without a queue: some queue; without a group: on
    behalf of some group."""
    name = None if queue is None else queue.encode(errors="surrogatepass")
    whose = None if group is None else group.encode(errors="surrogatepass")
    return rules is None or any(
        verbs & READS and (name is None or fits(pattern, name)) and (groups is None or whose is None
                                                                     or fits(groups, whose))
        for pattern, verbs, groups in rules)


def readable(rules: Rules | None) -> tuple[list[str] | None, list[str | None] | None]:
    """Returns the rules that allow reading as two lists of patterns for LIKE in SQL: of queues, and of groups (None:
    any group). Returns None twice if there are no limits. A pattern that is not UTF-8, or has a NUL character, matches
    no name and is left out."""
    if rules is None:
        return None, None
    queues: list[str] = []
    names: list[str | None] = []
    for pattern, verbs, groups in rules:
        if verbs & READS and b"\0" not in pattern + (groups or b""):
            with suppress(UnicodeDecodeError):
                queue, name = _like(pattern), None if groups is None else _like(groups)
                queues.append(queue)
                names.append(name)
    return queues, names


def _like(pattern: bytes) -> str:
    return re.sub(r"([\\%_])", r"\\\1", pattern.decode()).replace("*", "%")


def fits(pattern: bytes, name: bytes) -> bool:
    """Returns whether a pattern matches a name: `*` stands for any bytes, also none, every other byte for itself.
    Follows glob_fits of the core."""
    first, *rest = pattern.split(b"*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
