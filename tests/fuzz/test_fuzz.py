"""The readers of what strangers send, driven by libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer: all
that is kept in corpus/ is read again, then the fuzzer goes on from there for a while. `make fuzz` gives it longer, and
keeps what it learns (FUZZ_KEEP). The inputs of a target are one archive: they are a thousand, and nobody reads them."""
from __future__ import annotations

import hashlib
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from support.seeds import seed_of_run

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).parent / "corpus"
TARGETS = ["head", "chunk", "json", "lines", "arrow", "frames", "events", "spool", "packet"]
SECONDS = int(os.environ.get("FUZZ_SECONDS", 1))
# What runs for seconds is built in a quarter of the time.
LONG = SECONDS >= 60
PROGRAMS = ROOT / (".fuzz" if LONG else ".fuzz-quick")
BUILD = ["make", "--no-print-directory", PROGRAMS / "fuzz" if LONG else "fuzz-quick"]
KEEP = bool(os.environ.get("FUZZ_KEEP"))
# Nothing here takes long: an input of 4 KiB that takes ten seconds is a finding.
BOUNDS = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1", "-verbosity=0"]


@pytest.fixture(scope="module")
def programs() -> Path:
    # the flags of a make above this one
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(BUILD, cwd=ROOT, capture_output=True, text=True, env=clean)
    assert made.returncode == 0, made.stderr
    return PROGRAMS


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the readers look for: a fuzzer does not guess `traceparent`."""
    found = {word for room in ("route", "http") for file in (ROOT / "queend/core" / room).iterdir()
             for word in re.findall(r'b"([A-Za-z][\w./-]{1,60})"', file.read_text())}
    assert {"traceparent", "transactionId", "chunked"} <= found
    file = tmp_path_factory.mktemp("words") / "words"
    file.write_text("".join(f'"{word}"\n' for word in sorted(found)))
    return file


def run(programs: Path, target: str, where: Path, *arguments: str | Path) -> None:
    done = subprocess.run([programs / target, *BOUNDS, f"-artifact_prefix={where}/", *arguments], capture_output=True,
                          text=True, errors="replace", cwd=where)
    found = {file.name: file.read_bytes() for file in where.iterdir() if file.is_file()}
    assert done.returncode == 0 and not found, (found, done.stderr[-6000:])


@pytest.mark.parametrize("target", TARGETS)
def test_readers_stand_what_strangers_send(programs: Path, words: Path, target: str, tmp_path: Path) -> None:
    known, learned = tmp_path / "known", tmp_path / "learned"
    learned.mkdir()
    with zipfile.ZipFile(CORPUS / f"{target}.zip") as archive:
        archive.extractall(known)
    files = sorted(known.iterdir())
    assert files
    run(programs, target, tmp_path, *files)
    run(programs, target, tmp_path, f"-seed={seed_of_run()}", f"-max_total_time={SECONDS}", f"-dict={words}", learned,
        known)
    if KEEP:
        keep(programs, target, tmp_path, known, learned)


def keep(programs: Path, target: str, where: Path, known: Path, learned: Path) -> None:
    """A small set of small inputs that reaches all that any of them reaches becomes the corpus. The archive depends on
    these inputs alone."""
    best = where / "best"
    best.mkdir()
    run(programs, target, where, "-set_cover_merge=1", "-use_counters=0", "-max_len=1024", best, known, learned)
    inputs = {hashlib.sha1(data).hexdigest(): data for data in (file.read_bytes() for file in best.iterdir())}
    with zipfile.ZipFile(CORPUS / f"{target}.zip", "w") as archive:
        for name, data in sorted(inputs.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)
