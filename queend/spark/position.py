"""How far a stream has read: an offset per partition, compact in the checkpoint."""
from __future__ import annotations

import base64
import json
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

from .settings import OptionError

VERSION = 1
EARLIEST, LATEST = -2, -1    # as Kafka's source spells them

# queue -> number of the partition -> next offset
Position = dict[str, dict[int, int]]


def packed(position: Position, numbers: Mapping[str, int], assigned: bool = False) -> dict[str, Any]:
    """Returns a position in the form of a checkpoint, with the numbers of the queues beside it. Per queue it has the
    partitions' numbers, each as the step from the one before, and their offsets; compressed. `read` is for people.
    assigned: the stream reads only these partitions. Equal positions give equal texts, because Spark compares them."""
    return {"version": VERSION, "read": summed(position),
            "queues": {queue: _pack(position[queue]) for queue in sorted(position)},
            "numbers": {queue: numbers[queue] for queue in sorted(position) if queue in numbers},
            **({"assigned": True} if assigned else {})}


def summed(position: Position) -> dict[str, dict[str, int]]:
    """Returns the number of partitions of each queue, and the sum of their next offsets."""
    return {queue: {"partitions": len(offsets), "offsets": sum(offsets.values())}
            for queue, offsets in sorted(position.items())}


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns whether two packed positions are equal, whichever version of the connector wrote them."""
    return all(one.get(name) == other.get(name) for name in ("version", "queues", "numbers"))


def metrics(unread: Iterable[int]) -> dict[str, float]:
    """Returns the metrics of Kafka's source. unread: the records of each partition that are not read yet."""
    counts = list(unread) or [0]
    return {"avgOffsetsBehindLatest": round(sum(counts) / len(counts), 1), "maxOffsetsBehindLatest": max(counts),
            "minOffsetsBehindLatest": min(counts)}


def unpacked(values: Mapping[str, Any]) -> Position:
    if values.get("version") != VERSION:
        raise ValueError(f"the checkpoint has offsets of version {values.get('version')!r}; this connector reads "
                         f"version {VERSION}")
    return {queue: _unpack(text) for queue, text in values["queues"].items()}


def numbers_of(values: Mapping[str, Any]) -> dict[str, int]:
    """Returns the numbers of the queues; none if an older connector wrote the checkpoint."""
    return values.get("numbers", {})


def _pack(offsets: dict[int, int]) -> str:
    numbers = sorted(offsets)
    steps = array("i", [b - a for a, b in zip([0, *numbers], numbers, strict=False)])
    places = array("q", [offsets[number] for number in numbers])
    if sys.byteorder == "big":
        steps.byteswap()
        places.byteswap()
    raw = len(numbers).to_bytes(4, "little") + steps.tobytes() + places.tobytes()
    return base64.b64encode(zlib.compress(raw, 1)).decode()


def _unpack(text: str) -> dict[int, int]:
    raw = zlib.decompress(base64.b64decode(text))
    n = int.from_bytes(raw[:4], "little")
    steps, places = array("i", raw[4:4 + 4 * n]), array("q", raw[4 + 4 * n:])
    if sys.byteorder == "big":
        steps.byteswap()
        places.byteswap()
    offsets, number = {}, 0
    for step, place in zip(steps, places, strict=True):
        number += step
        offsets[number] = place
    return offsets


def asked(name: str, text: str | None) -> dict[str, dict[str, int]] | None:
    """Parses the option `name` as {"queue": {"partition": whole number}}."""
    if text is None:
        return None
    try:
        values = json.loads(text)
        return {queue: {str(partition): _whole(place) for partition, place in partitions.items()}
                for queue, partitions in values.items()}
    except (ValueError, AttributeError):
        raise OptionError(f'option "{name}" must be like {{"orders": {{"customer-7": 42}}}}, not {text!r}') from None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)
    return value
