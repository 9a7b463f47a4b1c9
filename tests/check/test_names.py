"""Names of the core: a function begins with the noun of its file, and a file's noun stands in one file only, so that a
line is found by its name. Without a database."""
from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

CORE = Path(__file__).resolve().parents[2] / "queend" / "core"
SHORT = {"buffer": "buf", "connection": "conn", "transaction": "tx"}
# Numbers by their width and order of bytes; the engine of a worker; the refusal of an item, which all readers use.
OTHERS = {f"{order}{bits}{put}" for order in ("be", "le") for bits in (16, 32, 64) for put in ("", "_put")}
OTHERS |= {"engine_of", "refuse_item"}
FUNCTION = re.compile(r"^(?:cdef|cpdef) (?!struct|enum|class|extern|packed)(?:inline )?[^\n(=]*?(\w+)\(", re.M)


def sources() -> dict[str, str]:
    """Returns the files of the core without the seams for tests, whose functions begin with probe_."""
    return {str(path.relative_to(CORE)): path.read_text() for path in CORE.rglob("*.pyx")
            if path.parent.name != "probe"}


def singular(noun: str) -> str:
    return noun[:-3] + "y" if noun.endswith("ies") else noun.removesuffix("s")


def nouns(file: str) -> set[str]:
    stem = PurePath(file).stem
    return {stem, singular(stem), SHORT.get(stem, stem)}


def strangers(texts: dict[str, str]) -> Iterator[str]:
    """Each function that does not begin with the noun of its file."""
    for file, text in texts.items():
        for name in FUNCTION.findall(text):
            fits = any(name.lstrip("_") == noun or name.lstrip("_").startswith(f"{noun}_") for noun in nouns(file))
            if not fits and file != "core.pyx" and name not in OTHERS:
                yield f"{file}: {name}"


def repeated(files: list[str]) -> dict[str, list[str]]:
    """Files whose nouns are the same, or differ by an s."""
    stems: dict[str, list[str]] = defaultdict(list)
    for file in files:
        stems[singular(PurePath(file).stem)].append(file)
    return {stem: found for stem, found in stems.items() if len(found) > 1}


def test_a_function_begins_with_the_noun_of_its_file() -> None:
    assert list(strangers(sources())) == []


def test_a_noun_has_one_file() -> None:
    assert repeated(list(sources())) == {}


def test_few_functions_have_names_of_their_own() -> None:
    there = {name for text in sources().values() for name in FUNCTION.findall(text)}
    assert there >= OTHERS and len(OTHERS) <= 20


@pytest.mark.parametrize(("file", "name", "fits"), [
    ("push/evict.pyx", "evict_items", True), ("push/evict.pyx", "items_evict", False),
    ("run/queries.pyx", "query_open", True), ("net/connection.pyx", "conn_open", True),
    ("net/connection.pyx", "connect", False), ("push/evict.pyx", "evict", True)])
def test_a_planted_name_is_seen(file: str, name: str, fits: bool) -> None:
    text = f"cdef inline bint {name}(Push* p, int n) noexcept nogil:\n    return True\n"
    assert (list(strangers({file: text})) == []) is fits


def test_a_planted_file_is_seen() -> None:
    assert repeated(["push/record.pyx", "spool/records.pyx", "net/line.pyx"]) == {
        "record": ["push/record.pyx", "spool/records.pyx"]}
