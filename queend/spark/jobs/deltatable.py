"""An archive as a Delta table, by delta-rs: `_delta_log` in the folder of the archive, with all its queues. Each
transaction has the queue's id and the number of the entry (txn)."""
from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from .archivetable import ArchiveTable
from .fault import JobError, failing

if TYPE_CHECKING:
    from .manifest import Entry, Manifest
    from .objects import ObjectStore
    from .store import Store

PARTED = ["queue", "date"]
# The archive's files stay, whatever is done to the table: rows are only added, and VACUUM keeps files for 100 years.
SETTINGS = {"delta.appendOnly": "true", "delta.deletedFileRetentionDuration": "interval 5200 weeks"}


class DeltaArchive(ArchiveTable):
    """The Delta table of one archive. columns: those of the files, in Spark's DDL."""

    name = "Delta"

    def __init__(self, store: Store | ObjectStore, columns: str):
        super().__init__(store)
        from pyspark.sql.types import StructType
        try:
            from deltalake import DeltaTable, Schema
            from deltalake.exceptions import CommitFailedError
        except ImportError:
            raise JobError("a Delta table needs deltalake: install queend with its extra `spark-delta`") from None
        self.conflict = CommitFailedError
        self._schema = Schema.from_json(StructType.fromDDL(f"{columns}, queue string, date date").json())
        url = store.local.as_uri() if store.local else str(store)
        with failing(f"the Delta table of {store}"):
            try:
                self._table = DeltaTable.create(url, self._schema, mode="ignore", partition_by=PARTED,
                                                configuration=SETTINGS)
            except CommitFailedError:    # another run has just created it
                self._table = DeltaTable(url)

    @staticmethod
    def _app(manifest: Manifest) -> str:
        return f"queend:{manifest.identity}"

    def _done(self, manifest: Manifest) -> int:
        self._table.update_incremental()
        return self._table.transaction_version(self._app(manifest)) or 0

    def _commit(self, manifest: Manifest, entry: Entry) -> None:
        from deltalake import CommitProperties, Transaction

        number = Transaction(self._app(manifest), entry.number)
        self._table.create_write_transaction([self._added(entry, file) for file in entry.files], "append",
                                             self._schema, PARTED,
                                             commit_properties=CommitProperties(app_transactions=[number]))

    def _added(self, entry: Entry, file: dict[str, Any]) -> Any:
        from deltalake.transaction import AddAction

        footer = self.store.footer(file["path"])
        offset = footer.schema.names.index("offset")
        groups = [footer.row_group(number).column(offset).statistics for number in range(footer.num_row_groups)]
        stats = {"numRecords": footer.num_rows, "minValues": {"offset": min(one.min for one in groups)},
                 "maxValues": {"offset": max(one.max for one in groups)}}
        values = {"queue": entry.queue, "date": file["path"].rpartition("/")[0].rpartition("date=")[2]}
        return AddAction(file["path"], file["bytes"], values, int(time.time() * 1000), True, json.dumps(stats))
