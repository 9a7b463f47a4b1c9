"""Wraps the prose of every page at 120 columns: `python tools/wrap.py`. `--check` changes nothing, names the lines and
ends with 1.

A paragraph or an entry of a list is filled anew when one of its lines is too long. Tables, code, headings and what
tools write between <!-- … --> marks stay; so do a link and a piece of `code`, which are never broken."""
import re
import subprocess
import sys
from pathlib import Path

WIDTH = 120
WORD = re.compile(r"(?:`+[^`]*`+|!?\[(?:[^\[\]]|`[^`]*`)*\]\([^)\s]*\)|\S)+")
ENTRY = re.compile(r"(\s*)([-*+] |\d+[.)] )?")
# At the begin of a line these would be something else than a word.
MARK = re.compile(r"[-+*]$|\d+[.)]$|#+$|>|\||=+$|-+$|```")
MADE = re.compile(r"<!-- (\S+)(.*) -->$")


def filled(words: list[str], first: str, others: str) -> list[str]:
    lines, line = [], [first + words[0]]
    for word in words[1:]:
        if len(" ".join([*line, word])) <= WIDTH:
            line.append(word)
        elif MARK.match(word) and len(line) > 1:
            lines.append(" ".join(line[:-1]))
            line = [others + line[-1], word]
        else:
            lines.append(" ".join(line))
            line = [others + word]
    return [*lines, " ".join(line)]


def stays(lines: list[str], i: int) -> bool:
    """No prose: blank, a table, a heading, a mark, code that is indented."""
    line = lines[i]
    return (not line.strip() or line.lstrip().startswith(("|", "<")) or line.startswith("#")
            or line.startswith("    ") and not (i and lines[i - 1].strip()))


def ends(line: str) -> bool:
    return not line.strip() or bool(re.match(r"\s*(```|\||<!--|#|[-*+] |\d+[.)] )", line))


def wrapped(text: str) -> str:
    lines, out, i, code, made = text.split("\n"), [], 0, False, False
    while i < len(lines):
        fence = lines[i].lstrip().startswith("```")
        if mark := MADE.match(lines[i]):
            made = not mark[1].startswith(("/", "end"))
        if fence or code or made or stays(lines, i):
            code ^= fence
            out.append(lines[i])
            i += 1
            continue
        j = i + 1
        while j < len(lines) and not ends(lines[j]):
            j += 1
        block = lines[i:j]
        if any(len(line) > WIDTH for line in block):
            indent, entry = ENTRY.match(block[0]).groups(default="")
            words = WORD.findall(" ".join(line.strip() for line in block)[len(entry):])
            block = filled(words, indent + entry, " " * len(indent + entry))
        out += block
        i = j
    return "\n".join(out)


def main(check: bool) -> int:
    root, bad = Path(__file__).resolve().parent.parent, []
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=True)
    for page in listed.stdout.split():
        text = (root / page).read_text()
        if (new := wrapped(text)) != text:
            bad += [f"{page}:{number}" for number, line in enumerate(text.split("\n"), 1)
                    if len(line) > WIDTH and not line.startswith("|")]
            if not check:
                (root / page).write_text(new)
    if check and bad:
        print("\n".join(bad))
    return int(check and bool(bad))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
