"""What a queue holds, read by offset."""
from __future__ import annotations

from .client import Client


def heads(client: Client, queue: str) -> dict[str, int]:
    found, after = {}, None
    while True:
        answer = client.post("/api/v1/offsets", {"queue": queue, **({"after": after} if after else {})})
        if answer.status == 404:
            return {}
        found |= {one["name"]: one["highWatermark"] for one in answer.json["partitions"]}
        after = answer.json["next"]
        if after is None:
            return found


def stored(client: Client, queue: str, partition: str = "Default") -> list:
    found: list = []
    while True:
        (entry,) = client.post("/api/v1/fetch", {
            "entries": [{"queue": queue, "partition": partition, "offset": len(found)}]}).json["entries"]
        if not entry.get("records"):
            return found
        found += [one["payload"] for one in entry["records"]]
