"""Operations of the client as requests and answers, without network: which request follows which answer."""
from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from queend.client import (
    AsyncClient,
    AsyncTransaction,
    Client,
    LeaseLost,
    Message,
    NotSettled,
    NotStored,
    Push,
    Scheduled,
    Transaction,
    TransactionRefused,
    Verdict,
)
from queend.client import push as pushing
from queend.client import settle as settling
from queend.client.call import Call, Reply, Steps, escaped
from queend.client.message import made_id, milliseconds, seconds
from queend.client.transaction import Operations

ENDED = "Invalid or expired lease"


def message(place: int = 0, **more: Any) -> Message:
    said: dict[str, Any] = dict(queue="q", partition="p", id=f"t{place}", data=place, group="g", attempt=1,
                                offset=place, lease="lease", partition_id="pid", message_id="mid",
                                created_at=datetime(2026, 1, 1, tzinfo=UTC))
    return Message(**said | more)


class Server:
    """Answers requests in turn. asked: their bodies."""

    def __init__(self, *answers: Callable[[Any], tuple[Any, bool]]):
        self.answers, self.asked, self.calls = list(answers), [], []

    def run(self, steps: Steps[Any]) -> Any:
        try:
            call = next(steps)
            while True:
                call = steps.send(self._reply(call))
        except StopIteration as end:
            assert not self.answers, "a request is missing"
            return end.value

    def _reply(self, call: Call) -> Reply:
        body = None if call.body is None else json.loads(call.body)
        self.asked.append(body)
        self.calls.append(call)
        answer, repeated = self.answers.pop(0)(body)
        return Reply(200, {}, json.dumps(answer).encode(), repeated)


def pushed(status: str, repeated: bool = False) -> Callable[[Any], tuple[Any, bool]]:
    return lambda body: ([{"status": status, "message_id": "m", "partition_id": "pid",
                           **({"error": "full", "code": "queue_full"} if status == "failed" else {})}
                          for _ in body["items"]], repeated)


def acked(*errors: str | None, repeated: bool = False) -> Callable[[Any], tuple[Any, bool]]:
    return lambda body: ([{"success": error is None, "error": error, "dlq": False} for error in errors], repeated)


def done(repeated: bool = False) -> Callable[[Any], tuple[Any, bool]]:
    return lambda body: ({"success": True, "results": [{"index": place} for place in range(len(body["operations"]))]},
                         repeated)


def refused(reason: str, index: int | None = None, repeated: bool = False) -> Callable[[Any], tuple[Any, bool]]:
    return lambda body: ({"success": False, "reason": reason, "failedIndex": index, "error": reason, "results": []},
                         repeated)


def test_a_duplicate_of_an_id_made_here_is_the_message_itself() -> None:
    assert Server(pushed("duplicate", repeated=True)).run(pushing.push(Push("q", 1))).status == "queued"
    assert Server(pushed("duplicate")).run(pushing.push(Push("q", 1))).status == "duplicate"
    stored = Server(pushed("duplicate", repeated=True)).run(pushing.push(Push("q", 1, id="mine")))
    assert (stored.status, stored.new, stored.id) == ("duplicate", False, "mine")


def test_a_push_that_was_stored_in_part_says_what() -> None:
    with pytest.raises(NotStored, match="2 of 2 messages were refused: full") as raised:
        Server(pushed("failed")).run(pushing.push_many([Push("q", 1), Push("q", 2)]))
    assert raised.value.code == "queue_full" and [one.error for one in raised.value.stored] == ["full", "full"]


def test_nothing_to_do_is_no_request() -> None:
    assert Server().run(pushing.push_many([])) == [] and Server().run(settling.settle([])) == []
    assert Server().run(Operations().commit()) is None


def test_the_items_of_a_push() -> None:
    server = Server(pushed("queued"))
    moment = datetime(2027, 3, 1, 9, tzinfo=UTC)
    server.run(pushing.push_many([Push("q", {"ä": 1}), Push("q", 2, "p", "id", delay=0.0011), Push("q", 3, at=moment)]))
    first, second, third = server.asked[0]["items"]
    assert first["partition"] == "Default" and first["payload"] == {"ä": 1} and first["transactionId"][14] == "7"
    assert second == {"queue": "q", "partition": "p", "payload": 2, "transactionId": "id", "delayMs": 2}
    assert third["deliverAt"] == "2027-03-01T09:00:00+00:00"


