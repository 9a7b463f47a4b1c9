"""Values as JSON strings, in the form that the option `valueFormat` names: text, or base64 of bytes."""
from __future__ import annotations

import json
from binascii import Error, a2b_base64
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from .jsontext import json_text
from .settings import OptionError

WHAT = {"base64": "a JSON string of base64", "text": "a JSON string"}


def written(column: pa.Array, form: str) -> pa.Array:
    """Returns values as the JSON that is stored, null for null. column: string or binary; form: `base64` or `text`.
    Bytes that are not UTF-8 stay so in `text`: the daemon refuses their row by its number."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.string())
    if form == "base64":
        return json_text(column.cast(pa.binary()))
    return json_text(pc.cast(column, options=pc.CastOptions(pa.string(), allow_invalid_utf8=True)))


def read(column: pa.Array, form: str, place: Callable[[int], str]) -> pa.Array:
    """Returns stored JSON strings as bytes, and JSON null as null. column: JSON text as string; form: `base64` or
    `text`. place: describes a row, for the error about a value of another form. Only strings with escapes, and base64,
    are converted one by one."""
    none = pc.equal(column, "null")
    plain = pc.and_(pc.and_(pc.starts_with(column, '"'), pc.ends_with(column, '"')),
                    pc.invert(pc.match_substring(column, "\\")))
    inner = pc.if_else(none, pa.scalar(None, pa.binary()), pc.binary_slice(column.cast(pa.binary()), 1, -1))
    others = pc.invert(pc.or_(none, plain))
    if pc.any(others).as_py():
        at = pc.indices_nonzero(others).to_pylist()
        inner = pc.replace_with_mask(inner, others, pa.array([_string(column[n].as_py(), form, place, n) for n in at],
                                                             pa.binary()))
    return _bytes(inner, place) if form == "base64" else inner


def _string(text: str, form: str, place: Callable[[int], str], at: int) -> bytes | None:
    value = json.loads(text)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode("utf-8", "replace")    # JSON may have half a surrogate pair
    raise _wrong(form, place(at))


def _bytes(column: pa.Array, place: Callable[[int], str]) -> pa.Array:
    values = column.to_pylist()
    try:
        return pa.array([None if one is None else a2b_base64(one, strict_mode=True) for one in values], pa.binary())
    except Error:
        raise _wrong("base64", place(next(at for at, one in enumerate(values) if not _is_base64(one)))) from None


def _is_base64(value: bytes | None) -> bool:
    try:
        a2b_base64(value or b"", strict_mode=True)
    except Error:
        return False
    return True


def _wrong(form: str, where: str) -> OptionError:
    return OptionError(f'option "valueFormat" is {form}, but the value of {where} is not {WHAT[form]}')
