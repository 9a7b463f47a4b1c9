"""How comments and documents are written: rules of plain English that a program can find. A sentence that breaks one
may be right, so a share of them is allowed, and the share must not grow."""
from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tree import ROOT, tracked

SHARE, OF_PAGE = 3, 5       # percent of the sentences of comments, and of one page
WORDS = 25
RULES = {
    "names persons where a thing is meant": re.compile(
        r"\b(somebody|nobody|whoever|everybody|those who|who has|who is)\b", re.I),
    "refers to another contract": re.compile(r"\b(the same of|the same for|likewise|as above|as ever)\b", re.I),
    "denies twice": re.compile(
        r"\b(no|not|none|nothing|never)\b[^.]*\b(no|not|none|nothing|never)\b|\bit is none\b", re.I),
    "leaves a number out": re.compile(r"\b(a moment|for a while|seldom|of late|sooner or later)\b", re.I),
}
# A contract says first what a function does.
CONTRACT = re.compile(r"^(Of|With|Without|Its|By|Some|Alone|Once|Else|Out|Not|Those|Nobody|Who|Whoever|Whether|What) ")
MARKS = {".py": "#", ".pyx": "#", ".pxd": "#", ".pxi": "#", ".sql": "--"}


def broken(sentence: str, contract: bool) -> str:
    """Returns the rule that a sentence breaks; an empty text: none. contract: it stands in a comment."""
    if len(sentence.split()) > WORDS:
        return f"has more than {WORDS} words"
    if contract and CONTRACT.search(sentence):
        return "begins without a verb"
    if contract and sentence.endswith("?"):
        return "asks"
    return next((rule for rule, pattern in RULES.items() if pattern.search(sentence)), "")


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!])\s+(?=[A-Z0-9`\[])", text)


def comments(text: str, mark: str) -> Iterator[str]:
    """Yields the blocks of comments of a source, each as one line. A line of a table, with a name and what it means,
    begins a block."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        match = re.match(rf"\s*{mark} ?(.*)", line)
        comment = match[1] if match and not re.match(r"[-=!]{2,}", match[1]) else ""
        if block and (not comment or re.search(r"\S {2,}\S", comment)):
            yield " ".join(block)
            block = []
        if comment:
            block.append(comment)


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs, items of lists and cells of tables of a document. Blocks of code and headings are left
    out, and so are the targets of links. A name in the form of code is one word."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.M | re.S)
    text = re.sub(r"`[^`\n]+`", "`name`", re.sub(r"\]\([^)]*\)", "]", text))
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) |\s*\|)", text):
        part = re.sub(r"\s+", " ", part).strip()
        if part.startswith("|"):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", part) if re.search(r"\w", cell))
        elif part and not part.startswith(("#", "<")):
            yield re.sub(r"^([-*]|\d+\.) ", "", part)


def breaches(texts: Iterator[str], contract: bool) -> tuple[list[str], int]:
    """Returns the sentences that break a rule, with the rule, and how many sentences there are."""
    found, count = [], 0
    for sentence in (one for text in texts for one in sentences(text)):
        if contract or len(sentence.split()) > 2:
            count += 1
            if rule := broken(sentence, contract):
                found.append(f"{rule}: {sentence}")
    return found, count


@pytest.mark.parametrize("folders", [("queend",), ("sql/function", "sql/queen", "sql/former"), ("bench", "tools")],
                         ids=" and ".join)
def test_comments_are_plain(folders: tuple[str, ...]) -> None:
    """Migrations are not looked at: they never change."""
    files = [ROOT / file for file in tracked(*folders) if Path(file).suffix in MARKS]
    texts = (comment for file in files for comment in comments(file.read_text(), MARKS[file.suffix]))
    found, count = breaches(texts, contract=True)
    assert count and 100 * len(found) <= SHARE * count, "\n".join(found)


@pytest.mark.parametrize("page", [page for page in tracked("*.md") if page != "CHANGELOG.md"])
def test_documents_are_plain(page: str) -> None:
    """The changelog is not looked at: its entries of earlier versions stay as they were."""
    found, count = breaches(paragraphs((ROOT / page).read_text()), contract=False)
    assert len(found) <= max(1, OF_PAGE * count // 100), "\n".join(found)


@pytest.mark.parametrize("sentence, contract, rule", [
    ("Returns the bytes that are left.", True, ""),
    ("Of the same worker.", True, "begins without a verb"),
    ("With it, a client waits.", False, ""),
    ("Is it locked?", True, "asks"),
    ("Nobody reads it.", False, "names persons where a thing is meant"),
    ("It is not read if nothing was written.", False, "denies twice"),
    ("It is kept for a while.", False, "leaves a number out"),
    ("A " + "very " * 24 + "long sentence.", False, "has more than 25 words"),
])
def test_a_planted_sentence_is_seen(sentence: str, contract: bool, rule: str) -> None:
    assert broken(sentence, contract) == rule


def test_code_and_links_are_no_sentences() -> None:
    text = "# Nobody\n\nRead [this](nobody.md).\n\n```sh\nnobody\n```\n\n| a | Nobody here. |\n|---|---|\n\n- One. Two."
    assert list(paragraphs(text)) == ["Read [this].", "a", "Nobody here.", "One. Two."]
