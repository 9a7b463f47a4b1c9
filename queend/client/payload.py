"""Typed payloads: values of the type that a handler asks for, made of the data of its messages."""
from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from .context import BatchContext, Context
from .handlers import Handler, is_coroutine, takes_context
from .message import Message
from .outcome import LONGEST, InvalidPayload

Payload = TypeVar("Payload")
Make = Callable[[Any], Any]
EXACT = (str, int, bool, bytes, NoneType)
TEXTS: dict[Any, Make] = {datetime: datetime.fromisoformat, date: date.fromisoformat, Decimal: Decimal, UUID: UUID}
LISTS, OBJECTS = (list, Sequence), (dict, Mapping)


@dataclass(frozen=True)
class TypedMessage(Message, Generic[Payload]):
    """A message with its data as a value of a type, `payload`. A handler asks for it by the annotation of its first
    parameter: `TypedMessage[Order]`, or with `batch` `list[TypedMessage[Order]]`."""

    payload: Payload = field(kw_only=True)


def typed(handler: Handler, make: Make | None) -> Handler:
    """Returns a function that makes payloads and then calls the handler, where that would run; or the handler, if it
    does not ask for payloads. make: by default that of the type in the annotation. Raises TypeError if the annotation
    cannot be read or its type is not supported."""
    if make is None:
        kind = asked(handler)
        if kind is None:
            return handler
        make = maker(kind, {})
    made, with_context = make, takes_context(handler, 1)

    def arguments(argument: Message | Sequence[Message], context: Context) -> tuple[Any, ...] | None:
        """Returns the arguments of the handler, None if no message of a batch is left."""
        found: Any
        if isinstance(argument, Message):
            found = fitted(argument, made)
        else:
            found = list(fitting(argument, made, cast("BatchContext", context)))
            if not found:
                return None
        return (found, context) if with_context else (found,)

    async def coroutine(argument: Message | Sequence[Message], context: Context) -> None:
        if (found := arguments(argument, context)) is not None and (result := handler(*found)) is not None:
            return await result

    def function(argument: Message | Sequence[Message], context: Context) -> Awaitable[None] | None:
        """Returns what the handler returns: only what is run may be None."""
        return None if (found := arguments(argument, context)) is None else handler(*found)

    wrapped = coroutine if is_coroutine(handler) else function
    wrapped.__name__ = str(getattr(handler, "__name__", "handler"))
    return wrapped


def fitted(message: Message, make: Make) -> TypedMessage[Any]:
    """Returns a message with its payload. Raises InvalidPayload if that cannot be made."""
    try:
        payload = make(message.data)
    except Exception as error:
        reason = (str(error) or repr(error)).replace("\0", "\\0")[:LONGEST]
        raise InvalidPayload(f"queue {message.queue}: the payload does not fit: {reason}") from error
    return TypedMessage(**{one.name: getattr(message, one.name) for one in fields(message)}, payload=payload)


def fitting(messages: Sequence[Message], make: Make, context: BatchContext) -> Iterable[TypedMessage[Any]]:
    """Yields the messages whose payloads can be made. The others become dead letters."""
    for message in messages:
        try:
            yield fitted(message, make)
        except InvalidPayload as error:
            context.unfit(message, error)


def asked(handler: Handler) -> Any:
    """Returns the type of payloads that the annotation of a handler's first parameter names, None if it names none.
    Raises TypeError if an annotation with TypedMessage cannot be evaluated."""
    try:
        parameters = inspect.signature(handler, eval_str=True).parameters
    except Exception as error:      # for example a name that only type checkers import
        try:
            texts = [str(one.annotation) for one in inspect.signature(handler).parameters.values()]
        except ValueError:
            return None
        if texts and "TypedMessage" in texts[0]:
            raise TypeError(f"the annotations of the handler cannot be evaluated: {error}") from error
        return None
    for one in parameters.values():
        kind = one.annotation
        if get_origin(kind) in LISTS:
            (kind,) = get_args(kind)
        if get_origin(kind) is TypedMessage:
            return get_args(kind)[0]
        return Any if kind is TypedMessage else None
    return None


def maker(kind: Any, known: dict[Any, Make]) -> Make:
    """Returns a function that makes a value of a type of what JSON holds, and raises ValueError for what does not fit.
    known: functions of dataclasses that were found before. Raises TypeError for a type that is not supported."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda data: data
    if kind in known:
        return known[kind]
    if isinstance(kind, type) and hasattr(kind, "model_validate"):       # a model of pydantic
        return cast("Make", getattr(kind, "model_validate"))
    if isinstance(kind, type) and is_dataclass(kind):
        known[kind] = lambda data: record(data)       # for members of this type within it
        record = _record(kind, known)
        return record
    if kind in TEXTS:
        return lambda data: TEXTS[kind](_checked(data, str))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if kind in EXACT:
        return lambda data: _checked(data, kind)
    if kind is float:
        return lambda data: float(_checked(data, int, float))
    if origin is Literal:
        return lambda data: _one_of(data, parts)
    if origin in (Union, UnionType):
        return _first([maker(part, known) for part in parts])
    if kind in LISTS or origin in LISTS:
        of_item = maker(parts[0] if parts else Any, known)
        return lambda data: [_at(n, of_item, one) for n, one in enumerate(_checked(data, list))]
    if (kind in OBJECTS or origin in OBJECTS) and parts[:1] in ((), (str,)):
        of_member = maker(parts[1] if parts else Any, known)
        return lambda data: {name: _at(name, of_member, one) for name, one in _checked(data, dict).items()}
    raise TypeError(f"a payload of type {kind!r} cannot be made: use a dataclass, a pydantic model or a type of JSON, "
                    "or give the worker a function (payload=)")


def _record(kind: Any, known: dict[Any, Make]) -> Make:
    """Returns a function that makes an object of a dataclass. Members that the class does not have are ignored."""
    hints = get_type_hints(kind)
    used: list[Field[Any]] = [one for one in fields(kind) if one.init]
    makes = {one.name: maker(hints[one.name], known) for one in used}
    required = [one.name for one in used if one.default is MISSING and one.default_factory is MISSING]

    def record(data: Any) -> Any:
        members = _checked(data, dict)
        for name in required:
            if name not in members:
                raise ValueError(f"{name} is missing")
        return kind(**{name: _at(name, make, members[name]) for name, make in makes.items() if name in members})
    return record


def _at(place: object, make: Make, data: Any) -> Any:
    """Makes a part of a value. An error names its place."""
    try:
        return make(data)
    except Exception as error:
        raise ValueError(f"{place}: {error}") from error


def _checked(data: Any, *kinds: type) -> Any:
    """Returns data that has one of some types. True and False are no numbers."""
    if type(data) not in kinds:
        raise ValueError(f"{type(data).__name__} instead of {kinds[-1].__name__}")
    return data


def _one_of(data: Any, values: tuple[Any, ...]) -> Any:
    if not any(type(data) is type(value) and data == value for value in values):
        raise ValueError(f"not one of {', '.join(map(repr, values))}")
    return data


def _first(makes: Sequence[Make]) -> Make:
    """Returns a function that makes a value by the first of some functions that can."""
    def first(data: Any) -> Any:
        errors: list[str] = []
        for make in makes:
            try:
                return make(data)
            except Exception as error:
                errors.append(str(error))
        raise ValueError(", ".join(dict.fromkeys(errors)))
    return first
