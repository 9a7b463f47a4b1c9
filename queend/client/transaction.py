"""Transactions: acknowledgments and pushes of any queues, all or none, in one commit."""
from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .call import Call, Steps, encoded
from .errors import TransactionRefused
from .message import DEFAULT, Message, Push, Stored
from .settle import Messages, Verdict, verdicts

IN_DOUBT = "not known"
DUPLICATE = ("duplicate", "duplicate_of_deleted")


class Operations:
    """What a transaction does, in order. stored: the results of its pushes, once it has taken effect.

    skip_duplicates: a push whose id its partition holds already is left out, instead of refusing the transaction.
    doubted: an earlier request may have taken effect, because its answer was lost."""

    def __init__(self, skip_duplicates: bool = False) -> None:
        self.stored: list[Stored] = []
        self.skip_duplicates = skip_duplicates
        self.doubted = False
        self._parts: list[Push | Verdict] = []
        self._items: list[dict[str, Any]] = []      # one operation for each part, made once: ids stay the same
        self._leases: list[str] = []

    def ack(self, messages: Messages) -> None:
        """Completes messages."""
        self._settle(verdicts(messages, "completed"))

    def dead(self, messages: Messages, error: str | None = None) -> None:
        """Makes messages dead letters."""
        self._settle(verdicts(messages, "dlq", error))

    def push(self, queue: str, data: Any, *, partition: str = DEFAULT, id: str | None = None,
             delay: float | None = None, at: datetime | None = None, traceparent: str | None = None,
             headers: Mapping[str, str] | None = None) -> None:
        """Stores a message. The arguments are those of Push: delay in seconds, at with a time zone. id: one that
        belongs to this transaction alone; without it, one is made. Raises ValueError for an impossible time."""
        self.add(Push(queue, data, partition, id, delay, at, traceparent, headers=headers))

    def add(self, push: Push) -> None:
        """Stores a message. Raises ValueError for a delivery time that is not possible."""
        self._parts.append(push)
        self._items.append({"type": "push", "items": [push.item()]})

    def require(self, message: Message) -> None:
        """Refuses the transaction unless the lease of a message is live."""
        self._leases.append(message.lease)

    def _settle(self, wanted: list[Verdict]) -> None:
        for verdict in wanted:
            self._parts.append(verdict)
            self._items.append({"type": "ack", **verdict.item()})

    def commit(self) -> Steps[None]:
        """Does everything, or raises TransactionRefused. A transaction without operations does nothing.

        After a lost answer the transaction is sent again. If the first one took effect, the second is refused because
        of the ids of its pushes. If it has completions alone, it is then sent without leases: those that are completed
        are confirmed."""
        # Pushes first: the server names the first operation at fault, and a duplicate tells more than a lost lease.
        left = sorted(range(len(self._items)), key=lambda place: not self._is_push(place))
        stored: dict[int, Stored] = {}
        leases = True
        while left:
            body: dict[str, Any] = {"operations": [self._operation(place, leases) for place in left]}
            if self._leases and leases:
                body["requiredLeases"] = self._leases
            reply = yield Call("POST", "/api/v1/transaction", body=encoded(body), doubt=IN_DOUBT)
            answer: dict[str, Any] = reply.json
            self.doubted |= reply.repeated
            if answer["success"]:
                results: dict[int, dict[str, Any]] = {left[one["index"]]: one for one in answer["results"]}
                stored |= {place: self._stored(place, results[place]) for place in left if self._is_push(place)}
                break
            reason = str(answer.get("reason", ""))
            index: int | None = answer.get("failedIndex")
            at = left[index] if index is not None and index < len(left) else None
            if reason in DUPLICATE and at is not None and self.doubted and not self._may_be_foreign(at):
                stored |= {place: self._stored(place, {}) for place in left if self._is_push(place)}
                break       # an earlier attempt took effect
            if reason in DUPLICATE and at is not None and self.skip_duplicates:
                stored[at] = self._stored(at, {}, reason)
                left.remove(at)
            elif reason == "rejected_ack" and leases and self.doubted and self._completes(left):
                leases = False
            else:
                raise TransactionRefused(str(answer.get("error", "refused")), reason, at)
        self.stored = [stored[place] for place in sorted(stored)]

    def _is_push(self, place: int) -> bool:
        return isinstance(self._parts[place], Push)

    def _may_be_foreign(self, place: int) -> bool:
        """Whether the id at a place may have been stored by another transaction: only if duplicates are expected."""
        part = self._parts[place]
        return isinstance(part, Push) and part.id is not None and self.skip_duplicates

    def _completes(self, left: list[int]) -> bool:
        """Whether only completions are left, so that they can be asked for again without their leases."""
        parts = [self._parts[place] for place in left]
        return all(isinstance(part, Verdict) and part.status == "completed" for part in parts)

    def _operation(self, place: int, leases: bool) -> dict[str, Any]:
        part = self._parts[place]
        return self._items[place] if leases or isinstance(part, Push) else {"type": "ack", **part.item(lease=False)}

    def _stored(self, place: int, result: dict[str, Any], status: str = "queued") -> Stored:
        (item,) = self._items[place]["items"]
        return Stored(item["queue"], result.get("partition", item["partition"]), item["transactionId"], status,
                      result.get("messageId"), result.get("partitionId"))
