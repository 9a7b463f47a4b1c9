"""A folder on any file system that Spark writes to: files appear as a whole, and once. A bucket of S3 is an
ObjectStore."""
from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from .fault import JobError, told
from .objects import SCHEME, ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES = "spark.sql.parquet.outputTimestampType"


def opened_store(spark: SparkSession, folder: str) -> Store | ObjectStore:
    """Returns the store of a folder, or of a bucket, s3://bucket/prefix."""
    return ObjectStore(spark, folder) if folder.startswith(SCHEME) else Store(spark, folder)


class Store:
    """A folder; names are relative to it. Files on a local disk are flushed before they count; on other file systems
    Hadoop's client does this."""

    def __init__(self, spark: SparkSession, folder: str):
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise JobError("the jobs require a classic Spark session with its own JVM, not Spark Connect")
        self._jvm, self._spark = jvm, spark
        try:
            root = jvm.org.apache.hadoop.fs.Path(folder)
            self._fs = root.getFileSystem(spark._jsc.hadoopConfiguration())
            self._root = self._fs.makeQualified(root)
        except Exception as error:  # noqa: BLE001 - a scheme nobody knows, a name that cannot be
            raise JobError(f"Spark cannot use the directory {folder!r}: {told(error)}") from None
        self.local = Path(self._root.toUri().getPath()) if self._fs.getUri().getScheme() == "file" else None

    def __str__(self) -> str:
        return str(self.local) if self.local else self._root.toString()

    def path(self, name: str) -> str:
        """Returns a path as Spark takes it."""
        return self._path(name).toString()

    def escaped(self, value: str) -> str:
        """Returns a value as Spark spells it in the name of a folder."""
        return self._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.escapePathName(value)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def exists(self, name: str) -> bool:
        return (self.local / name).exists() if self.local else self._fs.exists(self._path(name))

    def names(self, name: str) -> list[str]:
        """Returns the names in a folder; an empty list if there is none."""
        if self.local:
            try:
                return sorted(os.listdir(self.local / name))
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(one.getPath().getName()
                      for one in self._fs.listStatus(self._path(name))) if self._fs.exists(self._path(name)) else []

    def files(self, name: str, suffix: str) -> list[tuple[str, int]]:
        """Returns the files below a folder with this suffix, relative to it, and their bytes."""
        if self.local:
            base = self.local / name
            return sorted((str(one.relative_to(base)),
                           one.stat().st_size) for one in base.rglob(f"*{suffix}")
                          if not one.name.startswith((".", "_")))
        found, walk, base = [], self._fs.listFiles(self._path(name), True), self._path(name).toUri().getPath()
        while walk.hasNext():
            one = walk.next()
            if one.getPath().getName().endswith(suffix):
                found.append((one.getPath().toUri().getPath()[len(base) + 1:], one.getLen()))
        return sorted(found)

    def size(self, name: str) -> int | None:
        """Returns the bytes of a file, None if it does not exist."""
        if self.local:
            try:
                return (self.local / name).stat().st_size
            except FileNotFoundError:
                return None
        return self._fs.getFileStatus(self._path(name)).getLen() if self._fs.exists(self._path(name)) else None

    def read(self, name: str) -> str:
        if self.local:
            return (self.local / name).read_text()
        stream = self._fs.open(self._path(name))
        try:
            return self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()

    def footer(self, name: str) -> pq.FileMetaData:
        """Returns the footer of a file of Parquet on this machine."""
        return pq.read_metadata(Path(str(self), name))

    def create(self, name: str, text: str, mark: str) -> bool:
        """Creates a file: whole, on the disk, under its name at once. Returns False if it exists already. mark: tells
        writers apart."""
        folder, _, last = name.rpartition("/")
        part = f"{folder}/.{last}.{mark}"
        if self.local is None:
            self._fs.mkdirs(self._path(folder))
            stream = self._fs.create(self._path(part), True)
            try:
                stream.write(text.encode())
            finally:
                stream.close()
            made = not self._fs.exists(self._path(name)) and self._fs.rename(self._path(part), self._path(name))
            if not made:
                self._fs.delete(self._path(part), False)
            return made
        (self.local / folder).mkdir(parents=True, exist_ok=True)
        try:
            with (self.local / part).open("w") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            os.link(self.local / part, self.local / name)
        except FileExistsError:
            return False
        finally:
            (self.local / part).unlink(missing_ok=True)
        self._sync(self.local / folder)
        return True

    def move(self, name: str, to: str) -> None:
        """Moves a file; does nothing if it was moved before."""
        if self.local:
            (self.local / to).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.replace(self.local / name, self.local / to)
            except FileNotFoundError:    # moved before, or by another run just now
                if not (self.local / to).exists():
                    raise JobError(f"{self}/{name} is missing: it is part of what is archived") from None
            return
        target = self._path(to)
        self._fs.mkdirs(target.getParent())
        if not self._fs.rename(self._path(name), target) and not self._fs.exists(target):
            raise JobError(f"{self.path(name)} could not be moved to {target.toString()}")

    def remove(self, name: str) -> None:
        self._fs.delete(self._path(name), True)

    def write(self, frame: DataFrame, place: str, compression: str) -> list[tuple[str, int]]:
        """Writes a frame as files of Parquet by date. Returns their names below `place`, and their bytes."""
        writer = frame.write.mode("errorifexists").option("compression", compression)
        before = self._spark.conf.get(TIMES)
        self._spark.conf.set(TIMES, "TIMESTAMP_MICROS")    # Spark's INT96 has no statistics, and is not Iceberg's
        try:
            writer.partitionBy("date").parquet(self.path(place))
        finally:
            self._spark.conf.set(TIMES, before)
        return self.files(place, ".parquet")

    def frame(self, schema: str, names: list[str]) -> DataFrame:
        """Returns the rows of files of one folder, whose folders below it name their date."""
        base = names[0].rpartition("/date=")[0]
        return self._spark.read.schema(schema).option("basePath", self.path(base)).parquet(*map(self.path, names))

    def force(self, names: list[str]) -> None:
        """Flushes files to the disk, and the folders they are in."""
        if self.local is None:
            return
        folders = set()
        for name in names:
            self._sync(self.local / name)
            folders |= {one for one in (self.local / name).parents if one.is_relative_to(self.local)}
        for folder in folders:
            self._sync(folder)

    @staticmethod
    def _sync(path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
