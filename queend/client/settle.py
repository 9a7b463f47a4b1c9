"""Acknowledgments, and extensions of leases."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Union

from .call import Call, Steps, encoded, escaped
from .errors import LeaseLost, NotSettled
from .message import Message, milliseconds, moment, seconds

Status = Literal["completed", "failed", "retry", "dlq"]
Messages = Union[Message, Iterable[Message]]
LEASE_ENDED = "Invalid or expired lease"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a message: `completed`; `failed`: delivered again, and a failure is counted, until the queue's
    retry limit makes it a dead letter; `retry`: delivered again; `dlq`: a dead letter. error: why, for the dead
    letter; delay: seconds until it is delivered again."""

    message: Message
    status: Status = "completed"
    error: str | None = None
    delay: float | None = None

    def item(self, lease: bool = True) -> dict[str, Any]:
        """Returns the acknowledgment. lease: whether it names the lease."""
        item: dict[str, Any] = {"transactionId": self.message.id, "partitionId": self.message.partition_id,
                                "status": self.status}
        if lease and self.message.lease:
            item["leaseId"] = self.message.lease
        if self.message.group is not None:
            item["consumerGroup"] = self.message.group
        if self.error is not None:
            item["error"] = self.error.encode(errors="backslashreplace").decode()
        if self.delay is not None:
            item["delayMs"] = milliseconds(self.delay)
        return item


@dataclass(frozen=True)
class Settled:
    """The result of a verdict. dead: the message is a dead letter now; released: the lease has ended for all messages
    of the partition; error: why the verdict does not count."""

    verdict: Verdict
    dead: bool = False
    released: bool = False
    error: str | None = None


def verdicts(messages: Messages, status: Status, error: str | None = None,
             delay: float | None = None) -> list[Verdict]:
    """Returns one verdict for each message."""
    found = [messages] if isinstance(messages, Message) else list(messages)
    return [Verdict(message, status, error, delay) for message in found]


def settle(wanted: Sequence[Verdict], doubted: bool = False) -> Steps[list[Settled]]:
    """Hands in verdicts, in one request for each consumer group. Returns their results, in order. Raises LeaseLost or
    NotSettled if some were refused. doubted: an earlier call may have handed them in, because its answer was lost.

    If an answer was lost, an earlier attempt may have ended the lease with the same verdicts. Then `completed` is asked
    for once more without the lease: the server confirms it if the message is done, completes it if another consumer
    has it by now, and refuses it if the message waits. Other verdicts count as handed in: without the lease the message
    comes again, unless it is a dead letter."""
    if not wanted:
        return []
    found, repeated = yield from _settle(wanted, lease=True)
    ended = [place for place, one in enumerate(found)
             if (doubted or place in repeated) and one.error and one.error.startswith(LEASE_ENDED)]
    if ended:
        done = [place for place in ended if found[place].verdict.status == "completed"]
        for place in ended:
            found[place] = Settled(found[place].verdict, released=True)
        if done:
            again, _ = yield from _settle([wanted[place] for place in done], lease=False)
            for place, one in zip(done, again, strict=True):
                found[place] = one
    refused = [one for one in found if one.error is not None]
    if refused:
        whole = "the acknowledgment was" if len(found) == 1 else f"{len(refused)} of {len(found)} acknowledgments were"
        text = f"{whole} refused: {refused[0].error}"
        lost = all((one.error or "").startswith(LEASE_ENDED) for one in refused)
        raise (LeaseLost if lost else NotSettled)(text, [one.verdict.message for one in refused])
    return found


def _settle(wanted: Sequence[Verdict], lease: bool) -> Steps[tuple[list[Settled], set[int]]]:
    """Returns the results of one request for each consumer group, and the places of the verdicts for which an attempt
    before the answered one may have taken effect. The group stands beside the list: the server reads it there alone."""
    found: dict[int, Settled] = {}
    repeated: set[int] = set()
    for group in dict.fromkeys(verdict.message.group for verdict in wanted):
        places = [place for place, verdict in enumerate(wanted) if verdict.message.group == group]
        body: dict[str, Any] = {"acknowledgments": [wanted[place].item(lease) for place in places]}
        if group is not None:
            body["consumerGroup"] = group
        reply = yield Call("POST", "/api/v1/ack/batch", body=encoded(body))
        if reply.repeated:
            repeated.update(places)
        for place, one in zip(places, reply.json, strict=True):
            found[place] = Settled(wanted[place], bool(one.get("dlq")), bool(one.get("leaseReleased")),
                                   None if one["success"] else one.get("error") or "refused")
    return [found[place] for place in range(len(wanted))], repeated


def extend(message: Message, time: float) -> Steps[datetime]:
    """Makes a lease end `time` seconds from now, unless it ends later anyway: for all messages that were delivered with
    it. Returns its earliest end. Raises LeaseLost if it has ended."""
    body = encoded({"seconds": seconds(time)})
    reply = yield Call("POST", f"/api/v1/lease/{escaped(message.lease)}/extend", body=body)
    answer = reply.json
    if not answer["success"]:
        raise LeaseLost(str(answer["error"]), [message])
    return moment(answer["expiresAt"])
