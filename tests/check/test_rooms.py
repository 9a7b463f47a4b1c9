"""Rooms of the core only look up: a file uses names of its own room and of rooms that queend/_core.pyx includes before
it.

Upwards a room calls through function pointers, which are fields and so no names of another file (state/workertypes).
"""
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

QUEEND = Path(__file__).resolve().parents[2] / "queend"
# What Python sees of the core, in whichever folder it stands: below all rooms.
FOR_PYTHON = {"core/peer/peerapi.pyx", "core/logrecord.pyx", "core/stats.pyx", "core/core.pyx"}
FOR_PYTHON_FOLDERS = {"read", "probe"}
BLOCK = re.compile(r"^(?:cdef|ctypedef) (struct|enum)(?: (\w+))?:\n((?:[ \t]+[^\n]*\n|[ \t]*\n)*)", re.M)
FUNCTION = re.compile(r"^(?:cdef|cpdef) (?!struct|enum|class|extern)(?:inline )?[^\n(=]*?(\w+)\(", re.M)
VARIABLE = re.compile(r"^cdef (?!struct|enum|class|extern)(?:const )?[\w\[\], ]+?[ *]+(\w+)(?: *=.*)?$", re.M)
POINTER = re.compile(r"^ctypedef [^\n]*\(\*(\w+)\)", re.M)


def files() -> list[str]:
    return re.findall(r'^include "(core/[^"]+)"', (QUEEND / "_core.pyx").read_text(), re.M)


def bare(text: str) -> str:
    """Without texts and comments."""
    text = re.sub(r'"""(?:.|\n)*?"""', "", text)
    text = re.sub(r"""b?"(?:[^"\\\n]|\\.)*"|b?'(?:[^'\\\n]|\\.)*'""", "", text)
    return re.sub(r"#.*", "", text)


def room(file: str) -> str:
    folder = file.split("/")[1]
    return "python" if file in FOR_PYTHON or folder in FOR_PYTHON_FOLDERS else folder


def defined(text: str) -> set[str]:
    names: set[str] = set()
    for kind, name, body in BLOCK.findall(text):
        names |= {name} - {""}
        if kind == "enum":
            names |= set(re.findall(r"^\s+(\w+)", body, re.M))
    rest = BLOCK.sub("", text)
    return names | {n for pattern in (FUNCTION, VARIABLE, POINTER) for n in pattern.findall(rest)}


def types_of_fields(body: str) -> str:
    body = re.sub(r"\(\*\w+\)", "", body)
    return re.sub(r"\w+(?=\s*(?:,|$))", "", body, flags=re.M)


def used(text: str) -> set[str]:
    """Names that are no field, no argument and no variable of a function."""
    text = BLOCK.sub(lambda block: types_of_fields(block.group(3)) if block.group(1) == "struct" else "", text)
    own = set(re.findall(r"^\s+cdef [\w\[\] ]+?[ *]+(\w+)", text, re.M))
    own |= set(re.findall(r"[(,] *(?:const )?\w+[ *]+(\w+)(?=[,)])", text))
    return set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", text)) - own


def against(order: list[str], texts: dict[str, str]) -> Iterator[str]:
    """Each use of a name that a room further down defines."""
    place = {r: i for i, r in enumerate(dict.fromkeys(room(f) for f in order))}
    home = {name: f for f in order for name in defined(texts[f])}
    for file in order:
        for name in sorted(used(texts[file]) & home.keys()):
            if place[room(home[name])] > place[room(file)]:
                yield f"{file} uses {name} of {home[name]}"


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {f: bare((QUEEND / f).read_text()) for f in files()}


def test_every_file_of_the_core_is_on_the_map():
    there = {str(p.relative_to(QUEEND)) for p in (QUEEND / "core").rglob("*") if p.suffix in {".pyx", ".pxi"}}
    assert there == set(files())


def test_a_room_stands_together():
    rooms = [room(f) for f in files()]
    assert len(set(rooms)) == len([r for i, r in enumerate(rooms) if i == 0 or rooms[i - 1] != r]), rooms


def test_rooms_only_look_up(texts):
    assert not list(against(files(), texts))


@pytest.mark.parametrize("file, line, name", [
    ("core/names/catalog.pyx", "    index_stored(p, 1, NULL)\n", "index_stored"),
    ("core/pg/slot.pyx", "    cdef Worker* w = NULL\n", "Worker"),
    ("core/deliver/pop.pyx", "    appender_send(s)\n", "appender_send"),
    ("core/net/worker.pyx", "    drain_turn(w)\n", "drain_turn"),
])
def test_an_arrow_against_the_order_is_seen(texts, file, line, name):
    planted = texts | {file: texts[file] + "\ncdef void planted() noexcept nogil:\n" + line}
    assert [a.split(" uses ")[1].split()[0] for a in against(files(), planted)] == [name]


def test_hashes_of_what_clients_choose_are_keyed(texts):
    """With a seed that is known, who chooses the texts makes all of them meet. No client chooses what daemons tell each
    other, nor what a server says."""
    known = re.compile(r"slice_hash\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*, *\d")
    assert {file for file, text in texts.items() if known.search(text)} == {"core/peer/peers.pyx",
                                                                            "core/pg/slotpool.pyx"}


@pytest.mark.parametrize("place", ["RESOLVING", "ASKING", "RELOADING", "PAUSED", "FLUSHING", "RETRYING", "LEASING",
                                   "FETCHING", "PUSHING", "HELD", "BUFFERING", "PARKED_GROUP", "PARKED_CURSOR",
                                   "PARKED_NAME", "PARKED_RATE", "WOKEN"])
def test_a_place_of_jobs_is_entered_and_reported(texts, place):
    """A list gives its place to the jobs that enter it; a job begins as PENDING."""
    assert re.search(rf"^    JOB_{place}\b", texts["core/state/joblist.pyx"], re.M)
    enters = re.compile(rf"\bjoblist_open\([^\n]*\bJOB_{place}\)|\.at = JOB_{place}\b")
    assert [file for file, text in texts.items() if enters.search(text)]
    assert re.search(rf"\bstopreport_place\(JOB_{place}\b", texts["core/run/stopreport.pyx"])
