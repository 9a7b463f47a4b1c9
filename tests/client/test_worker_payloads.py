"""Typed payloads of workers: what fits, what becomes of the rest, and which annotations are understood."""
from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Optional
from uuid import UUID

import pytest
from pydantic import BaseModel
from support.client import Client as Plain
from support.workers import KINDS, consumed

from queend.client import App, BatchContext, CallNext, Context, InvalidPayload, Later, Message, TypedMessage
from queend.client.payload import asked, maker

if TYPE_CHECKING:
    from nowhere import Absent


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Line:
    product: str
    price: Decimal = Decimal(1)
    parts: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Order:
    order: int
    weight: float = 0.5
    lines: list[Line] = field(default_factory=list)
    colour: Colour | None = None
    kind: Literal["new", 2] = "new"
    at: Optional[datetime] = None
    notes: Mapping[str, str] = field(default_factory=dict)
    made: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.order == 13:
            raise ValueError("there is no order 13")


class Model(BaseModel):
    order: int


def letters(client: Plain, queue: str) -> dict[str, str]:
    """Returns the errors of the dead letters of a queue, by their data."""
    return {str(one["data"]): one["errorMessage"] for one in client.get(f"/api/v1/dlq?queue={queue}").json["messages"]}


@KINDS
def test_the_annotation_names_the_type(app: App, client: Plain, queue: str, form: str) -> None:
    got: list[tuple[Order, str]] = []
    threads: list[str] = []

    def function(message: TypedMessage[Order], context: Context) -> None:
        threads.append(threading.current_thread().name)
        got.append((message.payload, message.id))
        context.push(f"{queue}-out", message.data)

    async def coroutine(message: TypedMessage[Order]) -> None:
        got.append((message.payload, message.id))

    handler: Callable[..., Any] = function if form == "function" else coroutine
    assert app.worker(queue, poll=0.1)(handler) is handler
    client.push(queue, {"order": 1, "lines": [{"product": "tea", "price": "2.50"}]}, {"order": 2, "else": True})
    with app.running():
        consumed(client, queue)
    assert [order for order, _ in got] == [Order(1, lines=[Line("tea", Decimal("2.50"))]), Order(2)]
    assert threads == ["queend-function"] * (2 if form == "function" else 0) and got[0][1] != got[1][1]


@KINDS
def test_what_does_not_fit_is_a_dead_letter_at_once(app: App, client: Plain, queue: str, form: str) -> None:
    died: list[tuple[str, Any]] = []
    passed: list[str] = []
    handled: list[int] = []

    @app.middleware
    async def watching(message: Message, call_next: CallNext) -> None:
        try:
            await call_next()
        except InvalidPayload:
            passed.append(type(message).__name__)
            raise

    def function(message: TypedMessage[Order]) -> None:
        handled.append(message.payload.order)

    async def coroutine(message: TypedMessage[Order]) -> None:
        handled.append(message.payload.order)

    def buried(message: Message, error: Exception) -> None:
        died.append((type(error).__name__, message.data))

    app.worker(queue, poll=0.1, lease=600, on_dead=buried)(function if form == "function" else coroutine)
    wrong: list[Any] = [{"order": "x"}, {"order": 13}, None, {}]
    client.push(queue, *wrong, {"order": 7})
    with app.running():
        consumed(client, queue)
    assert handled == [7] and passed == ["Message"] * 4
    assert died == [("InvalidPayload", data) for data in wrong]
    reasons = ["order: str instead of int", "there is no order 13", "NoneType instead of dict", "order is missing"]
    assert letters(client, queue) == {str(data): f"queue {queue}: the payload does not fit: {reason}"
                                      for data, reason in zip(wrong, reasons, strict=True)}


@pytest.mark.parametrize("outcome", ["returns", "later", "misfits"])
def test_of_a_batch_only_the_misfits_die(app: App, client: Plain, queue: str, outcome: str) -> None:
    batches: list[list[int]] = []
    died: list[tuple[str, Any, int]] = []

    def buried(message: Message, error: Exception) -> None:
        assert type(message) is Message
        died.append((type(error).__name__, message.data["order"], message.attempt))

    @app.worker(queue, batch=10, poll=0.1, on_dead=buried)
    def handle(messages: list[TypedMessage[Order]], context: BatchContext) -> None:
        batches.append([one.payload.order for one in messages])
        if outcome == "later" and len(batches) == 1:
            raise Later(0.05)
        context.dead(messages[0], "the first")
        context.push(f"{queue}-out", [one.payload.order for one in messages])

    orders: list[Any] = ["x", "y"] if outcome == "misfits" else ["x", 1, 2, 3]
    client.push(queue, *({"order": order} for order in orders))
    with app.running():
        consumed(client, queue)
    misfits = [("InvalidPayload", order, 1) for order in orders if isinstance(order, str)]
    if outcome == "misfits":
        assert batches == [] and died == misfits
        return
    assert batches == [[1, 2, 3]] * (2 if outcome == "later" else 1)
    assert sorted(died, key=str) == sorted([*misfits, ("Dead", 1, len(batches))], key=str)
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == [[1, 2, 3]]
    assert "order: str instead of int" in letters(client, queue)["{'order': 'x'}"]


