"""A number of the core that stands for something else has a name: statuses, columns of results, bits, letters.

Statuses of HTTP are their own names. So are 0 and -1 where they mean "none" and nothing else.
"""
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "queend" / "core"
ENUM = re.compile(r"^cdef enum[^\n]*:[ \t]*\n((?:[ \t]+[^\n]*\n|[ \t]*\n)*)", re.M)
FUNCTION = re.compile(r"^(?:cdef|cpdef|def) (?!struct|enum|class|extern)(?:inline )?[^\n(=]*?(\w+)"
                      r"\(((?:[^()]|\([^()]*\))*)\)", re.M)
LITERAL = re.compile(r"(?<![\w.])\d+\b")
COMPARED = r"(?:==|!=|<=|>=|<|>|=)"

# Fields and variables that hold members of an enum.
STATE = re.compile(r"\b((?:\w+\.)*)(status|state|kind|outcome|fault|failed|why|codec|verdict|blame|parked_at|scan|feed"
                   rf"|gate|form|step|unit|level) {COMPARED} (-?\d+)\b")
HTTP = range(100, 600)
# What else has such a name: the state of a random generator, the hint of a decompressor, results of libuv.
OTHER_STATES = {("base/uuid.pyx", "g.state"), ("base/unzip.pyx", "outcome"), ("net/output.pyx", "status"),
                ("pg/address.pyx", "status"), ("pg/slot.pyx", "status")}
ERRORS = {"e.status", "err.status", "h.status", "p.f.t.error.status"}        # 0: no error

# The arguments of libpq that are columns. Functions of the core say it by the name of their parameter.
LIBPQ = {"PQgetvalue": 2, "PQgetisnull": 2, "PQgetlength": 2, "PQfname": 1}
COLUMN, SLOT, LETTER = (re.compile(rf"\b{words}\b") for words in ("int col", "int slot", "char letter"))

# Codes of ASCII: tab, line end, and everything that is printed.
CODE = r"(?:9|10|13|3[2-9]|[4-9]\d|1[01]\d|12[0-7])\b"
CHARACTER = re.compile(rf"\] (?:{COMPARED}|[-+|]) {CODE}|\b[bc] (?:[=!]=|[<>]=?|[-+|]) {CODE}"
                       r"|\b(?:48|65|97) (?:<=?|\+) |<=? (?:57|90|102|122|126)\b")

# One bit of a set of flags. What is behind a shift is not: `>> bit & 1`.
BIT = re.compile(r"(?<!>> )(?<![\w.])([A-Za-z_][\w.]*) (?:&|\|=?) ~?(?:1|2|4|8|16|32|64|128)\b(?! <<)")
# Lowest bits that are numbers: the side of an epoch, hashes that must not be 0, the newest packet of a window.
OTHER_BITS = {"epoch_now", "key", "g.state", "w.had"}

CODED = re.compile(r"return -1\b|else -1$", re.M)
SENTINEL = re.compile(r"(?:[=(,<>]|\bif|\belse|\breturn) -(?:[2-9]|[1-9]\d+)\b")
DATES = {"route/time.pyx", "base/clock.pyx"}


def bare(text: str) -> str:
    """Without texts and comments. Each text becomes `""`, so that lines stay where they are."""
    text = re.sub(r'"""(?:.|\n)*?"""', lambda m: '""' + "\n" * m.group().count("\n"), text)
    text = re.sub(r"""[bc]?"(?:[^"\\\n]|\\.)*"|[bc]?'(?:[^'\\\n]|\\.)*'""", '""', text)
    return re.sub(r"[ \t]*#.*", "", text)


