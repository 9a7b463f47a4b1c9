"""Which requests are hot, how queries are read, and what counts as a moment."""
from datetime import datetime, timedelta, timezone
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, strategies as st

from queend._core import probe_pop, probe_query, probe_route, probe_time, ProbeRefused

HOT = [
    ("POST", b"/api/v1/push", "push"),
    ("POST", b"/api/v1/ack", "ack"),
    ("POST", b"/api/v1/ack/batch", "ack_batch"),
    ("POST", b"/api/v1/transaction", "transaction"),
    ("POST", b"/api/v1/lease/abc/extend", "lease"),
    ("POST", b"/streams/v1/cycle", "cycle"),
    ("POST", b"/api/v1/events/q", "events"),
    ("GET", b"/api/v1/pop", "pop_any"),
    ("GET", b"/api/v1/pop/queue/q", "pop_queue"),
    ("GET", b"/api/v1/pop/queue/a%2Fb", "pop_queue"),
    ("GET", b"/api/v1/pop/queue/q/partition/p", "pop_partition"),
    ("GET", b"/api/v1/pop/queue/partition/partition/partition", "pop_partition"),
    ("GET", b"/api/v1/pop/queue/q/partition/", "pop_partition"),
    ("GET", b"/livez", "livez"),
    ("HEAD", b"/readyz", "readyz"),
]
NOT_HOT = [
    ("GET", b"/"), ("GET", b""), ("GET", b"/api/v1/"), ("GET", b"/health"), ("POST", b"/livez"),
    ("GET", b"/api/v1/push"), ("PUT", b"/api/v1/push"), ("POST", b"/api/v1/push/"), ("POST", b"/api/v1/pushx"),
    ("POST", b"/api/v1/pop/queue/q"), ("HEAD", b"/api/v1/pop/queue/q"), ("OPTIONS", b"/api/v1/push"),
    ("GET", b"/api/v1/pop/"), ("GET", b"/api/v1/pop/queue"), ("GET", b"/api/v1/pop/queue/"),
    ("GET", b"/api/v1/pop/queue//partition/p"), ("GET", b"/api/v1/pop/queue/q/"),
    ("GET", b"/api/v1/pop/queue/q/part/p"),
    ("GET", b"/api/v1/pop/queue/q/partition"), ("GET", b"/api/v1/pop/queue/q/partition/a/b"),
    ("POST", b"/api/v1/lease//extend"), ("POST", b"/api/v1/lease/extend"), ("POST", b"/api/v1/lease/a/b/extend"),
    ("POST", b"/api/v1/lease/a/extendx"), ("GET", b"/api/v1/lease/a/extend"), ("POST", b"/api/v1/ack/batch/"),
    ("POST", b"/api/v1/events/"), ("POST", b"/api/v1/events/a/b"), ("GET", b"/api/v1/events/q"),
    ("GET", b"/streams/v1/cycle"), ("POST", b"/streams/v1/cycle/"), ("POST", b"/streams/v1/queries"),
    ("POST", b"/streams/v1/state/get"),
]


@pytest.mark.parametrize("method, path, route", HOT)
def test_hot_routes(method, path, route):
    assert probe_route(method, path) == route


@pytest.mark.parametrize("method, path", NOT_HOT)
def test_everything_else_belongs_to_the_control_plane(method, path):
    assert probe_route(method, path) is None


@given(st.sampled_from(["GET", "POST", "HEAD"]), st.binary(max_size=60),
       st.sampled_from([p for _, p, _ in HOT]), st.integers(0, 40))
def test_any_path_has_an_answer(method, tail, path, cut):
    probe_route(method, path[:cut] + tail)


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(names, names)
def test_path_names_are_decoded_once(queue, partition):
    path = f"/api/v1/pop/queue/{quote(queue, safe='')}/partition/{quote(partition, safe='')}".encode()
    asked = probe_pop(path)
    assert (asked["queue"], asked["partition"]) == (queue, partition)


def test_a_plus_in_a_path_is_a_plus():
    assert probe_pop(b"/api/v1/pop/queue/a+b%2Bc%2520")["queue"] == "a+b+c%20"


