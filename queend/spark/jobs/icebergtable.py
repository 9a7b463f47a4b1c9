"""An archive as an Iceberg table per queue, by pyiceberg. The catalog is a SQLite file in the folder of the archive, or
one of pyiceberg's configuration. A property of the table has the number of the last entry."""
from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from .archivetable import ArchiveTable
from .fault import JobError, failing

if TYPE_CHECKING:
    from .manifest import Entry, Manifest
    from .objects import ObjectStore
    from .store import Store

SPACE, FOLDER, ENTRY = "queend", "_iceberg", "queend-entry"
# Files are the archive's: no engine may delete them. A commit that was overtaken must not be repeated unseen.
SETTINGS = {"gc.enabled": "false", "commit.retry.num-retries": "0"}


class IcebergArchive(ArchiveTable):
    """The Iceberg tables of one archive. catalog: a name in pyiceberg's configuration; None: SQLite."""

    name = "Iceberg"

    def __init__(self, store: Store | ObjectStore, catalog: str | None = None):
        super().__init__(store)
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import CommitFailedException
        except ImportError:
            raise JobError("an Iceberg table needs pyiceberg: install queend with its extra `spark-iceberg`") from None
        self.conflict = CommitFailedException
        self._root = f"file://{store.local}" if store.local else str(store)
        self._table: Any = None
        with failing(f"the Iceberg catalog of {store}"):
            if catalog:
                self._catalog = load_catalog(catalog)
            elif store.local:
                self._catalog = self._sqlite(store.local / FOLDER / "catalog.db")
            else:
                raise JobError(f"an Iceberg table in {store} needs --catalog: a catalog of pyiceberg's configuration")
            self._catalog.create_namespace_if_not_exists(SPACE)

    @staticmethod
    def _sqlite(path: Path) -> Any:
        """Opens a catalog in a SQLite file, which is created as a whole: several runs may do so at once."""
        from pyiceberg.catalog.sql import SqlCatalog

        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            part = path.with_name(f".{uuid4().hex}")
            made = SqlCatalog(SPACE, uri=f"sqlite:///{part}")
            made.create_namespace(SPACE)
            made.close()
            try:
                os.link(part, path)
            except FileExistsError:    # another run has just created it
                pass
            finally:
                part.unlink()
        return SqlCatalog(SPACE, uri=f"sqlite:///{path}")

    def _done(self, manifest: Manifest) -> int:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            self._table = self._loaded(manifest)
        except NoSuchTableError:
            return 0
        return int(self._table.properties.get(ENTRY, 0))

    def _commit(self, manifest: Manifest, entry: Entry) -> None:
        number, table = {ENTRY: str(entry.number)}, self._table or self._created(manifest, entry)
        with table.transaction() as change:
            change.add_files([f"{self._root}/{file['path']}" for file in entry.files], snapshot_properties=number,
                             check_duplicate_files=False)
            change.set_properties(number)

    def _loaded(self, manifest: Manifest) -> Any:
        table, where = self._catalog.load_table((SPACE, manifest.queue)), self._place(manifest)
        if table.location() != where:
            raise JobError(f"table {SPACE}.{manifest.queue} of the catalog is that of another folder: "
                           f"{table.location()}")
        return table

    def _created(self, manifest: Manifest, entry: Entry) -> Any:
        """Creates the table with the columns of the archive's files, by days."""
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.transforms import DayTransform

        columns = self.store.footer(entry.files[0]["path"]).schema.to_arrow_schema()
        try:
            with self._catalog.create_table_transaction((SPACE, manifest.queue), columns, self._place(manifest),
                                                        properties=SETTINGS) as made:
                with made.update_spec() as spec:
                    spec.add_field("timestamp", DayTransform(), "date")
        except (self.conflict, TableAlreadyExistsError):    # another run has just created it
            pass
        return self._loaded(manifest)

    def _place(self, manifest: Manifest) -> str:
        return f"{self._root}/{FOLDER}/{self.store.escaped(manifest.queue)}"
