"""The JSON scanner against two other strict readers: it accepts exactly what they accept, and reads the same."""
import json
import random
import re
import sys

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.damaged import damage

from queend import _core as core

sys.setrecursionlimit(20_000)
ROOM = 80
# what this processor can do; the widest comes last, and stays
WIDTHS = sorted({core.probe_json_walks(width) for width in (0, 16, 32)})


def refuse(word):
    raise ValueError(word)


def python_reads(data: bytes):
    """What Python's reader makes of it: (True, value) or (False, None). Objects as pairs, numbers as written."""
    try:
        return True, json.loads(data.decode(), parse_constant=refuse, parse_int=str, parse_float=str,
                                object_pairs_hook=lambda pairs: ("object", pairs))
    except ValueError:
        return False, None


def plain(value):
    """probe_json_walk's value in the same spelling."""
    if isinstance(value, bytes):
        return {b"true": True, b"false": False, b"null": None}.get(value, value.decode())
    if isinstance(value, tuple):
        return ("object", [(key, plain(item)) for key, item in value[1]])
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def no_surrogates(value):
    """Lone halves of surrogate pairs are legal JSON and no text: the scanner reads each as U+FFFD."""
    if isinstance(value, str):
        return "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in value)
    if isinstance(value, tuple):
        return ("object", [(no_surrogates(key), no_surrogates(item)) for key, item in value[1]])
    if isinstance(value, list):
        return [no_surrogates(item) for item in value]
    return value


# What may stand behind a text that is in the middle of a body: rubbish, more of the same, and what could end it by
# mistake.
BEHIND = [filling * (ROOM // len(filling))
          for filling in (b"\x00", b'"', b"]}", b"0", b"\\", b"\xff", b" ", b',"k":1}]}')]


def check(data: bytes):
    good, value = python_reads(data)
    error, raw = core.probe_json_skip(data)
    assert (error is None) == good, (data, error)
    for width in WIDTHS:
        core.probe_json_walks(width)
        for behind in BEHIND:
            assert core.probe_json_skip(data, behind=behind) == (error, raw), (data, width, behind)
    try:
        walked = plain(core.probe_json_walk(data))
    except ValueError:
        assert not good, data
    else:
        assert good and walked == no_surrogates(value), data
    if good:
        assert raw == data.strip(b" \t\r\n")
    try:
        orjson.loads(data)
        others = True
    except orjson.JSONDecodeError:
        others = False
    # orjson refuses lone surrogates and numbers beyond a double; everywhere else the two strict readers agree
    assert others == good or (good
                              and (no_surrogates(value) != value or re.search(rb"\d{309}|e\+?\d{3}", data, re.I))), data


GOOD = [
    b"null", b"true", b"false", b"0", b"-0", b"1", b"-1", b"10", b"1.5", b"-0.0", b"1e5", b"1E+5", b"1.25e-7",
    b"[]", b"{}", b'""',
    b" \t\r\n[ ] ", b'[1,2 , 3]', b'{"":0}', b'{"a":{"a":{}},"a":[]}', b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', b'"\\u0000"',
    b'"\\uD83D\\uDE00"',
    b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud800\\u0041"', b'"\\ud800\\ud800\\udc00"',
    "\"\u00e9\u65e5\u672c\U0001f600\u007f\"".encode(),
    b'"' + b"x" * 100_000 + b'"', b"1" * 400, b"0." + b"3" * 400, b'"\xef\xbf\xbf"', b'"\xf4\x8f\xbf\xbf"',
    b'"\xed\x9f\xbf"', b'"\xee\x80\x80"', b"[[[[[[[[[[]]]]]]]]]]", b'{"a":[{"b":[{}]}]}',
]
BAD = [
    b"", b" ", b"nul", b"nulll", b"True", b"NaN", b"Infinity", b"-Infinity", b"-", b"+1", b"01", b"-01", b"1.", b".5",
    b"1e", b"1e+", b"1.e5",
    b"0x10", b"1_0", b"[", b"]", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1 2]", b"{", b"}", b'{"a"', b'{"a":', b'{"a":1',
    b'{"a":1,', b'{"a":1,}',
    b'{,"a":1}', b"{a:1}", b"{'a':1}", b'{"a" 1}', b'{"a":1 "b":2}', b'{1:2}', b'{"a":}', b"[1}", b'{"a":1]', b'"',
    b'"a', b'"\\', b'"\\"', b'"\\x"',
    b'"\\u"', b'"\\u12"', b'"\\u123"', b'"\\u123g"', b'"\\u12', b'"\n"', b'"\t"', b'"\x00"', b'"\x1f"', b"1 2",
    b"[] []", b"null,", b"//x\n1", b"/**/1", b"\xef\xbb\xbf1", b"\x001", b"1\x00", b"[1]\x00", b"\x0b1", b"\xa01",
    b'"\x80"', b'"\xc0\x80"', b'"\xc1\xbf"', b'"\xc3"', b'"\xc3\x28"', b'"\xe0\x80\x80"', b'"\xe0\x9f\xbf"',
    b'"\xe2\x82"', b'"\xed\xa0\x80"',
    b'"\xed\xbf\xbf"', b'"\xf0\x80\x80\x80"', b'"\xf0\x8f\xbf\xbf"', b'"\xf4\x90\x80\x80"', b'"\xf5\x80\x80\x80"',
    b'"\xff"', b'"\xfe"',
    b'"\xf0\x9f\x98"', b'"abcdefg\xc3"', b'"abcdefgh\xff"', b'{"\xff":1}', b'"aaaaaaaaaaaaaaaa\x01"', b'"aaaaaaa\\q"',
]


