"""Bodies of rows as they are written: compressed where that pays, and always read back as they were."""
import random

from hypothesis import given, settings
from hypothesis import strategies as some

from queend._core import probe_batchrow, probe_bodypack

from sql.records import id7, inner

WORDS = [b"order", b"customer", b"amount", b"open", b"paid", b"USD"]
PAYLOADS = some.one_of(some.binary(max_size=300),
                       some.lists(some.sampled_from(WORDS), max_size=400).map(lambda w: b'"' + b" ".join(w) + b'"'))
ROWS = some.lists(some.lists(PAYLOADS, min_size=1, max_size=40), min_size=1, max_size=4)


@settings(max_examples=200)
@given(ROWS)
def test_every_row_is_read_as_it_was_written(rows: list[list[bytes]]) -> None:
    bodies = probe_bodypack([inner(payloads) for payloads in rows])
    for payloads, body in zip(rows, bodies):
        ids = [id7() for _ in payloads]
        assert [(r[0], r[1]) for r in probe_batchrow(b"".join(ids), body, b"", len(ids))] == list(zip(ids, payloads))
        assert len(body) <= len(inner(payloads)) + 1


def test_what_does_not_shrink_stays_plain() -> None:
    noise, text = [random.Random(1).randbytes(3000)], [b'{"n":%d}' % n for n in range(1000)]
    first, second, third = probe_bodypack([inner(noise), inner(text), inner(noise)])
    assert first == third == b"\x10" + inner(noise)
    assert second[0] == 0x11 and len(second) < len(inner(text)) // 2
