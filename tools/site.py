"""Puts the pages of the checkout, and whatever they link to or show, into build/pages for mkdocs, at the same places.
`make site`."""
from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"
LINK = re.compile(r"\]\(([^)\s#]+)")
# The names of headings as Git servers make them, which the links go by; mkdocs makes others where there are dots or
# dashes.
HEADING = re.compile(r"^(#+) (.*)$")


def anchor(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def marked(text: str) -> str:
    """With the name of each heading written behind it."""
    lines, fence, found = [], False, []
    for line in text.split("\n"):
        fence ^= line.lstrip().startswith("```")
        if not fence and (match := HEADING.match(line)):
            name = anchor(match[2])
            found.append(name)
            again = found.count(name) - 1
            line = f"{line} {{ #{name}{f'-{again}' if again else ''} }}"
        # a list or a table may follow a paragraph at once, as on Git servers
        if not fence and lines and re.match(r"([-*] |\d+\. |\|)", line) and re.match(r"[^\s|#>`*-]", lines[-1]) \
                and not re.match(r"([-*] |\d+\. )", lines[-1]):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def nav() -> list[dict]:
    """The order of the pages: that of the index of the documents, once each."""
    seen: set[str] = set()

    def pages(text: str) -> list[str]:
        found = [(Path("docs") / target).as_posix() for target in LINK.findall(text) if target.endswith(".md")]
        found = [re.sub(r"^docs/\.\./", "", page) for page in found]
        return [page for page in dict.fromkeys(found)
                if page not in seen and not seen.add(page)]  # type: ignore[func-returns-value]

    parts = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", (ROOT / "docs/README.md").read_text(), re.M))
    seen |= {"README.md"}
    learn = ["docs/README.md", "docs/tutorial.md", "examples/README.md", "docs/choosing.md", "docs/tools.md"]
    seen |= set(learn)
    return [{"Start": "README.md"}, {"Learn": learn},
            *({title: pages(parts[title])} for title in ("Guides", "References"))]


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    pages = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                           capture_output=True, text=True, check=True).stdout.split()
    for page in pages:
        text = (ROOT / page).read_text()
        (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / page).write_text(marked(text))
        for target in LINK.findall(re.sub(r"`[^`]*`", "", text)):
            there = (ROOT / page).parent / target
            if not re.match(r"[a-z]+:", target) and there.suffix != ".md" and there.is_file():
                place = PAGES / there.resolve().relative_to(ROOT)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(there, place)
    # JSON is YAML as well
    (ROOT / "build" / "mkdocs.yml").write_text(json.dumps({"INHERIT": "../mkdocs.yml", "nav": nav()}, indent=1))


if __name__ == "__main__":
    main()
