"""Headers of an item: what is stored for them, and in which words others are refused."""
import json

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import probe_push, ProbeRefused

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"
NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=40)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=60)


def push(headers, **more):
    """The item, and what it stores; headers: JSON text."""
    body = json.dumps({"items": [{"queue": "q", "payload": 1, **more, "headers": 0}]})
    (item,) = probe_push(body.replace('"headers": 0', f'"headers": {headers}').encode())
    return item


def refused(headers, **more):
    with pytest.raises(ProbeRefused) as caught:
        push(headers, **more)
    assert caught.value.status == 400
    return caught.value.text


@pytest.mark.parametrize("text, stored", [
    ('{"a":"b"}', b'{"headers":{"a":"b"}}'),
    (' {\n "a" : "b" , "c":\t"" } ', b'{"headers":{"a":"b","c":""}}'),
    (r'{"\u0061\"":"\n\u0001\ud83d\ude00"}', rb'{"headers":{"\u0061\"":"\n\u0001\ud83d\ude00"}}'),
    (f'{{"b":"1","traceparent":"{TRACE}","a":"2"}}',
     f'{{"traceparent":"{TRACE}","headers":{{"b":"1","a":"2"}}}}'.encode()),
    (f'{{"tracestate":"a=1","traceparent":"{TRACE}"}}', f'{{"traceparent":"{TRACE}","tracestate":"a=1"}}'.encode()),
    (f'{{"trace\\u0070arent":"{TRACE}"}}', f'{{"traceparent":"{TRACE}"}}'.encode())])
def test_what_is_stored(text, stored):
    assert push(text)["headers"] == stored


@pytest.mark.parametrize("text", ["{}", "null", " { } "])
def test_nothing_is_stored_where_there_is_nothing(text):
    assert "headers" not in push(text)


def test_beside_other_extras():
    item = push('{"a":"b"}', traceparent=TRACE, tracestate="x=y", delayMs=60_000)
    assert item["due"] > 0 and json.loads(item["headers"]) == {
        "traceparent": TRACE, "tracestate": "x=y", "headers": {"a": "b"}}
    assert push(f'{{"traceparent":"{TRACE}"}}', traceparent=TRACE)["headers"] == f'{{"traceparent":"{TRACE}"}}'.encode()


@pytest.mark.parametrize("text, words", [
    ("[]", "headers must be an object of strings"), ("5", "headers must be an object"), ('"x"', "headers must be an"),
    ('{"a":1}', "header a must be a string"), ('{"a":null}', "header a must be"), ('{"a":["b"]}', "header a must be"),
    ('{"ä":1}', "header a name must be a string"), ('{"":"x"}', "the name of a header must have 1 to 256 bytes"),
    ('{"a":"1","a":"2"}', "header a is given twice"), (r'{"a":"1","\u0061":"2"}', "header a is given twice"),
    (r'{"a":"\u0000"}', "header a must be text without U+0000"), (r'{"a":"\ud800"}', "header a must be text"),
    (r'{"\u0000":"a"}', "the name of a header must be text"), (r'{"\udc00":"a"}', "the name of a header must be text"),
    ('{"traceparent":"x"}', "traceparent must be one of W3C trace context"),
    ('{"tracestate":"a=1"}', "traceparent must be one of W3C trace context"),
    (f'{{"traceparent":"{TRACE}","tracestate":","}}', "tracestate must be one of W3C trace context")])
def test_refusals(text, words):
    assert words in refused(text) and "(item 0, field " in refused(text)


def test_a_trace_that_differs():
    assert "traceparent and the one in headers differ" in refused(f'{{"traceparent":"{OTHER}"}}', traceparent=TRACE)
    assert "tracestate and the one in headers differ" in refused('{"tracestate":"a=1"}', traceparent=TRACE,
                                                                 tracestate="b=1")


def test_limits():
    name = "n" * 256
    assert push(json.dumps({name: ""}))["headers"] == b'{"headers":{"%s":""}}' % name.encode()
    for longer in (name + "n", "ü" * 129):
        assert "must have 1 to 256 bytes" in refused(json.dumps({longer: ""}, ensure_ascii=False))
    many = {f"n{n}": str(n) for n in range(64)}
    assert json.loads(push(json.dumps(many))["headers"])["headers"] == many
    assert "at most 64 names" in refused(json.dumps({**many, "x": ""}))
    whole = {"a": "x" * (16_384 - 8)}
    text = json.dumps(whole, separators=(",", ":"))
    assert len(text) == 16_384 and json.loads(push(text)["headers"])["headers"] == whole
    assert "at most 16384 bytes" in refused(text.replace("x", "xx", 1))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(NAMES, TEXTS, min_size=1, max_size=20), st.booleans(), st.sampled_from([None, 1]))
def test_any_headers_come_back(headers, ascii_only, indent):
    for name in ("traceparent", "tracestate"):
        headers.pop(name, None)
    stored = push(json.dumps(headers, ensure_ascii=ascii_only, indent=indent)).get("headers", b'{"headers":{}}')
    assert json.loads(stored) == {"headers": headers} and list(json.loads(stored)["headers"]) == list(headers)


@settings(max_examples=300, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=10),
                    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=5), one, max_size=3)))
def test_any_json_is_stored_or_refused(value):
    try:
        item = push(json.dumps(value))
    except ProbeRefused as refusal:
        assert refusal.status == 400 and "(item 0" in refusal.text
    else:
        assert value is None or set(map(type, value.values())) <= {str}
        assert json.loads(item.get("headers", b'{"headers":{}}')) == {"headers": value or {}}
