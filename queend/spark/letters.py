"""Dead letters: a queue, or files of JSON lines, for rows that the daemon refuses."""
from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from .link import Link, Refused
from .settings import SinkSettings

PUSH, DEFAULT = "/api/v1/push?format=counts", "Default"


def letter(table: pa.Table, at: int, row: int, where: dict[str, Any], error: str) -> dict[str, Any]:
    """Returns a row as a JSON object. at: its place in the table; row: its number in the Spark partition."""
    value = table.column("payload")[at].as_py()
    said = {**where, "row": row, "error": error}
    for name in ("queue", "partition", "transactionId", "traceparent"):
        if name in table.column_names and (given := table.column(name)[at].as_py()) is not None:
            said[name] = given
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return {**said, "valueBase64": base64.b64encode(value).decode()}
    return {**said, "value": value}


class NotStored(RuntimeError):
    """A dead letter that the daemon did not store."""


class Letters:
    """The refused rows of one task. A repeated task writes the same letters, whatever the order of its rows, if they
    have transaction ids."""

    def __init__(self, settings: SinkSettings, name: str):
        self.settings, self.name = settings, name
        self.kept: list[dict[str, Any]] = []

    def add(self, one: dict[str, Any], link: Link) -> None:
        if not self.settings.dead_queue:
            self.kept.append(one)
            return
        row = "\0".join(str(one.get(name)) for name in ("queue", "partition", "transactionId"))
        key = uuid.uuid4().hex if one.get("transactionId") is None else hashlib.sha256(
            f"{self.name}\0{row}".encode()).hexdigest()[:32]
        item = {"queue": self.settings.dead_queue, "partition": one.get("partition") or DEFAULT,
                "transactionId": f"refused-{key}", "payload": one}
        try:
            said = link.json(PUSH, {"items": [item]})
        except Refused as refused:
            if refused.status != 400 or item["partition"] == DEFAULT:
                raise
            # The row may have been refused because of its partition.
            said = link.json(PUSH, {"items": [{**item, "partition": DEFAULT}]})
        if said["error"]:
            raise NotStored(f"the dead-letter queue {self.settings.dead_queue!r} did not store row {one['row']} of "
                            f"Spark partition {one.get('sparkPartition')}: {said}")

    def close(self) -> None:
        """Makes the file visible, as a whole or not at all."""
        if not self.kept or not self.settings.dead_path:
            return
        system, folder = fs.FileSystem.from_uri(self.settings.dead_path) if "://" in self.settings.dead_path else (
            fs.LocalFileSystem(), self.settings.dead_path)
        system.create_dir(folder, recursive=True)
        path = f"{folder}/{quote(self.name, safe='')}.ndjson"
        part = f"{path}.{uuid.uuid4().hex}.part"    # a speculative copy of the task may write at the same time
        with system.open_output_stream(part) as out:
            for one in self.kept:
                out.write(json.dumps(one, ensure_ascii=False).encode() + b"\n")
        system.move(part, path)
