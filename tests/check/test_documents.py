"""Documents: lines that can be read, links that lead somewhere, targets of make that exist, commands that are real."""
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from support.tree import ROOT, tracked
from typer.main import get_command

from queend.cli import app
from queend.settings.model import Settings

PAGES = tracked("*.md")
# Names of PostgreSQL, of a client, of a route; any file; a text that is sealed.
FOREIGN = {"transaction_timeout", "on_commit", "ephemeral_unsupported", "state/get", "migrate/NNNN_name.sql",
           "queend seal 1:"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: str) -> list[tuple[int, str]]:
    """Lines with their numbers, those of code blocks left out."""
    lines, fence, before = [], False, ""
    for number, line in enumerate((ROOT / page).read_text().split("\n"), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence and not (line.startswith("    ") and not before.strip()):
            lines.append((number, line))
            before = line
    return lines


def headings(page: Path) -> set[str]:
    """The anchors a page has, as Git servers make them of its headings."""
    found: list[str] = []
    for _, line in prose(str(page.relative_to(ROOT))):
        if match := re.match(r"#+ (.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).lower()
            anchor = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
            found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return set(found)


def test_no_line_of_prose_is_longer_than_120():
    done = subprocess.run([sys.executable, ROOT / "tools/wrap.py", "--check"], capture_output=True, text=True)
    assert done.stdout == "", "python tools/wrap.py"


def test_what_is_filled_anew_says_the_same():
    wrapped = runpy.run_path(str(ROOT / "tools/wrap.py"))["wrapped"]
    words = "a word and `some code of more words` and [a link](to/somewhere.md) " * 4
    for first, others in (("", ""), ("- ", "  "), ("12. ", "    "), ("  * ", "    ")):
        lines = wrapped(f"{first}{words}\n{others}end 1. of it").split("\n")
        assert len(lines) > 2 and max(map(len, lines)) <= 120 and all(line.startswith(others) for line in lines[1:])
        assert " ".join(" ".join(lines).split()) == " ".join(f"{first}{words} end 1. of it".split())
        assert not any(line.count("`") % 2 or line.count("[") != line.count(")") for line in lines)
    for kept in (f"| {words} |", f"# {words}", f"```\n{words}\n```", f"    {words}",
                 f"<!-- made -->\n{words}\n<!-- /made -->"):
        assert wrapped(kept) == kept


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_a_heading(page):
    lost = []
    for number, line in prose(page):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (ROOT / page).parent / path if path else ROOT / page
            if not file.exists() or anchor and anchor not in headings(file.resolve()):
                lost.append(f"{page}:{number}: {target}")
    assert not lost


def test_files_that_are_named_exist():
    """`docs/…`, `bench/…`, `tests/…`, in pages, code and SQL alike. An applied migration never changes: it may name
    what was."""
    path = (r"\b(docs|bench|tests|tools|queend|sql|systemd|examples)/[a-zA-Z0-9_./-]+"
            r"\.(md|py|pyx|sql|toml|c|svg|sh|json)\b")
    named = subprocess.run(["git", "grep", "-noE", path, "--", ":!sql/migrate", ":!tests", ":!.gitignore",
                            ":!docs/inside/decisions/README.md"],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lost = []
    for line in named.splitlines():
        file, number, path = line.split(":", 2)
        if (not any((base / path).exists() for base in (ROOT, ROOT / "tests", ROOT / Path(file).parent))
            and not path.startswith(("bench/out/", "bench/results/plots/", "queend/queend.toml", "queend/blue.toml"))):
            lost.append(line)
    assert not lost


def sources(*folders: str) -> dict[str, str]:
    return {file: (ROOT / file).read_text() for file in tracked(*folders)
            if file.endswith((".py", ".pyx", ".pxd", ".pxi", ".sql", ".h", ".service", ".c", "Makefile"))}


def test_names_that_are_told_are_in_the_sources():
    """Settings, events, columns, functions, files of the core. Metrics: tests/e2e/test_document_examples.py."""
    found = sources("queend", "sql", "systemd", "tests", "bench", "Makefile")
    own = "\n".join(text for file, text in found.items() if file.startswith(("queend/", "sql/")))
    everything = "\n".join(found.values())
    members = set(re.findall(r"\bqueend\.(\w+)", own))
    words = set(re.findall(r"\w+", everything))          # a look-up each; what is only part of a word is searched for
    places = {place for file in found
              for place in (file.removeprefix(base) for base in ("", "queend/core/", "queend/", "sql/", "tests/"))}
    places |= {place.rsplit(".", 1)[0]
               for place in places} | {parent.as_posix() for place in places for parent in Path(place).parents}
    rooms = "|".join({folder.name for base in ("queend", "queend/core", "sql") for folder in (ROOT / base).iterdir()
                      if folder.is_dir()} | {"core", "engine"})
    fields = {name.upper() for name in Settings.model_fields}
    lost = []
    for page in PAGES:
        foreign = page.startswith("bench/results/")                           # tells of other programs as well
        for number, line in enumerate((ROOT / page).read_text().split("\n"), 1):
            names = [name for name in re.findall(
                r"`((?:QUEEND|QUEEN|LIBQUEEN|JWT|FILE_BUFFER|STATS|METRICS|RETENTION)_[A-Z_]*[A-Z])`", line)
                     if name not in fields and name not in words and name not in everything]
            names += [name for name in re.findall(r"`queend\.([a-z_]+)", line)
                          if name not in ("_core", "toml", "socket") and name not in members]
            names += [name for name in re.findall(rf"`((?:{rooms})/[\w/.]+)`", line)
                      if name.rstrip("/") not in places | FOREIGN]
            names += [name for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", line)
                      if not foreign and name not in words and name not in FOREIGN and name not in everything
                      and not name.startswith(("queend_", "queen_"))]
            lost += [f"{page}:{number}: {name}" for name in names]
    assert not lost


def test_flags_of_benchmarks_exist():
    for page in PAGES:
        for script, words in re.findall(r"python (bench/\w+\.py)([^`\n]*)", (ROOT / page).read_text()):
            text = (ROOT / script).read_text()
            assert not [flag for flag in re.findall(r"--[a-z-]+", words) if f'"{flag}"' not in text], (page, script)


def options(command: click.Command, name: str = "queend") -> Iterator[tuple[str, set[str]]]:
    yield name, {option for parameter in command.params
                 for option in (*parameter.opts, *parameter.secondary_opts)} | {"-h", "--help"}
    for child in getattr(command, "commands", {}).values():
        yield from options(child, f"{name} {child.name}")


def test_commands_and_options_of_queend_exist():
    known = dict(options(get_command(app)))
    lost = []
    for page in PAGES:
        text = (ROOT / page).read_text().replace("\\\n", " ")
        code = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
                         + re.findall(r"^    (queend .*)", text, re.M))
        for line in re.findall(r"`(queend [a-z][^`\n]*)`",
                               text) + re.findall(r"^(?:\$ )?(?:[A-Z_]+=\S+ +)*(queend [a-z].*)", code, re.M):
            words = line.split()
            command = max((name for name in known if words[:name.count(" ") + 1] == name.split()), key=len)
            if line not in FOREIGN and (command == "queend"
                                        or not set(re.findall(r"(?<!\S)--[a-z-]+", line)) <= known[command]):
                lost.append((page, line))
    assert not lost


def test_targets_of_make_exist():
    targets = set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split())
    named = {(page, target) for page in PAGES for number, line in enumerate((ROOT / page).read_text().split("\n"))
             for target in re.findall(r"(?:`|^\$? *)make ([a-z-]+)", line)}
    assert {target for _, target in named} >= {"run", "test", "bench"}
    assert not {one for one in named if one[1] not in targets}


def test_pages_that_users_need_are_in_the_index():
    index = (ROOT / "docs/README.md").read_text()
    linked = set(LINK.findall(index))
    assert not {page.name for page in (ROOT / "docs").glob("*.md")} - linked - {"README.md"}
    glossary = index.split("## Glossary\n")[1]
    assert len(glossary.strip().splitlines()) <= 40
    assert all(f"**{word}**" in index for word in ("queue", "partition", "group", "lease", "cursor"))
    picture, = re.findall(r"!\[[^\]]*\]\(([^)]+\.svg)\)", index)
    drawn = (ROOT / "docs" / picture).read_text()
    assert ElementTree.fromstring(drawn).tag.endswith("svg") and "prefers-color-scheme:dark" in drawn
    assert len(drawn) < 8000


def test_the_site_shows_every_page_of_the_index():
    site = runpy.run_path(str(ROOT / "tools" / "site.py"))
    (_, *sections) = site["nav"]()
    told = [page for section in sections for pages in section.values() for page in pages]
    assert len(told) == len(set(told)) > 25 and all((ROOT / page).exists() for page in told)
    assert {page for page in PAGES if re.fullmatch(r"docs/[^/]+\.md|SECURITY\.md", page)} <= set(told)
    assert site["marked"]("# A-b `c`\ntext\n- one\n- two\n") == "# A-b `c` { #a-b-c }\ntext\n\n- one\n- two\n"


def test_the_index_of_decisions_names_each():
    folder = ROOT / "docs/inside/decisions"
    assert set(LINK.findall((folder / "README.md").read_text())) >= {
        file.name for file in folder.glob("*.md")} - {"README.md"}
    assert len(list(folder.glob("*.md"))) <= 25


@pytest.mark.parametrize("page", ["performance.md", "reliability.md"])
def test_pages_of_two_screens(page):
    assert len((ROOT / "docs" / page).read_text().splitlines()) <= 80


@pytest.mark.parametrize("page", ["reliability.md", "inside/faults.md"])
def test_tests_that_pages_name_exist(page):
    named = set(re.findall(r"`((?:\w+/)+test_\w+\.py)`", (ROOT / "docs" / page).read_text()))
    assert len(named) > 10 and not [one for one in named if not (ROOT / "tests" / one).exists()]


def test_the_comparison_names_the_number_of_recordings():
    recordings = sum(path.read_text().count("\n=== ") + 1 for path in (ROOT / "tests/golden/data").glob("*.txt"))
    assert f"replays {recordings} recorded requests" in (ROOT / "docs/compatibility.md").read_text()


def test_alerts_that_are_named_exist():
    rules = set(re.findall(r"- alert: (\w+)", (ROOT / "monitoring/alerts.yml").read_text()))
    named = {name for page in PAGES for name in re.findall(r"`(Queend[A-Z]\w+(?<!Error))`", (ROOT / page).read_text())}
    assert len(named) >= 10 and named <= rules


def test_security_names_the_share_of_a_client_of_each_bound():
    table = (ROOT / "docs/inside/architecture.md").read_text().partition("\n## Bounds\n")[2].partition("\n## ")[0]
    bounds = set(re.findall(r"`(QUEEND_[A-Z_]+|DB_POOL_SIZE)`", table))
    shares = (ROOT / "SECURITY.md").read_text().partition("\n## What one client can take\n")[2].partition("\n## ")[0]
    assert len(bounds) > 15 and not {name for name in bounds if f"`{name}`" not in shares}
