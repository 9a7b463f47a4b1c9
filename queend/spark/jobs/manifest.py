"""The manifest of an archived queue: an entry per committed batch, numbered without a gap; a batch with an entry is
archived.

    _queend/<queue>/0000000000.json      where the archive began
    _queend/<queue>/0000000001.json      the first batch: ranges of offsets, and the files that have them
    _work/<queue>/<entry>-<run>/         what a batch is written to; its files are moved after its entry is there
    queue=<queue>/date=2026-11-23/…      where they are then

An entry is created under its name once: of two runs that write the same one, one is refused. So no run needs a lock
that could outlive it. After an interrupted run, files of an entry are moved by the next run; other files are not part
of the archive.
"""
from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .fault import JobError
from .objects import ObjectStore
from .store import Store

VERSION = 1
WORK, KEPT = "_work", "_queend"


class Span(NamedTuple):
    """Records of a partition from `start` on, before `end`. number: names the partition for ever, while its name may be
    reused."""

    number: int
    name: str
    start: int
    end: int


@dataclass
class Entry:
    """One file of the manifest."""

    number: int
    run: str
    queue: str
    identity: str                                            # of the queue; one created again has another
    rows: int = 0
    group: str | None = None                                 # whose offsets were committed
    begin: list[tuple[int, int]] = field(default_factory=list)      # partition, offset: gone before the archive began
    spans: list[Span] = field(default_factory=list)
    gaps: list[Span] = field(default_factory=list)           # lost before they were archived, and allowed
    files: list[dict[str, Any]] = field(default_factory=list)       # path, from (before it was moved), bytes

    def text(self) -> str:
        return json.dumps({"version": VERSION, "entry": self.number, "run": self.run, "queue": self.queue,
                           "queueId": self.identity, "rows": self.rows, "group": self.group, "begin": self.begin,
                           "ranges": self.spans, "gaps": self.gaps, "files": self.files}, ensure_ascii=False)

    @classmethod
    def of(cls, text: str) -> Entry:
        said = json.loads(text)
        if said["version"] != VERSION:
            raise ValueError(f"it has version {said['version']}; this queend supports version {VERSION}")
        return cls(said["entry"], said["run"], said["queue"], said["queueId"], said["rows"], said["group"],
                   [(a, b) for a, b in said["begin"]], [Span(*one) for one in said["ranges"]],
                   [Span(*one) for one in said["gaps"]], said["files"])


class Manifest:
    """The manifest as of its opening, and later additions."""

    def __init__(self, store: Store | ObjectStore, queue: str):
        self.store, self.queue = store, queue
        self.folder = f"{KEPT}/{store.escaped(queue)}"
        self.work = f"{WORK}/{store.escaped(queue)}"
        self.run = uuid.uuid4().hex
        self.entries: list[Entry] = []
        self.ends: dict[int, int] = {}       # partition → next offset
        self.names: dict[int, str] = {}
        self.begin: dict[int, int] = {}
        self.gaps: list[Span] = []
        self._load()

    @property
    def last(self) -> Entry | None:
        return self.entries[-1] if self.entries else None

    @property
    def identity(self) -> str | None:
        return self.entries[0].identity if self.entries else None

    def _name(self, number: int) -> str:
        return f"{self.folder}/{number:010}.json"

    def _load(self) -> None:
        names = [name for name in self.store.names(self.folder) if name.endswith(".json") and not name.startswith(".")]
        for number, name in enumerate(names):
            where = f"{self.store}/{self.folder}/{name}"
            if name != f"{number:010}.json":
                raise JobError(f"the manifest of queue {self.queue!r} is not whole: {self.store}/{self._name(number)} "
                               "is missing. Nothing was done; bring it back from a copy")
            try:
                self._add(Entry.of(self.store.read(f"{self.folder}/{name}")), number)
            except JobError:
                raise
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise JobError(f"{where} cannot be read, it is damaged or cut short ({error}). Nothing was done; "
                               "bring it back from a copy") from None

    def _add(self, entry: Entry, number: int) -> None:
        if (entry.number, entry.queue) != (number, self.queue):
            raise JobError(f"{self.store}/{self._name(number)} is entry {entry.number} of queue {entry.queue!r}: the "
                           "manifest is not whole. Nothing was done")
        if self.entries and entry.identity != self.identity:
            raise JobError(f"{self.store}/{self._name(number)} is of another queue named {entry.queue!r}: the "
                           "manifest is not whole. Nothing was done")
        self.begin.update(entry.begin)
        allowed = {(one.number, one.start): one.end for one in entry.gaps}
        for span in entry.spans:
            next_ = self.reached(span.number)
            next_ = allowed.get((span.number, next_), next_)
            if span.start != next_ or span.end <= span.start:
                raise JobError(f"{self.store}/{self._name(number)} has records {span.start} to {span.end - 1} of "
                               f"partition {span.name!r} where those from {next_} on should follow: the manifest is "
                               "not whole. Nothing was done")
            self.ends[span.number] = span.end
            self.names[span.number] = span.name
        self.gaps += entry.gaps
        self.entries.append(entry)

    def reached(self, number: int) -> int:
        """Returns the next offset of a partition."""
        return self.ends.get(number, self.begin.get(number, 0))

    def next(self, identity: str, **more: Any) -> Entry:
        return Entry(len(self.entries), self.run, self.queue, identity, **more)

    def commit(self, entry: Entry) -> None:
        """Writes an entry, which counts from then on."""
        if not self.store.create(self._name(entry.number), entry.text(), self.run):
            raise self.beaten()
        self._add(entry, entry.number)

    def beaten(self) -> JobError:
        return JobError(f"another run archived queue {self.queue!r} into {self.store} at the same time; its batch was "
                        "kept, and the batch of this run was dropped. Run the job again when the other run has ended")

    def is_beaten(self) -> bool:
        return self.store.exists(self._name(len(self.entries)))

    # -- files ---------------------------------------------------------------------------------------------------------

    def place(self) -> str:
        """Returns the folder for the next batch."""
        return f"{self.work}/{len(self.entries):010}-{self.run}"

    def settle(self) -> None:
        """Moves the files of the last entry to their final place and removes files that no run can commit any more."""
        if not self.entries:
            return
        for entry in self.entries[-2:]:
            for file in entry.files:
                self.store.move(file["from"], file["path"])
        for name in self.store.names(self.work):
            number, _, _ = name.partition("-")
            if number.isdigit() and int(number) < len(self.entries):
                self.store.remove(f"{self.work}/{name}")

    def found(self) -> dict[str, list[str]]:
        """Returns the present place of the files, by the folder above date=…; an error if one is missing."""
        places: dict[str, list[str]] = {}
        for entry in self.entries:
            for file in entry.files:
                for name in (file["path"], file["from"]):
                    size = self.store.size(name)
                    if size is not None:
                        break
                if size != file["bytes"]:
                    raise JobError(f"the archive of queue {self.queue!r} is not whole: {self.store}/{file['path']} "
                                   + ("is missing" if size is None else f"has {size} bytes instead of {file['bytes']}"))
                places.setdefault(name.rpartition("/date=")[0], []).append(name)
        return places
