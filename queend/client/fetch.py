"""Reads of stored messages by offset, page by page: no consumer group takes part."""
from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .call import Call, Steps, encoded
from .errors import NOT_FOUND, NotFound, Refused
from .message import Record, record, zoned

ENTRIES = 500           # partitions that one request reads
PAGE = 1 << 20          # bytes of payload that one answer has, unless its first message is larger
EVER = "1970-01-01T00:00:00Z"       # before every stored message
UNKNOWN, OUT_OF_RANGE = "UNKNOWN_TOPIC_OR_PARTITION", "OFFSET_OUT_OF_RANGE"


@dataclass
class Place:
    """The messages of a partition that are still to be read. next: offset of the first; end: offset behind the last."""

    partition: str
    next: int
    end: int


class Reading:
    """One read of a partition, or of all partitions of a queue (partition: None). Ends where the partitions ended when
    it began, or after `limit` messages. offset: first offset, of one partition; since: reads only messages that were
    stored at or after this moment. Raises ValueError for arguments that do not fit together."""

    def __init__(self, queue: str, partition: str | None, offset: int | None, since: datetime | None,
                 limit: int | None):
        if offset is not None and partition is None:
            raise ValueError("an offset belongs to one partition: name the partition, too")
        if offset is not None and since is not None:
            raise ValueError("a read begins at an offset or at a moment (since), not at both")
        if offset is not None and offset < 0:
            raise ValueError(f"offset must be at least 0, not {offset}")
        if limit is not None and limit < 0:
            raise ValueError(f"limit must be at least 0, not {limit}")
        self.queue, self.partition, self.offset = queue, partition, offset
        self.since = None if since is None else zoned(since)
        self._limit, self._read = limit, 0
        self._places: deque[Place] = deque()
        self._begun, self._after = False, ""        # _after: where the list of partitions goes on
        self._refused: Refused | None = None

    @property
    def ended(self) -> bool:
        """Whether every message was read."""
        if self._limit is not None and self._read >= self._limit:
            return True
        return self._begun and not self._places and not self._after and self._refused is None

    def page(self) -> Steps[list[Record]]:
        """Reads the next page, which may be empty. Raises NotFound if there is no such queue, and Refused if the offset
        is behind the end of the partition, or if the server cannot read a message."""
        if self._refused is not None:
            raise self._refused
        if not self._places:
            yield from (self._all_places() if self.partition is None else self._one_place(self.partition))
            self._begun = True
        asked = [self._places.popleft() for _ in range(min(len(self._places), self._left(ENTRIES)))]
        if not asked:
            return []
        entries = [{"queue": self.queue, "partition": place.partition, "offset": place.next,
                    "end": min(place.end, place.next + self._left(place.end))} for place in asked]
        reply = yield Call("POST", "/api/v1/fetch", body=encoded({"entries": entries, "maxBytes": PAGE}))
        found: list[Record] = []
        for place, entry in zip(asked, reply.json["entries"], strict=True):
            found += [record(one, self.queue, place.partition) for one in entry["records"]]
            self._advance(place, entry)
        self._places.extendleft(place for place in reversed(asked) if place.next < place.end)
        found = found[:self._left(len(found))]
        self._read += len(found)
        return found

    def _left(self, most: int) -> int:
        """Returns how many messages may still be read, at most `most`."""
        return most if self._limit is None else min(most, self._limit - self._read)

    def _advance(self, place: Place, entry: Mapping[str, Any]) -> None:
        """Moves a place behind what an answer has of it. Notes an error, which the next page raises."""
        error, records = entry.get("error"), entry["records"]
        if records:
            place.next = records[-1]["offset"] + 1
        place.next = max(place.next, entry.get("nextOffset", 0))      # behind messages that were erased
        if error == OUT_OF_RANGE:       # retention removed messages, or the partition was deleted
            floor = entry["logStartOffset"]
            place.next = floor if floor > place.next else place.end
        elif error == UNKNOWN:
            self._refused = self._unknown()
        elif error:
            self._refused = Refused(f"queue {self.queue!r}, partition {place.partition!r}: the server cannot read the "
                                    f"message at offset {place.next}", code=str(error))

    def _one_place(self, partition: str) -> Steps[None]:
        """Finds where one partition begins and ends."""
        entry = {"queue": self.queue, "partition": partition, "timestamp": self.since or EVER}
        reply = yield Call("POST", "/api/v1/fetch/offsets", body=encoded({"entries": [entry]}))
        (found,) = reply.json["entries"]
        if found.get("error"):
            raise self._unknown()
        floor, head = found["logStartOffset"], found["highWatermark"]
        first = head if found["offset"] is None else found["offset"]
        if self.offset is not None:
            if self.offset > head:
                raise Refused(f"queue {self.queue!r}, partition {partition!r}: offset {self.offset} is behind the end, "
                              f"which is {head}", code=OUT_OF_RANGE)
            first = max(self.offset, floor)
        if first < head:
            self._places.append(Place(partition, first, head))

    def _all_places(self) -> Steps[None]:
        """Finds where the next partitions of the queue begin and end: up to 10 000 in order of creation."""
        body = {"queue": self.queue, **({"at": self.since} if self.since else {}),
                **({"after": self._after} if self._after else {})}
        reply = yield Call("POST", "/api/v1/offsets", body=encoded(body), accept=(NOT_FOUND,))
        if reply.status == NOT_FOUND:
            raise self._unknown()
        answer = reply.json
        for found in answer["partitions"]:
            place = Place(found["name"], found["offset" if self.since else "logStartOffset"], found["highWatermark"])
            if place.next < place.end:
                self._places.append(place)
        self._after = answer["next"] or ""

    def _unknown(self) -> NotFound:
        return NotFound(f"there is no queue {self.queue!r}", NOT_FOUND)