@pytest.mark.parametrize("wrong", [
    Push("q", float("nan")), Push("q", {1, 2}), Push("q", "\ud800"), Push("q", 1, delay=-1), Push("q", 1, delay=1,
                                                                                                  at=datetime.now(UTC)),
    Push("q", 1, at=datetime(2027, 1, 1))])
def test_what_cannot_be_stored_is_refused_before_any_request(wrong: Push) -> None:
    with pytest.raises((ValueError, TypeError)):
        Server().run(pushing.push(wrong))


def test_ids_made_here_grow_with_time() -> None:
    ids = [made_id() for _ in range(100)]
    assert len(set(ids)) == 100 and [one[:13] for one in ids] == sorted(one[:13] for one in ids)


@pytest.mark.parametrize(("seconds", "ms"), [(0, 0), (0.0001, 1), (0.001, 1), (1.5, 1500), (0.29, 290)])
def test_delays_are_rounded_up(seconds: float, ms: int) -> None:
    assert milliseconds(seconds) == ms


@pytest.mark.parametrize(("time", "whole"), [(0.2, 1), (1, 1), (29.5, 30), (30.0, 30)])
def test_leases_are_rounded_up_to_whole_seconds(time: float, whole: int) -> None:
    assert seconds(time) == whole
    server = Server(lambda body: ({"success": True, "expiresAt": "2026-01-01T00:00:00Z"}, False))
    server.run(settling.extend(message(), time))
    assert server.asked == [{"seconds": whole}]


@pytest.mark.parametrize("time", [0, -1.0, float("inf"), float("nan")])
def test_a_lease_that_is_not_possible_is_refused_before_any_request(time: float) -> None:
    for asked in (lambda: Server().run(settling.extend(message(), time)), lambda: Client().pop("q", lease=time),
                  lambda: Client().stream("q", heartbeat=time)):
        with pytest.raises(ValueError, match="a time of .* s is not possible"):
            asked()


def test_a_lost_acknowledgment_is_asked_for_without_its_lease() -> None:
    server = Server(acked(None, ENDED, ENDED, repeated=True), acked(None, ENDED))
    with pytest.raises(LeaseLost) as raised:
        server.run(settling.settle([Verdict(message(place)) for place in range(3)]))
    assert [one.id for one in raised.value.messages] == ["t2"]
    assert [one.get("leaseId") for one in server.asked[1]["acknowledgments"]] == [None, None]


def test_each_group_has_a_request_of_its_own() -> None:
    server = Server(acked(None, None), acked("no"))
    with pytest.raises(NotSettled) as raised:
        server.run(settling.settle([Verdict(message(0)), Verdict(message(1, group=None)), Verdict(message(2))]))
    assert [one.id for one in raised.value.messages] == ["t1"]
    assert [body.get("consumerGroup") for body in server.asked] == ["g", None]


def test_a_lost_answer_of_one_group_says_nothing_about_another() -> None:
    wanted = [Verdict(message(0)), Verdict(message(1, group=None), "failed", "why")]
    with pytest.raises(LeaseLost) as raised:
        Server(acked(None, repeated=True), acked(ENDED)).run(settling.settle(wanted))
    assert [one.id for one in raised.value.messages] == ["t1"]


def test_a_lost_verdict_that_is_no_completion_counts() -> None:
    server = Server(acked(ENDED, ENDED, repeated=True))
    settled = server.run(settling.settle([Verdict(message(0), "retry"), Verdict(message(1), "failed", "why")]))
    assert [one.error for one in settled] == [None, None]


def test_a_lease_that_ended_without_a_lost_answer_is_told() -> None:
    with pytest.raises(LeaseLost):
        Server(acked(ENDED)).run(settling.settle([Verdict(message())]))
    with pytest.raises(NotSettled) as raised:
        Server(acked("Message already committed")).run(settling.settle([Verdict(message(), "failed")]))
    assert not isinstance(raised.value, LeaseLost)


def both() -> Operations:
    one = Operations()
    one.ack(message())
    one.push("out", 1)
    return one


