"""What a service is made of: its work, and what all services have in common."""
from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import queend.control
import queend.services
from queend.services.running import Running

QUEEND = Path(queend.services.__path__[0]).parent
OWN = {"_run", "open", "close", "wake"}      # what a service may have in its own way


def kinds(of: type) -> list[type]:
    return [one for kind in of.__subclasses__() for one in (kind, *kinds(kind))]


def test_no_service_hides_what_all_services_have() -> None:
    for package in (queend.control, queend.services):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    common = {name for name, value in vars(Running).items() if callable(value)} - OWN
    assert "_failed" in common and len(kinds(Running)) > 5
    hidden = [f"{kind.__name__}.{name}" for kind in kinds(Running) for name in common & vars(kind).keys()]
    assert hidden == []


def classes() -> dict[str, ast.ClassDef]:
    """Returns the classes of queend by name. The same name in two modules: the methods of both count."""
    found: dict[str, ast.ClassDef] = {}
    for path in sorted(QUEEND.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, ast.ClassDef(node.name, [], [], [], [])).body.extend(node.body)
                found[node.name].bases.extend(node.bases)
    return found


def methods(name: str, known: dict[str, ast.ClassDef], path: tuple[str, ...] = ()) -> Iterator[str]:
    for node in known[name].body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list:
            yield node.name
    for base in known[name].bases:
        if isinstance(base, ast.Name) and base.id in known and base.id not in (*path, name):
            yield from methods(base.id, known, (*path, name))


def test_no_attribute_hides_a_method() -> None:
    """`self.done = 0` in a class with a method `done`: the next call of the method fails."""
    known = classes()
    assert len(known) > 200 and "_done" in methods("Retention", known)
    hidden = [f"{name}.{node.attr}" for name, one in known.items() for node in ast.walk(one)
              if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
              and isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in methods(name, known)]
    assert hidden == []
