"""Payloads searched in rows of the log: every codec, where a row was left, moments, damage."""
import uuid

import pytest
from sql.records import body, framed, id7, id_text, inner, meta, packed
from support.frames import frames

from queend._core import payloads_search

T0, EVER = 1_767_323_045_678_901, 2**63 - 1


def row(base, payloads, part=5, encode=body, extras=b"", created=T0, ids=None):
    ids = ids or [id7() for _ in payloads]
    return part, base, len(payloads), created, b"".join(ids), encode(payloads), extras


def search(rows, *texts, since=0, until=EVER, below=EVER, most=100, sealed=False):
    return payloads_search(b"q", sealed, list(texts), rows, since, until, below, most)


def offsets(found):
    return [(one[0], one[1]) for one in found[0]]


def numbered(n, of=1):
    return [b'{"n":%d}' % (i // of) for i in range(n)]


@pytest.mark.parametrize("encode", [body, lambda some: packed(inner(some))])
def test_the_last_record_of_each_row_comes_first(encode):
    rows = [row(100, numbered(10, 3), encode=encode), row(0, numbered(10, 3), part=6, encode=encode)]
    found = search(rows, b'"n":1')
    assert offsets(found) == [(5, 105), (5, 104), (5, 103), (6, 5), (6, 4), (6, 3)] and found[1:] == (20, 0, None)
    assert [one[5] for one in found[0]] == ['{"n":1}'] * 6
    assert search(rows, b"none", b'"n":3')[0] == search(rows, b'"n":3')[0] != []
    assert search([], b"x") == ([], 0, 0, None)


@pytest.mark.parametrize("most", range(1, 8))
def test_a_search_that_is_full_goes_on_where_it_was(most):
    rows = [row(100, numbered(10, 3)), row(40, [b"1"] * 7), row(0, numbered(10, 3), part=6, created=T0 - 1)]
    whole, told, looked = search(rows, b'"n":1')[0], [], 0
    below, left = EVER, rows
    while True:
        found, searched, unread, place = search(left, b'"n":1', below=below, most=most)
        told, looked = told + found, looked + searched
        assert unread == 0 and len(found) <= most
        if place is None:
            break
        created, part, below = place
        left = [one for one in rows if one[3] < created or one[3] == created and (
            one[0] > part or one[0] == part and one[1] < below)]
        below = below if left and (left[0][3], left[0][0]) == (created, part) else EVER
    assert told == whole and looked == 27


def test_ids_and_texts_are_those_of_the_record():
    ids = [id7(), id_text("order 4711")]
    (second, first), *_ = search([row(7, [b'{"a":"x"}', b'{"b":"x"}'], ids=ids,
                                      extras=meta({1: (None, None, "order 4711")}))], b"x")
    assert second[:4] == (5, 8, T0, "order 4711") and first[:4] == (5, 7, T0, str(uuid.UUID(bytes=ids[0])))
    assert uuid.UUID(second[4]).version == 7 and second[4] > first[4]
    given = [id7(), id7()]
    ((_, offset, _, text, message, excerpt),), *_ = search(
        [row(0, [b'"needle"', b"1"], encode=lambda some: framed(frames(some, ["a", "b"], given)))], b"needle")
    assert (offset, text, message, excerpt) == (0, "a", str(uuid.UUID(bytes=given[0])), '"needle"')


def test_an_excerpt_is_short_and_keeps_its_letters():
    payload = ('"' + "ü" * 1000 + "4711" + "€" * 1000 + '"').encode()
    ((*_, excerpt),), *_ = search([row(0, [payload])], b"4711")
    assert excerpt.strip("ü€") == "4711" and 150 < len(excerpt.encode()) <= 180


def test_only_what_was_stored_between_two_moments():
    times = b"\x11\x03" + bytes([20, 10, 5])      # the first 20 µs before the row, then 10 and 5 later
    one = row(0, [b"1"] * 3, extras=times)
    assert offsets(search([one], b"1")) == [(5, 2), (5, 1), (5, 0)]
    assert offsets(search([one], b"1", until=T0 - 10)) == [(5, 1), (5, 0)]
    assert offsets(search([one], b"1", since=T0 - 10)) == [(5, 2), (5, 1)]
    assert search([one], b"1", since=T0 + 1) == ([], 0, 0, None)


def test_what_cannot_be_read_is_counted():
    good, cut = row(0, numbered(4)), row(10, numbered(4))
    for damaged in (cut[:5] + (cut[5][:-1], b""), cut[:5] + (b"\x77" + cut[5][1:], b""), cut[:5] + (b"", b""),
                    cut[:5] + (b"\x11\x05" + b"nonsense", b"")):
        assert search([damaged, good], b"n")[1:] == (4, 4, None)
    beyond = row(0, [b"1"] * 3, extras=b"\x11\x02" + bytes([5, 9]))      # times that do not fit
    assert search([beyond], b"1")[2] == 2
    strange = meta({0: (None, None, "abc")}).replace(b"abc", b"a\xffc")
    assert search([row(0, [b"1"], extras=strange)], b"1")[0][0][3] == "a\ufffdc"
    for texts in ((), (b"",), (b"x",) * 10):
        with pytest.raises(ValueError):
            search([good], *texts)