def test_a_repeated_transaction_that_took_effect_is_done() -> None:
    one = both()
    server = Server(refused("duplicate", 0, repeated=True))
    server.run(one.commit())
    assert [operation["type"] for operation in server.asked[0]["operations"]] == ["push", "ack"], "duplicates first"
    assert [stored.status for stored in one.stored] == ["queued"]


@pytest.mark.parametrize("answer", [refused("duplicate", 0), refused("rejected_ack", 1), refused("queue_full", 0),
                                    refused("rejected_ack", 1, repeated=True), refused("bad_request")])
def test_a_refusal_of_a_transaction_is_raised(answer: Callable[[Any], tuple[Any, bool]]) -> None:
    with pytest.raises(TransactionRefused):
        Server(answer).run(both().commit())


def test_duplicates_are_left_out_if_they_are_expected() -> None:
    one = Operations(skip_duplicates=True)
    one.push("out", 1, id="mine")
    one.ack(message())
    one.push("out", 2)
    server = Server(refused("duplicate", 0), done())
    server.run(one.commit())
    assert [stored.status for stored in one.stored] == ["duplicate", "queued"]
    assert [operation["type"] for operation in server.asked[1]["operations"]] == ["push", "ack"]
    assert server.asked[0]["operations"][1:] == server.asked[1]["operations"], "ids are the same in each attempt"


def test_an_expected_duplicate_says_nothing_about_a_lost_answer() -> None:
    """An id of the program may have been stored by another transaction; one that was made here may not."""
    one = Operations(skip_duplicates=True)
    one.push("out", 1, id="mine")
    one.ack(message())
    server = Server(refused("duplicate", 0, repeated=True), refused("rejected_ack", 0), done())
    server.run(one.commit())
    assert "leaseId" not in server.asked[2]["operations"][0]


def test_a_commit_that_is_tried_again_remembers_the_lost_answer() -> None:
    one = both()
    one.doubted = True
    Server(refused("duplicate", 0)).run(one.commit())
    assert [stored.status for stored in one.stored] == ["queued"]


def test_verdicts_that_are_handed_in_again_after_a_lost_answer() -> None:
    wanted = [Verdict(message())]
    server = Server(acked(ENDED), acked(None))
    server.run(settling.settle(wanted, doubted=True))
    assert "leaseId" not in server.asked[1]["acknowledgments"][0]
    with pytest.raises(LeaseLost):
        Server(acked(ENDED)).run(settling.settle(wanted))


def test_completions_are_asked_for_without_their_leases_after_a_lost_answer() -> None:
    one = Operations()
    one.ack([message(0), message(1)])
    one.require(message())
    server = Server(refused("rejected_ack", 0, repeated=True), done())
    server.run(one.commit())
    assert server.asked[0]["requiredLeases"] == ["lease"] and "requiredLeases" not in server.asked[1]
    with pytest.raises(TransactionRefused):
        Server(refused("rejected_ack", 0, repeated=True), refused("rejected_ack", 0, repeated=True)).run(one.commit())


@pytest.mark.parametrize(("name", "segment"), [("a/b", "a%2Fb"), ("%41", "%2541"), ("..", "%2E%2E"), (".", "%2E"),
                                               ("a.b", "a.b"), ("ä ?", "%C3%A4%20%3F")])
def test_a_name_is_one_segment_of_a_path(name: str, segment: str) -> None:
    assert escaped(name) == segment


def test_a_scheduled_message_has_a_partition_of_its_own() -> None:
    assert Scheduled("q", "timeout-7").partition == "timeout-7" and Scheduled("q", "i", "p").partition == "p"


@pytest.mark.parametrize(("one", "other"), [(Client, AsyncClient), (Transaction, AsyncTransaction)])
def test_both_clients_have_the_same_methods(one: type, other: type) -> None:
    def shown(kind: type) -> dict[str, tuple[str, str]]:
        found = {}
        for name, method in vars(kind).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                signature = inspect.signature(method)
                asked = str(signature.replace(return_annotation=inspect.Signature.empty))
                told = " ".join((method.__doc__ or "").replace("async with", "with").split())
                found[name] = (asked, told)
        return found

    assert shown(one) == shown(other)
