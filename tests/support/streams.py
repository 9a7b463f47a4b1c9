"""A stream as its client drives it, step by step: registered, popped for, cycled."""
from __future__ import annotations

from typing import Any

from .client import Client
from .wait import until


class Stream:
    """A registered query and its group."""

    def __init__(self, client: Client, name: str, source: str, sink: str | None = None, config_hash: str = "h"):
        self.client, self.source, self.group = client, source, f"streams.{name}"
        body = {"name": name, "source_queue": source, "sink_queue": sink, "config_hash": config_hash}
        # 503: the request met a connection to the database that was cut while it was idle
        answer = until(lambda: (one := client.post("/streams/v1/queries", body)).status != 503 and one, "an answer")
        assert answer.status == 200 and answer.json["success"], answer.body
        self.id = answer.json["query_id"]

    def pop(self, **query: Any) -> list[dict]:
        return self.client.pop(self.source, consumerGroup=self.group, **{"batch": 100, **query})

    def body(self, messages: list[dict] | str, sets: dict | None = None, push: list[dict] | None = None,
             unsets: list[str] = [], ack: bool = True, **more: Any) -> dict:
        """messages: of one partition, acknowledged to the last; or a partition id, then there is no acknowledgment."""
        ops = [{"type": "upsert", "key": key, "value": value}
               for key, value in (sets or {}).items()] + [{"type": "delete", "key": key} for key in unsets]
        if isinstance(messages, str):
            return {"query_id": self.id, "partition_id": messages, "state_ops": ops, "push_items": push or [],
                    "ack": None, **more}
        last = messages[-1]
        done = {"transactionId": last["transactionId"], "leaseId": last["leaseId"], "status": "completed",
                "count": len(messages)}
        return {"query_id": self.id, "partition_id": last["partitionId"], "consumer_group": self.group,
                "state_ops": ops, "push_items": push or [], "ack": done if ack else None, **more}

    def cycle(self, *arguments: Any, **more: Any) -> dict:
        return self.post(self.body(*arguments, **more))

    def post(self, body: dict) -> dict:
        answer = self.client.post("/streams/v1/cycle", body)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def state(self, partition: str, **filters: Any) -> dict[str, Any]:
        answer = self.client.post("/streams/v1/state/get", {"query_id": self.id, "partition_id": partition, **filters})
        assert answer.status == 200 and answer.json["success"], answer.body
        keys = [row["key"] for row in answer.json["rows"]]
        assert keys == sorted(keys, key=str.encode)
        return {row["key"]: row["value"] for row in answer.json["rows"]}