@pytest.mark.parametrize("data", GOOD + BAD, ids=lambda data: repr(data[:40]))
def test_corpus(data):
    check(data)
    assert (core.probe_json_skip(data)[0] is None) == (data in GOOD)


def test_every_prefix_of_a_document_is_refused():
    data = '{"a":[1,-2.5e+7,true,null,"x\\u00e9\\n\u65e5"],"b":{"c":false}}'.encode()
    for n in range(len(data)):
        check(data[:n])
        assert core.probe_json_skip(data[:n])[0] is not None


def test_special_bytes_at_every_place_of_a_word():
    for at in range(24):
        for special in (b'\\"', b"\\\\", b"\\u00e9", "é".encode(), "日".encode(), "😀".encode(), b"\x7f", b"\x1f",
                        b"\x80", b"\\", b'"'):
            check(b'"' + b"a" * at + special + b"b" * (23 - at) + b'"')


def test_every_place_in_a_block():
    """Walks look at 64 bytes at a time: each kind of token at each place, and across the edge."""
    for at in range(70):
        for token in (b"0", b"-12.5e+3", b"123456789012345678901234567890", b"01", b"1.", b"true", b"nul", b'"\\u00e9"',
                      b'"\\x"', '"日本"'.encode(), b'"\xc3"', b"{}", b"[]", b"[1,]",
                      b'{"k":1}', b'{"k"}', b'"a""b"', b"1 2", b'{"k":1,}', b"]", b"}", b"\x01", b'"\x01"'):
            for pad in (b" " * at, b'"' + b"x" * at + b'",', b"[" + b"1" * at + b"1],", b'{"k":"' + b"y" * at + b'"},'):
                check(b"[" + pad + token + b"]")
                check(b'{"a":[' + pad + token + b"]} ")


def test_text_behind_is_no_part_of_it():
    for text in (b'{"a', b'{"a":', b'{"a":"b', b"[1", b"[1,", b"[tr", b"[", b'{"a":[1]', b'["\\', b'["\\u00'):
        for width in WIDTHS:
            core.probe_json_walks(width)
            for rest in (b'":1}', b"1}", b'"}', b"]", b"1]", b"ue]", b"]", b"}", b'n"]', b'e9"]'):
                error, raw = core.probe_json_skip(text, behind=rest.ljust(ROOM))
                assert error and raw is None, (text, width, rest)


def test_depth():
    for opening, closing in ((b"[", b"]"), (b'{"k":', b"}"), (b'[{"k":', b"}]")):
        deep = opening.count(b"[") + opening.count(b"{")
        for limit in (1, 2, 6, 64, 65, 512):
            for levels in (limit // deep, limit // deep + 1):
                data = opening * levels + b"1" + closing * levels
                error, _ = core.probe_json_skip(data, limit)
                for width in WIDTHS:
                    core.probe_json_walks(width)
                    assert core.probe_json_skip(data, limit, BEHIND[0])[0] == error, (data[:20], limit, levels, width)
                assert (error is None) == (levels * deep <= limit), (data[:20], limit, levels)
                if error:
                    assert error.startswith("nested too deep at byte ")
                    with pytest.raises(ValueError, match="nested too deep"):
                        core.probe_json_walk(data, limit)
    assert core.probe_json_skip(b"[" * 1_000_000)[0] == "nested too deep at byte 512"


def test_errors_name_the_place():
    assert core.probe_json_skip(b'{"a": tru}') == ("unexpected byte at byte 6", None)
    assert core.probe_json_skip(b"[1, 2") == ("unexpected end at byte 5", None)
    assert core.probe_json_skip(b'["ab\xff"]') == ("invalid UTF-8 at byte 4", None)
    assert core.probe_json_skip(b"[] x") == ("unexpected byte after the value at byte 3", None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner), max_leaves=20)


@settings(max_examples=200)
@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_any_document(value, ascii_only, indent):
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    check(data)
    assert core.probe_json_skip(data)[0] is None


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes(data):
    check(data)
    check(b'"' + data + b'"')


def test_damaged_documents():
    chance = random.Random(20261121)
    pieces = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"0", b"-", b".", b"e", b"\x00", b"\xff",
              b"\xc3", b"\xa9", b"\xed\xa0\x80", b" ", b"null"]
    documents = [data for data in GOOD
                 if len(data) < 200] + [b'{"items":[{"queue":"q","payload":{"n":1.5e3,"t":"\\u00e9\\n"}}]}']
    for _ in range(20_000):
        data = bytearray(chance.choice(documents))
        damage(data, chance, pieces, 3)
        check(bytes(data))


@settings(max_examples=300)
@given(st.text(st.characters(codec="utf-8")))
def test_literals_are_written_as_they_are_read(text):
    literal = core.probe_json_escape(text)
    assert json.loads(literal) == text and orjson.loads(literal) == text
    assert core.probe_json_unescape(literal) == (text, False)
    assert core.probe_json_unescape(json.dumps(text).encode()) == (text, False)


def test_every_control_character_is_escaped():
    text = "".join(map(chr, range(0x21))) + '"\\/\x7f\u2028'
    assert json.loads(core.probe_json_escape(text)) == text
    assert core.probe_json_escape('\b\f\n\r\t"\\\x01') == b'"\\b\\f\\n\\r\\t\\"\\\\\\u0001"'


def test_lone_surrogates_are_told():
    for literal, text in ((rb'"\ud800"', "\ufffd"), (rb'"\udc00x"', "\ufffdx"), (rb'"\ud800\u0041"', "\ufffdA"),
                          (rb'"\ud800\ud83d\ude00"', "\ufffd\U0001f600"), (rb'"\ud83d"', "\ufffd")):
        assert core.probe_json_unescape(literal) == (text, True)
    assert core.probe_json_unescape(rb'"\ud83d\ude00"') == ("\U0001f600", False)
