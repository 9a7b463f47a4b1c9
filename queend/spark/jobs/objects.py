"""An archive in a bucket of S3, without Hadoop: requests go through obstore, tasks write and read Parquet by pyarrow
(objectfiles.py). Of two runs that create an object under one name, a conditional put (If-None-Match: *) refuses one."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from .bucket import asking_store, bucket
from .fault import JobError
from .objectfiles import LIST, ObjectFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEME = "s3://"
LENGTH = 8    # bytes at the end of a file of Parquet: the length of its footer, and a mark


class ObjectStore:
    """A prefix in a bucket; names are relative to it. An object appears as a whole, and is durable then."""

    local = None

    def __init__(self, spark: SparkSession, url: str):
        self.spark, self.url = spark, url.rstrip("/")
        if not url.removeprefix(SCHEME).strip("/"):
            raise JobError(f"{url} names no bucket: write s3://bucket/prefix")
        try:
            self._bucket = bucket(self.url)
        except ImportError:
            raise JobError(f"{url} needs obstore: install queend with its extra `spark-s3`") from None
        except ValueError as error:
            raise JobError(f"cannot use {url!r}: {error}") from None

    def __str__(self) -> str:
        return self.url

    def escaped(self, value: str) -> str:
        """Returns a value as Spark spells it in the name of a folder."""
        names: Any = self.spark._jvm
        return names.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.escapePathName(value)

    def exists(self, name: str) -> bool:
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """Returns the bytes of an object, None if it does not exist."""
        try:
            with asking_store(self.url):
                return self._bucket.head(name)["size"]
        except FileNotFoundError:
            return None

    def names(self, name: str) -> list[str]:
        """Returns the names below a prefix; an empty list if there is none."""
        with asking_store(self.url):
            found = self._bucket.list_with_delimiter(f"{name}/")
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def read(self, name: str) -> str:
        with asking_store(self.url):
            return bytes(self._bucket.get(name).bytes()).decode()

    def footer(self, name: str) -> pq.FileMetaData:
        """Returns the footer of a file of Parquet, without its rows."""
        with asking_store(self.url):
            length = int.from_bytes(self._last(name, LENGTH)[:4], "little")
            return pq.read_metadata(pa.BufferReader(self._last(name, length + LENGTH)))

    def _last(self, name: str, size: int) -> bytes:
        return bytes(self._bucket.get(name, options={"range": {"suffix": size}}).bytes())

    def create(self, name: str, text: str, mark: str) -> bool:
        """Creates an object. Returns False if it exists already. If the answer is lost, obstore sends the request again
        and meets its own object: a text names its writer, so the same text is the writer's own. mark: for other
        stores."""
        from obstore.exceptions import AlreadyExistsError

        with asking_store(self.url):
            try:
                self._bucket.put(name, text.encode(), mode="create")
            except AlreadyExistsError:
                return self.read(name) == text
        return True

    def move(self, name: str, to: str) -> None:
        """Copies an object and deletes the original; does nothing if it was moved before."""
        try:
            with asking_store(self.url):
                self._bucket.rename(name, to)
        except FileNotFoundError:
            if not self.exists(to):
                raise JobError(f"{self}/{name} is missing: it is part of what is archived") from None

    def remove(self, name: str) -> None:
        """Deletes all objects below a prefix."""
        with asking_store(self.url):
            for page in self._bucket.list(f"{name}/"):
                self._bucket.delete([one["path"] for one in page])

    def force(self, names: list[str]) -> None:
        """Does nothing: an object that exists is durable."""

    def write(self, frame: DataFrame, place: str, compression: str) -> list[tuple[str, int]]:
        """Writes a frame, which is sorted by date within its partitions: a file per task and date. Returns their names
        below `place`, and their bytes. Files of attempts that failed stay there too, and are not returned."""
        out = frame.write.format(self._files()).options(url=self.url, place=place, compression=compression)
        out.mode("append").save()
        return [(name, size) for name, size in json.loads(self.read(f"{place}/{LIST}"))]

    def frame(self, schema: str, names: list[str]) -> DataFrame:
        """Returns the rows of files whose folders name their date: a task per file."""
        files = self.spark.read.format(self._files()).schema(schema)
        return files.options(url=self.url, names=json.dumps(names)).load()

    def _files(self) -> str:
        self.spark.dataSource.register(ObjectFiles)
        return ObjectFiles.name()
