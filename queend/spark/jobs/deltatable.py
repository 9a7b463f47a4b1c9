"""An archive as a Delta table: a log, `_delta_log`, beside the Parquet files of all its queues. The manifest decides
what is archived, the log follows: one transaction per entry of the manifest. Each transaction holds the queue and the
number of its entry (txn), so an entry that is there already is refused, whoever commits it again."""
from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from .fault import JobError, failing

if TYPE_CHECKING:
    from .manifest import Entry, Manifest
    from .objects import ObjectStore
    from .store import Store

PARTED = ["queue", "date"]
# The archive's files stay, whatever is done to the table: rows are only added, and VACUUM keeps files for 100 years.
SETTINGS = {"delta.appendOnly": "true", "delta.deletedFileRetentionDuration": "interval 5200 weeks"}


class ArchiveDelta:
    """The Delta table of one archive. columns: those of the files, in Spark's DDL."""

    def __init__(self, store: Store | ObjectStore, columns: str):
        from pyspark.sql.types import StructType
        try:
            from deltalake import DeltaTable, Schema
            from deltalake.exceptions import CommitFailedError
        except ImportError:
            raise JobError("a Delta table needs deltalake: install queend with its extra `spark-delta`") from None
        if store.url is None or "%" in str(store):
            raise JobError(f"{store} cannot be a Delta table: only a folder of this machine whose path has no %, or "
                           "s3://bucket/prefix")
        self.store = store
        self._schema = Schema.from_json(StructType.fromDDL(f"{columns}, queue string, date date").json())
        with failing(f"the Delta table of {store}"):
            try:
                self._table = DeltaTable.create(store.url, self._schema, mode="ignore", partition_by=PARTED,
                                                configuration=SETTINGS)
            except CommitFailedError:    # another run has just created it
                self._table = DeltaTable(store.url)

    def follow(self, manifest: Manifest) -> None:
        """Adds the files of the entries that the table lacks. They must be in their final place."""
        from deltalake.exceptions import CommitFailedError

        app, last = f"queend:{manifest.identity}", len(manifest.entries) - 1
        with failing(f"{self.store}: its Delta table does not follow. What is archived is kept; the next run with "
                     "--table delta adds it"):
            while (done := self._done(app)) < last:
                try:
                    self._commit(app, manifest.entries[done + 1])
                except CommitFailedError:    # another run may have added this entry just now
                    if self._done(app) == done:
                        raise
        if done > last:
            raise JobError(f"the Delta table of {self.store} has entry {done} of queue {manifest.queue!r}, but the "
                           f"manifest ends at {last}. Was the archive brought back from a copy? Bring back _delta_log "
                           "of the same copy")

    def _done(self, app: str) -> int:
        """Returns the number of the last entry that the table has now."""
        self._table.update_incremental()
        return self._table.transaction_version(app) or 0

    def _commit(self, app: str, entry: Entry) -> None:
        from deltalake import CommitProperties, Transaction

        self._table.create_write_transaction(
            [self._added(entry, file) for file in entry.files], "append", self._schema, PARTED,
            commit_properties=CommitProperties(app_transactions=[Transaction(app, entry.number)]))

    def _added(self, entry: Entry, file: dict[str, Any]) -> Any:
        from deltalake.transaction import AddAction

        footer = self.store.footer(file["path"])
        offset = footer.schema.names.index("offset")
        groups = [footer.row_group(number).column(offset).statistics for number in range(footer.num_row_groups)]
        stats = {"numRecords": footer.num_rows, "minValues": {"offset": min(one.min for one in groups)},
                 "maxValues": {"offset": max(one.max for one in groups)}}
        values = {"queue": entry.queue, "date": file["path"].rpartition("/")[0].rpartition("date=")[2]}
        return AddAction(file["path"], file["bytes"], values, int(time.time() * 1000), True, json.dumps(stats))