@pytest.mark.parametrize("raw", [b"%", b"%4", b"a%zz", b"%00", b"%ff", b"%c3", b"%ed%a0%80", b"\xff"])
def test_a_name_that_is_no_text_is_refused(raw):
    with pytest.raises(ProbeRefused, match="queue name"):
        probe_pop(b"/api/v1/pop/queue/" + raw)
    with pytest.raises(ProbeRefused, match="partition name"):
        probe_pop(b"/api/v1/pop/queue/q/partition/" + raw)
    with pytest.raises(ProbeRefused, match="consumerGroup"):
        probe_pop(b"/api/v1/pop/queue/q", b"consumerGroup=" + raw)


@given(st.lists(st.tuples(st.sampled_from("ab"), names), max_size=5))
def test_queries_read_like_everywhere(pairs):
    query = "&".join(f"{k}={quote_plus(v)}" for k, v in pairs).encode()
    for key in "ab":
        assert probe_query(query, key.encode()) == next((v for k, v in pairs if k == key), None)


@pytest.mark.parametrize("query, value", [
    (b"", None), (b"k", ""), (b"k=", ""), (b"&&k=1", "1"), (b"xk=1", None), (b"k=1&k=2", "1"), (b"a=k=1", None),
    (b"k=a=b", "a=b"), (b"k=a%26b", "a&b"), (b"kk=1&k=2", "2"), (b"k=%2B+", "+ "),
])
def test_query_corners(query, value):
    assert probe_query(query, b"k") == value


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
moments = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))
zones = st.integers(-15 * 60 - 59, 15 * 60 + 59)


@given(moments, zones, st.sampled_from(["T", " ", "t"]))
def test_moments_agree_with_python(moment, minutes, separator):
    there = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    us = (there - EPOCH) // timedelta(microseconds=1)
    text = there.isoformat(sep=separator)
    assert probe_time(text.encode()) == us
    assert probe_time(text.replace("+", " ").encode()) == us
    utc = (moment.replace(tzinfo=timezone.utc) - EPOCH) // timedelta(microseconds=1)
    assert probe_time(moment.isoformat().encode() + b"Z") == utc
    assert probe_time(moment.isoformat(sep=separator).encode()) == utc


@pytest.mark.parametrize("text, moment", [
    ("2026-01-02", "2026-01-02T00:00:00+00:00"),
    ("2026-01-02Z", "2026-01-02T00:00:00+00:00"),
    ("2026-01-02 03:04", "2026-01-02T03:04:00+00:00"),
    ("2026-01-02 03:04:05 +02", "2026-01-02T03:04:05+02:00"),
    ("2026-01-02T03:04:05.1234567-0130", "2026-01-02T03:04:05.123456-01:30"),
    ("2024-02-29T23:59:59.9z", "2024-02-29T23:59:59.900000+00:00"),
])
def test_moments_people_write(text, moment):
    assert probe_time(text.encode()) == (datetime.fromisoformat(moment) - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize("text", [
    "", "now", "garbage", "2026", "2026-1-2", "2026-02-29", "2026-13-01", "2026-00-10", "0000-01-01", "2026-01-32",
    "2026-01-02T", "2026-01-02T03", "2026-01-02 03", "2026-01-02T03:0", "2026-01-02T24:00:00", "2026-01-02T03:60:00",
    "2026-01-02T03:04:61", "2026-01-02T03:04:05.", "2026-01-02T03:04:05Zz", "2026-01-02T03:04:05+",
    "2026-01-02T03:04:05+1",
    "2026-01-02T03:04:05+16:00", "2026-01-02T03:04:05+02:60", "2026-01-02T03:04:05+02:",
    "2026-01-02T03-04", "1767322800",
])
def test_no_moment(text):
    assert probe_time(text.encode()) is None


@given(st.text(st.sampled_from("0123456789-:TZ+. "), max_size=30))
def test_any_text_is_a_moment_or_none(text):
    probe_time(text.encode())
