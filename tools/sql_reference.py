"""Prints docs/sql-reference.md: the views and functions of the schema `queen`, by the COMMENTs of sql/queen. A test
compares the two."""
from __future__ import annotations

import re
import runpy
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "sql" / "queen"
HEAD = """# The schema `queen`

Generated from the comments in the database; `\\dd queen.*` and `\\d+` in psql show the same. [From SQL](sql.md)
describes the use and the rights.
"""
MADE = re.compile(r"CREATE OR REPLACE (FUNCTION|VIEW) (queen(?:_streams)?\.\w+)"
                  r"(?:\(((?:[^()]|\([^()]*\))*)\)\s*RETURNS\s+((?:TABLE\s*\((?:[^()]|\([^()]*\))*\)|\w+(?: \w+)*?))"
                  r"\s+LANGUAGE)?", re.I)
COMMENT = re.compile(r"COMMENT ON (FUNCTION|VIEW) (queen(?:_streams)?\.\w+)(?:\([^)]*\))? IS\s+'((?:[^']|'')*)';")


def document() -> str:
    views, functions = [], {}
    for path in sorted(FOLDER.glob("*.sql")):
        text = path.read_text()
        made: dict[str, list[re.Match]] = {}
        for found in MADE.finditer(text):
            made.setdefault(found[2], []).append(found)
        for kind, name, comment in COMMENT.findall(text):
            line = plain(comment.replace("''", "'"))
            if kind == "VIEW":
                views.append(f"| `{name}` | {line.replace('|', chr(92) + '|')} |")
            elif (found := made[name].pop(0))[4] != "trigger":
                calls, told = functions.setdefault(name, ([], []))
                calls.append(f"{name}({plain(found[3])}) RETURNS {plain(found[4])}")
                told += [line] if line not in told else []
    parts = [f"### {name}\n\n```\n{new.join(calls)}\n```\n\n{new.join(told)}\n"
             for name, (calls, told) in sorted(functions.items())]
    return runpy.run_path(str(FOLDER.parents[1] / "tools" / "wrap.py"))["wrapped"](
        new.join([HEAD, "## Views\n", "| view | description |", "|---|---|", *sorted(views), "", "## Functions\n",
              *parts]))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text or "").strip()


new = "\n"


if __name__ == "__main__":
    print(document(), end="")