def calls(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Returns place and arguments of each call of a function; its definition is none."""
    for call in re.finditer(rf"(?<![\w.]){name}\(", text):
        depth, begin, arguments = 1, call.end(), []
        for at in range(call.end(), len(text)):
            depth += (text[at] in "([") - (text[at] in ")]")
            if depth == 0 or depth == 1 and text[at] == ",":
                arguments.append(text[begin:at].strip())
                begin = at + 1
            if depth == 0:
                break
        if not text[text.rfind("\n", 0, call.start()) + 1:call.start()].startswith(("cdef ", "cpdef ", "    int ",
                                                                                   "    char")):
            yield call.start(), arguments


class Takers:
    """Functions of libpq and of the core with arguments that must be named, and the place of that argument."""

    def __init__(self, texts: dict[str, str]) -> None:
        parameters = [(name, place, words) for text in texts.values() for name, all_ in FUNCTION.findall(text)
                      for place, words in enumerate(all_.split(","))]
        self.columns, self.slots, self.letters = (
            {name: place for name, place, words in parameters if wanted.search(words)}
            for wanted in (COLUMN, SLOT, LETTER))


def literals(text: str, functions: dict[str, int]) -> Iterator[int]:
    """Returns the calls in which that argument is, or may be, a literal number."""
    for name, place in functions.items():
        for at, words in calls(text, name) if name in text else ():
            if len(words) > place and LITERAL.search(words[place]):
                yield at


def states(file: str, text: str, takers: Takers) -> Iterator[int]:
    for found in STATE.finditer(text):
        field, value = found[1] + found[2], int(found[3])
        http = found[2] in {"status", "why"} and (value in HTTP or value == 0 and field in ERRORS)
        if not http and (file, field) not in OTHER_STATES:
            yield found.start()


def columns(file: str, text: str, takers: Takers) -> Iterator[int]:
    yield from literals(text, LIBPQ | takers.columns | takers.slots)
    yield from (found.start() for found in re.finditer(r"\.field\[\d+\]", text))


def letters(file: str, text: str, takers: Takers) -> Iterator[int]:
    yield from literals(text, takers.letters)
    yield from (found.start() for found in CHARACTER.finditer(text))


def bits(file: str, text: str, takers: Takers) -> Iterator[int]:
    return (found.start() for found in BIT.finditer(text) if found[1] not in OTHER_BITS)


def codes(file: str, text: str, takers: Takers) -> Iterator[int]:
    """Functions that return -1 for one thing and 1 for another, and sentinels below -1."""
    places = [found.start() for found in FUNCTION.finditer(text)] + [len(text)]
    for begin, end in zip(places, places[1:], strict=False):
        if CODED.search(text, begin, end) and re.search(r"return 1\b", text[begin:end]):
            yield begin
    enums = [found.span() for found in ENUM.finditer(text)]
    for found in SENTINEL.finditer(text) if file not in DATES else ():
        if not any(begin <= found.start() < end for begin, end in enums):
            yield found.start()


RULES = {rule.__name__: rule for rule in (states, columns, letters, bits, codes)}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {str(path.relative_to(CORE)): bare(path.read_text()) for path in CORE.rglob("*.p[yx][xi]")}


@pytest.fixture(scope="module")
def takers(texts: dict[str, str]) -> Takers:
    return Takers(texts)


def breaches(rule: str, file: str, text: str, takers: Takers) -> list[str]:
    """Returns file:line: source of each breach."""
    return [f"{file}:{text.count(chr(10), 0, at) + 1}: {text[text.rfind(chr(10), 0, at) + 1:].splitlines()[0].strip()}"
            for at in RULES[rule](file, text, takers)]


@pytest.mark.parametrize("rule", RULES)
def test_a_number_with_a_meaning_has_a_name(texts: dict[str, str], takers: Takers, rule: str) -> None:
    assert [breach for file, text in texts.items() for breach in breaches(rule, file, text, takers)] == []


def test_functions_are_found_that_take_columns_and_letters(takers: Takers) -> None:
    """Otherwise nothing would be looked at. The functions may be renamed, their parameters keep their names."""
    assert len(takers.columns) >= 8 and len(takers.slots) >= 3 and len(takers.letters) >= 2


def test_a_name_of_an_enum_is_its_own(texts: dict[str, str]) -> None:
    homes: dict[str, list[str]] = {}
    for file, text in texts.items():
        for body in ENUM.findall(text):
            for name in re.findall(r"^\s+([A-Za-z_]\w*)", body, re.M):
                homes.setdefault(name, []).append(file)
    assert len(homes) > 900
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def planted(line: str) -> str:
    return bare(f"cdef int planted() noexcept nogil:\n    {line}\n")


@pytest.mark.parametrize("rule, line", [
    ("states", "if it.status == 3:"),
    ("states", "it.status = 4"),
    ("states", "if j.failed == 501:"),
    ("states", "if status != 2 and i:"),
    ("states", "if q.status == 0:"),
    ("columns", "x = {column}(res, row, 3)"),
    ("columns", "x = {column}(res, 0, 1 if a.finds else 0)"),
    ("columns", "x = PQgetisnull(res, i, 2)"),
    ("columns", "n = {slot}(&table, 2, 4)"),
    ("columns", "fbs_long(b, t.field[3], body)"),
    ("letters", "{letter}(seed, 112, id, number)"),
    ("letters", "if 48 <= p[i] <= 57:"),
    ("letters", "if c == 34:"),
    ("letters", "v = v * 10 + text.p[i] - 48"),
    ("letters", "out[4] = 45"),
    ("letters", "low = p[i] | 32"),
    ("bits", "if flags & 4:"),
    ("bits", "if raw.wrong & 1:"),
    ("bits", "seen |= 2"),
    ("codes", "fault = -2"),
    ("codes", "x = known if sure else -2 - known"),
    ("codes", "if a:\n        return -1\n    return 1"),
])
def test_a_number_without_a_name_is_seen(takers: Takers, rule: str, line: str) -> None:
    line = line.format(column=min(takers.columns), slot=min(takers.slots), letter=min(takers.letters))
    assert breaches(rule, "planted.pyx", planted(line), takers)


@pytest.mark.parametrize("line", [
    "if r.status == 404:",
    "if e.status == 0:",
    "it.status = ITEM_FAILED",
    "x = {column}(res, 0, ROW_NAME)",
    "if wanted >> bit & 1:",
    "if b'0' <= p[i] <= b'9':",
    "return at - 1",
])
def test_a_number_that_says_itself_what_it_is_may_stay(takers: Takers, line: str) -> None:
    line = line.format(column=min(takers.columns))
    assert [breach for rule in RULES for breach in breaches(rule, "planted.pyx", planted(line), takers)] == []
