"""Queue permissions: a claim that limits a token to queues by pattern and verb."""
from __future__ import annotations

from typing import Any

from .levels import EVERY_QUEUE, MANAGE, POP, PUSH, READS
from .refused import unverified

VERBS = {"push": PUSH, "pop": POP, "read": READS, "manage": MANAGE, "*": PUSH | POP | READS | MANAGE}
RULES_MOST, PATTERN_BYTES = 256, 255

Rules = list[tuple[bytes, int]]


def rules_of(claim: str, value: Any) -> Rules:
    """{pattern: verb, or a list of verbs} as rules. Anything else refuses the token: a limit must not be lost by a
    slip."""
    if not isinstance(value, dict) or len(value) > RULES_MOST:
        raise unverified(f"Claim {claim} must be an object of at most {RULES_MOST} queue patterns")
    rules = []
    for pattern, given in value.items():
        verbs = 0
        for verb in given if isinstance(given, list) else [given]:
            if not isinstance(verb, str) or verb not in VERBS:
                raise unverified(f"Claim {claim} knows the verbs {', '.join(VERBS)}")
            verbs |= VERBS[verb]
        text = pattern.encode(errors="surrogatepass")
        if len(text) > PATTERN_BYTES:
            raise unverified(f"Claim {claim} has a pattern of more than {PATTERN_BYTES} bytes")
        rules.append((text, verbs))
    return rules


def allows(rules: Rules | None, queue: str, verb: int) -> bool:
    """May the queue be used so? EVERY_QUEUE needs a rule for all of them."""
    if rules is None:
        return True
    name = queue.encode(errors="surrogatepass")
    if queue == EVERY_QUEUE:
        return any(verbs & verb and pattern.strip(b"*") == b"" and pattern for pattern, verbs in rules)
    return any(verbs & verb and fits(pattern, name) for pattern, verbs in rules)


def fits(pattern: bytes, name: bytes) -> bool:
    """`*` stands for any bytes, also none; all others for themselves. As glob_fits of the core."""
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