def test_a_model_of_pydantic_and_a_function(app: App, client: Plain, queue: str) -> None:
    got: list[Any] = []

    @app.worker(queue, group="model", poll=0.1)
    def model(message: TypedMessage[Model]) -> None:
        got.append(message.payload)

    app.worker(queue, group="function", payload=lambda data: data["order"], poll=0.1, name="own")(
        lambda message: got.append(message.payload))
    client.push(queue, {"order": 1}, {"order": "x"}, {})
    with app.running():
        consumed(client, queue, "model")
        consumed(client, queue, "function")
    assert sorted(got, key=str) == [1, Model(order=1), "x"]
    errors = sorted(one["errorMessage"] for one in client.get(f"/api/v1/dlq?queue={queue}").json["messages"])
    begin = f"queue {queue}: the payload does not fit: "
    assert [error.removeprefix(begin).splitlines()[0] for error in errors] == [
        "'order'", "1 validation error for Model", "1 validation error for Model"]


MOMENT = "2026-01-02T03:04:05+00:00"
ONE = UUID(int=1)


@pytest.mark.parametrize(("kind", "data", "value"), [
    (Any, [1], [1]), (int, 1, 1), (float, 1, 1.0), (bool, True, True), (str, "x", "x"), (None | int, None, None),
    (list, [1, "x"], [1, "x"]), (Sequence[float], [1], [1.0]), (dict, {"a": 1}, {"a": 1}),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}), (datetime, MOMENT, datetime(2026, 1, 2, 3, 4, 5, 0, timezone.utc)),
    (date, "2026-01-02", date(2026, 1, 2)), (UUID, str(ONE), ONE), (Colour, "red", Colour.RED), (bytes, b"x", b"x"),
    (int | Line, {"product": "x"}, Line("x")), (list[Model], [{"order": 1}], [Model(order=1)]),
    (Line, {"product": "x", "parts": [{"product": "y"}]}, Line("x", parts=[Line("y")])),
    (Order, {"order": 1, "weight": 2, "colour": "red", "kind": 2, "at": MOMENT, "notes": {"a": "b"}, "made": 5},
     Order(1, 2.0, [], Colour.RED, 2, datetime(2026, 1, 2, 3, 4, 5, 0, timezone.utc), {"a": "b"}))], ids=str)
def test_values(kind: Any, data: Any, value: Any) -> None:
    made = maker(kind, {})(data)
    assert made == value and type(made) is type(value)


@pytest.mark.parametrize(("kind", "data", "error"), [
    (int, True, "bool instead of int"), (int, 1.0, "float instead of int"), (str, None, "NoneType instead of str"),
    (list[int], [1, "x"], "1: str instead of int"), (dict[str, int], {"a": []}, "a: list instead of int"),
    (int | None, "x", "str instead of int, str instead of NoneType"), (Colour, "blue", "'blue' is not a valid Colour"),
    (Literal["a", 1], True, "not one of 'a', 1"), (datetime, 7, "int instead of str"),
    (Order, {"order": 1, "lines": [{"product": "x", "parts": [{}]}]}, "lines: 0: parts: 0: product is missing"),
    (Line, [], "list instead of dict")], ids=str)
def test_what_is_wrong_is_named(kind: Any, data: Any, error: str) -> None:
    with pytest.raises(ValueError) as raised:
        maker(kind, {})(data)
    assert str(raised.value) == error


def test_annotations() -> None:
    class Called:
        async def __call__(self, message: TypedMessage[Model]) -> None: ...

    def bare(message: TypedMessage) -> None: ...        # type: ignore
    def plain(message: Message) -> None: ...
    def sequence(messages: Sequence[TypedMessage[int]]) -> None: ...
    def foreign(message: Message, other: Absent) -> None: ...
    def none() -> None: ...
    assert [asked(one) for one in (Called(), bare, plain, sequence, foreign, none, lambda message: None, print)] == [
        Model, Any, None, int, None, None, None, None]


def test_slips() -> None:
    @dataclass
    class Local:
        order: int

    def local(message: TypedMessage[Local]) -> None: ...
    def unknown(message: TypedMessage[complex]) -> None: ...
    with pytest.raises(TypeError, match="cannot be evaluated: name 'Local' is not defined"):
        App().worker("q")(local)
    with pytest.raises(TypeError, match="payload of type <class 'complex'> cannot be made: use a dataclass"):
        App().worker("q")(unknown)
