"""What differs between a recorded answer and ours, in words that stay the same from run to run.

Ids are compared by identity: the first time two stand at the same place they become a pair, and from then on one must
appear exactly where the other does. Times are compared by their form, everything else by value.
"""
from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from support.http import Answer

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
HEADERS = ("content-type", "connection", "access-control-allow-origin", "access-control-allow-methods",
           "access-control-allow-headers")
# what tells elements of a list apart
KEYS = (("name",), ("index",), ("name", "queueName"), ("consumer_group", "queue_name", "partition_name"))

TYPE, SAMPLE, LABEL = (re.compile(r"^# TYPE (\S+) (\S+)$", re.M), re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.M),
                       re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"'))
LAGS = ("timeLagSeconds",)      # how long something took until now
MEASURERS = ("hostname", "worker_id", "pid")


class Pairs:
    """Recorded id ↔ our id."""

    def __init__(self) -> None:
        self.ours: dict[str, str] = {}
        self.recorded: dict[str, str] = {}

    def translate(self, text: bytes) -> bytes:
        return UUID.sub(lambda found: self.ours.get(found[0], found[0]), text.decode()).encode()

    def same(self, recorded: str, our: str) -> bool:
        return self.ours.setdefault(recorded, our) == our and self.recorded.setdefault(our, recorded) == recorded


def answers(recorded: list[Answer], ours: list[Answer], pairs: Pairs, by_form: bool = False) -> Iterator[str]:
    """Differences of the answers to one request. by_form: values are measurements, only keys and types count."""
    if len(recorded) != len(ours):
        yield f"answers: {len(recorded)} -> {len(ours)}"
    for one, other in zip(recorded, ours, strict=False):
        yield from answer(one, other, pairs, by_form)


def answer(recorded: Answer, our: Answer, pairs: Pairs, by_form: bool) -> Iterator[str]:
    if recorded.status != our.status:
        yield f"status: {recorded.status} -> {our.status}"
    for name in HEADERS:
        old, new = recorded.headers.get(name), our.headers.get(name)
        if old != new:
            yield f"header {name}: {old} -> {new}"
    old, new = _parsed(recorded), _parsed(our)
    if old != new or isinstance(old, (dict, list)):
        yield from values("body", old, new, pairs, by_form)


def values(where: str, old: Any, new: Any, pairs: Pairs, by_form: bool) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict) and not where.endswith(".data"):
        for key in sorted(old.keys() | new.keys()):
            if key not in new:
                yield f"{where}.{key}: removed"
            elif key not in old:
                yield f"{where}.{key}: added"
            else:
                yield from values(f"{where}.{key}", old[key], new[key], pairs, by_form or key in LAGS)
    elif isinstance(old, list) and isinstance(new, dict):
        yield f"{where}: array -> object"
        if len(old) == 1:
            yield from values(where, old[0], new, pairs, by_form)
    elif isinstance(old, str) and isinstance(new, dict):
        yield f"{where}: page -> object of {', '.join(sorted(new))}"
    elif isinstance(old, dict) and isinstance(new, list):
        yield f"{where}: object -> array"
    elif isinstance(old, list) and isinstance(new, list) and not where.endswith(".data"):
        if keys := next((keys for keys in KEYS if _keyed(old, keys) and _keyed(new, keys)), None):
            ours = {_key(one, keys): one for one in new}
            common = [one for one in old if _key(one, keys) in ours]
            yield from (f"{where}[{_key(one, keys)}]: removed" for one in old if _key(one, keys) not in ours)
            yield from (f"{where}[{key}]: added" for key in ours.keys() - {_key(one, keys) for one in old})
            if [_key(one, keys) for one in common] != [_key(one, keys) for one in new
                                                       if one in [ours[_key(other, keys)] for other in common]]:
                yield f"{where}: another order"
            for one in common:
                yield from values(f"{where}[{'' if keys == ('index',) else _key(one, keys)}]", one,
                                  ours[_key(one, keys)], pairs, by_form)
            return
        if len(old) != len(new):
            yield f"{where}: {len(old)} elements -> {len(new)}"
        for one, other in zip(old, new, strict=False):
            yield from values(f"{where}[]", one, other, pairs, by_form)
    elif isinstance(old, str) and isinstance(new, str) and UUID.fullmatch(old) and UUID.fullmatch(new):
        if not pairs.same(old, new):
            yield f"{where}: another id"
    elif _kind(old) != _kind(new) or not by_form and not _kind(old).startswith("time") and old != new:
        yield f"{where}: {_short(old)} -> {_short(new)}"


