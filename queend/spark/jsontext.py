"""Structs, maps and lists as JSON text, column by column; no row becomes a Python object."""
from __future__ import annotations

import base64

import pyarrow as pa
import pyarrow.compute as pc

CONTROLS = "[\\x00-\\x1f]"
SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def json_text(column: pa.Array) -> pa.Array:
    """Returns each value as JSON, null for null."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _object(column)
    if pa.types.is_map(kind):
        pairs = pc.binary_join_element_wise(_key(column.keys), _filled(column.items), ":")
        return _joined(column, pairs, "{", "}")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _joined(column, _filled(column.values), "[", "]")
    return _plain(column)


def _filled(column: pa.Array) -> pa.Array:
    return pc.fill_null(json_text(column), "null")


def _key(column: pa.Array) -> pa.Array:
    """Returns the names of a map's members as JSON strings, whatever the type of its keys."""
    text = json_text(column)
    return text if _quoted(column.type) else pc.binary_join_element_wise('"', text, '"', "")


def _object(column: pa.StructArray) -> pa.Array:
    pieces: list[pa.Array | str] = []
    for place, field in enumerate(column.type):
        name = _escaped(pa.array([field.name]))[0].as_py()
        pieces += [f'{"," if place else "{"}"{name}":', _filled(pc.struct_field(column, place))]
    if not pieces:
        return pc.if_else(column.is_valid(), "{}", pa.scalar(None, pa.string()))
    text = pc.binary_join_element_wise(*pieces, "}", "")
    return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string()))


def _joined(column: pa.ListArray | pa.MapArray, texts: pa.Array, begin: str, end: str) -> pa.Array:
    """Joins the texts of all elements, list by list."""
    lists = pa.ListArray.from_arrays(column.offsets.cast(pa.int32()), texts)
    text = pc.binary_join_element_wise(begin, pc.binary_join(lists, ","), end, "")
    return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string()))


def _quoted(kind: pa.DataType) -> bool:
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
                or pa.types.is_null(kind))


def _plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_floating(kind):
        # JSON has no NaN
        return pc.if_else(pc.is_finite(column), column.cast(pa.string()), pa.scalar(None, pa.string()))
    if not _quoted(kind):
        return column.cast(pa.string())
    if pa.types.is_timestamp(kind):
        if kind.tz:      # that of the session
            column = column.cast(pa.timestamp(kind.unit, "UTC"))
        text = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ" if kind.tz else "%Y-%m-%dT%H:%M:%S")
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = _escaped(column.cast(pa.string()))
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        text = pa.array([None if one is None else base64.b64encode(one).decode() for one in column.to_pylist()],
                        pa.string())
    else:
        text = column.cast(pa.string())    # dates, decimals, durations
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(column: pa.Array) -> pa.Array:
    text = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, CONTROLS)).as_py():
        for code in range(0x20):
            text = pc.replace_substring(text, chr(code), SHORT.get(chr(code), f"\\u{code:04x}"))
    return text
