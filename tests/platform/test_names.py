"""Names in Python files: each that is used is made somewhere, each that is imported is used."""
import ast
import builtins
import subprocess
import symtable
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout.split())
GIVEN = {*dir(builtins), "__file__", "__path__", "__annotations__"}


def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from tables(child)


def unmade(text: str) -> set[str]:
    """Names that no scope, no import and no builtin makes."""
    top = symtable.symtable(text, "file", "exec")
    every = list(tables(top))
    made = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()
            or one.is_namespace()} | {one.get_name() for table in every for one in table.get_symbols()
                                      if one.is_declared_global()} | GIVEN
    return {one.get_name() for table in every for one in table.get_symbols()
            if one.is_referenced() and (one.is_global() or table is top)} - made


def unused(text: str) -> set[str]:
    """Names that are imported at the top of a file and stand nowhere else in it; unless it says that others take them
    from there."""
    tree, lines = ast.parse(text), text.split("\n")
    words = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
    words |= {word for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)
              for word in [one.value]}
    return {(name.asname or name.name).partition(".")[0] for one in tree.body
            if isinstance(one, ast.Import | ast.ImportFrom) and getattr(one, "module", "") != "__future__"
            and "noqa: F401" not in lines[one.lineno - 1]
            for name in one.names if name.asname != name.name} - words


def test_names_are_made_and_imports_used():
    lost = {}
    for file in FILES:
        text = (ROOT / file).read_text()
        again = Path(file).name in ("__init__.py", "conftest.py")      # what others take from there
        if found := unmade(text) | (set() if again else unused(text)):
            lost[file] = found
    assert not lost


def test_a_name_that_nobody_made_is_seen():
    assert unmade("def f(a):\n    return [a + b for c in a]\n") == {"b"}
    assert unmade("import x\ndef f():\n    global y\n    y = x\ndef g():\n    return y\n") == set()
    assert unused("import a.b, c\nfrom d import e as f, g\nc.x(g)\nimport h  # noqa: F401 (others)\n") == {"a", "f"}
