"""Imports between the modules of queend form no circle, so that each module can be read and imported without the ones
that use it.

An import inside a function is an edge of the graph as well: it delays a circle and does not open it. An import under
`if TYPE_CHECKING` is no edge, because it names a type and runs nothing. Without a database."""
from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

QUEEND = Path(__file__).resolve().parents[2] / "queend"
LEAST = 150      # modules, and imports between them


def sources() -> dict[str, str]:
    """Returns the text of each module by its dotted name; that of a package is its `__init__`."""
    return {".".join(("queend", *path.relative_to(QUEEND).with_suffix("").parts)).removesuffix(".__init__"):
            path.read_text() for path in sorted(QUEEND.rglob("*.py"))}


def packages(modules: set[str]) -> set[str]:
    return {module.rpartition(".")[0] for module in modules} - {""}


def imports(tree: ast.AST, typed: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yields each import of a module, and whether it stands under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, typed
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from imports(ast.Module(node.body, []), True)
            yield from imports(ast.Module(node.orelse, []), typed)
        else:
            yield from imports(node, typed)


def edges(texts: dict[str, str], typed: bool = False) -> dict[str, set[str]]:
    """Returns the modules of queend that each module imports: at run time, or with `typed` for the checker of types
    alone."""
    folders = packages(set(texts))
    graph: dict[str, set[str]] = {}
    for module, text in texts.items():
        found: set[str] = set()
        place = module.split(".") if module in folders else module.split(".")[:-1]
        for node, for_types in imports(ast.parse(text)):
            if for_types is not typed:
                continue
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
                continue
            base = ".".join([*place[:len(place) - node.level + 1], *filter(None, [node.module])]
                            ) if node.level else node.module or ""
            found |= {inner if (inner := f"{base}.{name.name}") in texts else base for name in node.names}
        graph[module] = found & texts.keys()
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Returns the modules of one circle in their order; an empty list if the graph has none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return sources()


def test_imports_form_no_circle(texts: dict[str, str]) -> None:
    graph = edges(texts)
    assert len(graph) > LEAST and sum(map(len, graph.values())) > LEAST
    assert circle(graph) == []


@pytest.mark.parametrize(("line", "seen"), [
    ("from .high import top", True), ("from . import high", True), ("from queend.part import high", True),
    ("import queend.part.high", True), ("def later():\n    from .high import top", True),
    ("try:\n    from .high import top\nexcept ImportError:\n    pass", True),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .high import top", False),
    ("from ..other import high", False)])
def test_a_planted_circle_is_seen(line: str, seen: bool) -> None:
    planted = {"queend": "", "queend.part": "", "queend.part.high": "from ..part.low import bottom\n",
               "queend.part.low": line + "\n", "queend.other": ""}
    assert sorted(set(circle(edges(planted)))) == (["queend.part.high", "queend.part.low"] if seen else [])
    assert edges(planted, typed=True)["queend.part.low"] == ({"queend.part.high"} if "TYPE_CHECKING" in line else set())
