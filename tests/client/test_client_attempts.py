"""When the client repeats a request, without network: the policy is told moments and outcomes."""
from __future__ import annotations

import json

import pytest

from queend.client.attempts import Attempts, Backoff
from queend.client.call import Call, Reply
from queend.client.errors import Unavailable

DEADLINE, TIMEOUT = 30.0, 10.0
SURE = Backoff(initial=1.0, multiplier=2.0, max=8.0, jitter=0.0)


def attempts(repeat: bool = True, patience: float = 0.0, doubt: str = "", backoff: Backoff = SURE,
             chance: float = 0.5) -> Attempts:
    call = Call("POST", "/", repeat=repeat, patience=patience, doubt=doubt)
    return Attempts(call, 0.0, DEADLINE, TIMEOUT, backoff, lambda: chance)


def refusal(status: int, error: str = "busy", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, json.dumps({"error": error}).encode())


def test_pauses_grow_to_their_maximum() -> None:
    assert [SURE.pause(failures, 0.0) for failures in (0, 1, 2, 3, 4, 5000)] == [1, 2, 4, 8, 8, 8]


@pytest.mark.parametrize(("chance", "pause"), [(0.0, 4.0), (0.5, 3.0), (1.0, 2.0)])
def test_jitter_takes_a_share_away(chance: float, pause: float) -> None:
    assert Backoff(initial=1.0, max=8.0, jitter=0.5).pause(2, chance) == pause


@pytest.mark.parametrize("status", [200, 201, 204, 400, 401, 403, 404, 409, 413, 500])
def test_what_another_attempt_would_not_change_is_the_last_answer(status: int) -> None:
    assert attempts().answered(1.0, refusal(status)) is None


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_server_that_is_busy_or_away_is_asked_again(status: int) -> None:
    assert attempts().answered(1.0, refusal(status)) == 1.0


def test_retry_after_is_honoured_and_spread() -> None:
    assert attempts().answered(1.0, refusal(503, retry_after="5")) == 6.0
    assert attempts(backoff=Backoff(1.0, 2.0, 8.0, jitter=1.0)).answered(1.0, refusal(429, retry_after="5")) == 5.5


@pytest.mark.parametrize("text", ["", "soon", "-3", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_retry_after_that_is_no_number_counts_as_none(text: str) -> None:
    assert attempts().answered(1.0, refusal(503, retry_after=text)) == 1.0


def test_the_deadline_ends_the_attempts() -> None:
    one = attempts()
    assert one.failed(10.0, OSError("reset"), True) == 1.0
    assert one.answered(20.0, refusal(503)) == 2.0
    with pytest.raises(Unavailable, match="busy") as raised:
        one.answered(27.0, refusal(503, retry_after="3"))
    assert (raised.value.may_be_done, raised.value.retry_after) == (True, 3.0)


def test_the_last_attempt_gets_what_is_left() -> None:
    one = attempts()
    assert [one.seconds(now) for now in (0.0, 19.0, 25.0, 40.0)] == [10.0, 10.0, 5.0, 0.001]
    assert attempts(patience=20.0).seconds(0.0) == 30.0


def test_what_must_not_be_repeated_is_repeated_only_if_it_was_not_sent() -> None:
    one = attempts(repeat=False)
    assert one.failed(1.0, OSError("refused"), sent=False) == 1.0
    assert one.answered(2.0, refusal(429)) == 2.0
    with pytest.raises(Unavailable) as raised:
        one.failed(3.0, OSError("reset"), sent=True)
    assert raised.value.may_be_done
    with pytest.raises(Unavailable):
        attempts(repeat=False).answered(1.0, refusal(503))


@pytest.mark.parametrize(("reply", "doubted"), [
    (refusal(503, "the database is away"), False), (refusal(503, "whether it took effect is not known"), True),
    (refusal(502, "bad gateway"), True), (refusal(504, "timeout"), True), (refusal(429), False), (refusal(408), False),
    (Reply(503, {}, b"<html>busy</html>"), True), (Reply(503, {}, b"[]"), True)])
def test_a_call_knows_which_answers_leave_it_open(reply: Reply, doubted: bool) -> None:
    """A body that is JSON and no error is of a proxy."""
    one = attempts(doubt="not known")
    one.answered(1.0, reply)
    assert one.may_be_done is doubted