def _key(element: dict, keys: tuple[str, ...]) -> str:
    return "/".join(str(element[key]) for key in keys)


def _keyed(elements: list, keys: tuple[str, ...]) -> bool:
    """True if `keys` tell the elements apart."""
    return (bool(elements) and all(isinstance(one, dict) and all(key in one for key in keys) for one in elements)
            and len({_key(one, keys) for one in elements}) == len(elements))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        if UUID.fullmatch(value):
            return "id"
        if found := TIME.fullmatch(value):
            return f"time{len(found[1] or '')}{found[2].strip('Z')}"
        return "text"
    if isinstance(value, bool) or value is None:
        return str(type(value))
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def _short(value: Any) -> str:
    if _kind(value).startswith(("id", "time")):
        return _kind(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:97] + "..."


def _parsed(one: Answer) -> Any:
    if not one.body:
        return None
    if "version=0.0.4" in one.headers.get("content-type", ""):
        return _families(one.body.decode())
    try:
        return json.loads(one.body)
    except ValueError:
        return one.body.decode()


def _families(text: str) -> dict[str, dict[str, Any]]:
    """Of a Prometheus exposition: type and samples by their labels. Who measured and what happened in the latest minute
    is chance; the daemon's own families are not looked at."""
    families = {name: {"type": kind} for name, kind in TYPE.findall(text) if not name.startswith("queend_")}
    for name, labels, value in SAMPLE.findall(text):
        if not name.startswith("queend_"):
            chance = MEASURERS if name == "queen_dlq_depth_by_queue" else (*MEASURERS, "queue")
            told = ", ".join(sorted(f'{key}="{"" if key in chance else what}"' for key, what in LABEL.findall(labels)))
            families[name][told or "value"] = float(value)
    return families


def by_partition(one: Answer) -> None:
    """Several claimed partitions come in no defined order: sorts them, each with its own messages in place."""
    value = _parsed(one)
    if isinstance(value, dict) and value.get("partitionsClaimed", 1) > 1 and value["messages"]:
        value["messages"].sort(key=lambda message: message["partition"])
        value["partition"], value["partitionId"] = (value["messages"][0][key] for key in ("partition", "partitionId"))
        one.body = json.dumps(value).encode()


def by_first(recorded: list[Answer], ours: list[Answer]) -> None:
    """Answers that are measurements: of lists only the first element counts, and nothing where one of them is empty;
    what is null on either side, because it was not measured yet, is null on both."""
    for one, other in zip(recorded, ours, strict=False):
        old, new = _shortened(_parsed(one), _parsed(other))
        if one.body and other.body and isinstance(old, (dict, list)):
            one.body, other.body = json.dumps(old).encode(), json.dumps(new).encode()


def _shortened(old: Any, new: Any) -> tuple[Any, Any]:
    if isinstance(old, dict) and isinstance(new, dict):
        both = {key: _shortened(old[key], new[key]) for key in old.keys() & new.keys()}
        return {**old,
                **{key: pair[0] for key, pair in both.items()}}, {**new, **{key: pair[1] for key, pair in both.items()}}
    if isinstance(old, list) and isinstance(new, list):
        if not old or not new:
            return [], []
        one, other = _shortened(old[0], new[0])
        # which is the first is chance
        for key in ("name", "queueName", "namespace", "task", "hostname", "table", "index", "object", "id"):
            if isinstance(one, dict) and isinstance(other, dict) and key in one and key in other:
                one[key] = other[key] = ""
        return [one], [other]
    return (None, None) if old is None or new is None else (old, new)
