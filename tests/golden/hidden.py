"""Steps of the conversation that were not recorded, reconstructed from what the recorded answers show.

Each runs right before the recording of its number. `bind` gives the recorded ids of things only these steps saw.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from support.client import Client, ack_of
from support.wait import until


@dataclass
class Push:
    queue: str
    payloads: list[Any]
    partition: str = "Default"

    def run(self, client: Client) -> dict[str, str]:
        client.push(self.queue, *self.payloads, partition=self.partition)
        return {}


@dataclass
class Pop:
    """bind: recorded id → where it stands in the messages, as (index, key)."""

    queue: str
    batch: int = 1
    bind: dict[str, tuple[int, str]] = field(default_factory=dict)

    def run(self, client: Client) -> dict[str, str]:
        messages = client.pop(self.queue, batch=self.batch)
        return {old: messages[index][key] for old, (index, key) in self.bind.items()}


@dataclass
class Store:
    """Pushes items as they are."""

    items: list[dict]

    def run(self, client: Client) -> dict[str, str]:
        client.push_items(self.items)
        return {}


@dataclass
class Consume:
    """Pops and acknowledges `count` messages of a partition."""

    queue: str
    partition: str
    group: str
    count: int

    def run(self, client: Client) -> dict[str, str]:
        messages = client.pop(self.queue, self.partition, consumerGroup=self.group, batch=self.count)
        client.ack_batch([ack_of(message) for message in messages], self.group)
        return {}


@dataclass
class Idle:
    """Waits until no message of the queue is leased."""

    queue: str

    def run(self, client: Client) -> dict[str, str]:
        until(lambda: client.show(self.queue).json["totals"]["processing"] == 0, f"leases of {self.queue} expire")
        return {}


def numbered(count: int, **more: Any) -> list[dict]:
    return [{**more, "i": number} for number in range(count)]


STEPS: dict[int, list[Push | Pop | Store | Consume | Idle]] = {
    86: [Push("demo", numbered(6))],
    88: [Push("g-pop", numbered(10), "A"), Push("g-pop", numbered(10), "B")],
    96: [Push("g-pop", [{"late": 1}], "A")],
    101: [Push("g-auto", numbered(5))],
    104: [Push("g-multi", numbered(3, p=name), name) for name in "abcdef"],
    107: [Push("g-b", [1, 2, 3])],
    123: [Push("g-delay", [1])],
    126: [Push("g-window", [1])],
    129: [Push("g-lease1", [1, 2])],
    132: [Push("g-ack", numbered(12))],
    165: [Push("g-dlq", [{"bad": 1}, {"bad": 2}])],
    177: [Push("g-dlq2", [{"x": 1}]), Pop("g-dlq2", bind={
        "50b1748f-d04c-45d0-8528-b4ebbe3a80e7": (0, "transactionId"),
        "ee4aea4f-1a00-4c76-8799-08ee00b50929": (0, "partitionId"),
        "01a1fcfe-5637-7000-ae55-14976f11b65e": (0, "leaseId")})],
    180: [Push("g-retry3", [{"x": 1}])],
    190: [Push("g-tx-in", numbered(4)), Pop("g-tx-in", 4, {
        "4d2026fc-690a-40e8-89c7-017392680c47": (0, "transactionId"),
        "7255e250-fc83-4023-a489-13165ddd2d92": (1, "transactionId"),
        "9f9fd039-e6aa-44db-b80c-82b8dee01233": (2, "transactionId"),
        "5727943d-962a-4411-8a74-5e5d93c2b47d": (0, "partitionId"),
        "01a1fcfe-571d-7000-a743-f697eaa26cda": (0, "leaseId")})],
    209: [Push("g-lease", [1, 2]), Pop("g-lease", bind={"01a1fcfe-5805-7000-a302-92b36002d7df": (0, "leaseId")})],
    219: [Store([{"queue": "g-msgs", "partition": "P", "payload": {"k": k}, "transactionId": id} for k, id in (
        (1, "4cde4c9e-9115-4341-9435-59f2ae0a801c"), (2, "4575f015-a6e6-4fc8-97bb-98d33b8df8af"))])],
    246: [Idle("g-lease1"), Push("g-cg", numbered(5), "A"), Push("g-cg", numbered(5), "B"),
          Consume("g-cg", "A", "cgseek", 2)],
    312: [Push("g-str-src", numbered(3), "S1")],
}

# The waiting pop of this recording is answered by a push made while it waits.
WOKEN = {113: Push("g-lp", [{"woke": True}])}

# Asked again until there are messages: the recorded conversation waited for a delay, a window, the end of a lease, a
# drained buffer.
REPEATED = {124, 127, 131, 282}

# The recorder shortened these bodies; what they held is known from the answers and from later pops.
BODIES = {
    81: json.dumps({"items": [{"queue": "g-hundred", "partition": str(n % 4), "payload": {"i": n}}
                              for n in range(100)]}).encode(),
    82: json.dumps({"items": [{"queue": "g-large", "payload": {"d": "x" * 100_000}}]}).encode(),
}
