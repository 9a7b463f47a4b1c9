"""A client for tests: one connection, the routes as methods, answers as they came."""
from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from .http import Answer, Closing, Wire, request, target_of
from .tokens import bearer, token
from .wait import PATIENCE, until

QUEUE_MODE = "__QUEUE_MODE__"


class Client(Closing):
    """Talks over one connection at a time and opens another where that one was closed between two requests."""

    def __init__(self, address: tuple[str, int], timeout: float = PATIENCE):
        self.address, self.timeout = address, timeout
        self.wire: Wire | None = None

    def close(self) -> None:
        if self.wire:
            self.wire.close()
            self.wire = None

    def request(self, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """body: bytes as they are, anything else as JSON, None for none."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send(method, target, body, headers)
        return self.receive(head_only=method == "HEAD")

    def send(self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> None:
        if self.wire is None:
            self.wire = Wire(self.address, self.timeout)
        self.wire.send(request(method, target, body, headers))

    def receive(self, head_only: bool = False) -> Answer:
        assert self.wire is not None
        answer = self.wire.receive(head_only)
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    def get(self, target: str) -> Answer:
        return self.request("GET", target)

    def post(self, target: str, body: Any = None) -> Answer:
        return self.request("POST", target, body)

    # -- the routes, checked -----------------------------------------------------------------------------------------

    def push(self, queue: str, *payloads: Any, partition: str | None = None, **more: Any) -> list[dict]:
        """One item per payload; `more` goes into every item. Asserts 201."""
        where = {} if partition is None else {"partition": partition}
        return self.push_items([{"queue": queue, **where, "payload": one, **more} for one in payloads])

    def push_items(self, items: list[dict]) -> list[dict]:
        answer = self.post("/api/v1/push", {"items": items})
        assert answer.status == 201, (answer.status, answer.body)
        return answer.json

    def pop_answer(self, queue: str | None, partition: str | None = None, **query: Any) -> Answer:
        return self.get(pop_target(queue, partition, **query))

    def pop(self, queue: str | None, partition: str | None = None, **query: Any) -> list[dict]:
        """The messages of a pop; [] where there are none, however that was said."""
        answer = self.pop_answer(queue, partition, **query)
        assert answer.status in (200, 204), (answer.status, answer.body)
        return answer.json["messages"] if answer.status == 200 else []

    def ack(self, message: dict, status: str = "completed", group: str | None = None, lease: bool = True,
            **more: Any) -> dict:
        answer = self.post("/api/v1/ack",
                           {**ack_of(message, status, lease), **({"consumerGroup": group} if group else {}), **more})
        assert answer.status == 200, (answer.status, answer.body)
        (element,) = answer.json
        return element

    def ack_batch(self, items: list[dict], group: str | None = None) -> list[dict]:
        answer = self.post("/api/v1/ack/batch",
                           {"acknowledgments": items, **({"consumerGroup": group} if group else {})})
        assert answer.status == 200, (answer.status, answer.body)
        assert len(answer.json) == len(items)
        return answer.json

    def transaction(self, *operations: dict, **more: Any) -> dict:
        answer = self.post("/api/v1/transaction", {"operations": list(operations), **more})
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def configure(self, queue: str, **more: Any) -> dict:
        """namespace, task, mode: as such; everything else is an option."""
        head = {name: more.pop(name) for name in ("namespace", "task", "mode") if name in more}
        answer = self.post("/api/v1/configure", {"queue": queue, **head, "options": more})
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def extend(self, lease: str, body: Any = None) -> dict:
        answer = self.post(f"/api/v1/lease/{lease}/extend", body)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def show(self, queue: str) -> Answer:
        return self.get(f"/api/v1/resources/queues/{quote(queue, safe='')}")

    def dead(self, queue: str) -> int:
        """Number of the queue's dead letters."""
        return self.show(queue).json["totals"]["deadLetter"]

    def delete(self, queue: str) -> dict:
        answer = self.request("DELETE", f"/api/v1/resources/queues/{quote(queue, safe='')}")
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def figures(self) -> list[str]:
        """The lines for Prometheus. Daemons with tokens ask for one, some for one of the issuer `shop`."""
        return self.request("GET", "/metrics/prometheus", None,
                            bearer(token(role="read-only", iss="shop"))).body.decode().splitlines()

    def scrape(self) -> list[str]:
        """The lines for Prometheus with what the database tells, which a daemon leaves out when it takes over 2 s."""
        return until(lambda: (lines := self.figures()) and any(line.startswith("queend_outbox_moved") for line in lines)
                     and lines, "the database tells its figures")

    def parked(self) -> int:
        """Returns the number of pops that wait, as the metric queend_worker_parked has it: a scrape takes 18 ms of the
        processor, this takes 2 ms."""
        answer = self.request("GET", "/api/v1/system/live", None, bearer(token(role="read-only", iss="shop")))
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json["parked"]

    def metric(self, name: str) -> float:
        """Sum of a metric over its labels. A scrape lacks what the database did not tell in time."""
        lines = until(lambda: [line for line in self.figures() if line.startswith((name + " ", name + "{"))],
                      f"metric {name}")
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def pop_target(queue: str | None, partition: str | None = None, **query: Any) -> str:
    return target_of("/api/v1/pop" + ("" if queue is None else f"/queue/{quote(queue, safe='')}"), partition, query)


def ack_of(message: dict, status: str = "completed", lease: bool = True, **more: Any) -> dict:
    """The acknowledgment of a popped message."""
    return {"transactionId": message["transactionId"], "partitionId": message["partitionId"], "status": status,
            **({"leaseId": message["leaseId"]} if lease and message["leaseId"] else {}), **more}


def data(messages: list[dict]) -> list[Any]:
    return [message["data"] for message in messages]
