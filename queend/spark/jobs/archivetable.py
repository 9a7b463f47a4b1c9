"""An archive as a table of a lake, beside its Parquet files, which become the files of the table. The manifest decides
what is archived, the table follows: one transaction per entry. The table remembers the number of its last entry in the
same transaction, so an entry that it has is refused, whoever commits it again."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .fault import JobError, failing
from .objects import ObjectStore

if TYPE_CHECKING:
    from .manifest import Entry, Manifest
    from .store import Store


class ArchiveTable:
    """A table of one archive. Each format has a class; its constructor creates what is missing."""

    name: str
    conflict: type[Exception]    # raised by `_commit` if another run committed meanwhile

    def __init__(self, store: Store | ObjectStore):
        if not (store.local or isinstance(store, ObjectStore)) or set("%#?") & set(str(store)):
            raise JobError(f"{store} cannot be a table: only s3://bucket/prefix, or a folder of this machine whose "
                           "path has no %, # or ?")
        self.store = store

    def follow(self, manifest: Manifest) -> None:
        """Adds the files of the entries that the table lacks. They must be in their final place."""
        last = len(manifest.entries) - 1
        with failing(f"{self.store}: its {self.name} table does not follow. What is archived is kept; the next run "
                     f"with --table {self.name.lower()} adds it"):
            while (done := self._done(manifest)) < last:
                try:
                    self._commit(manifest, manifest.entries[done + 1])
                except self.conflict:    # another run may have added this entry just now
                    if self._done(manifest) == done:
                        raise
        if done > last:
            raise JobError(f"the {self.name} table of {self.store} has entry {done} of queue {manifest.queue!r}, but "
                           f"the manifest ends at {last}. Was the archive brought back from a copy? Bring back the "
                           "table of the same copy")

    def _done(self, manifest: Manifest) -> int:
        """Returns the number of the last entry that the table has now, 0 if it has none."""
        raise NotImplementedError

    def _commit(self, manifest: Manifest, entry: Entry) -> None:
        raise NotImplementedError
