"""How the tests stand to one another."""
import ast
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent.parent


def imported(file: Path) -> set[str]:
    nodes = [*ast.walk(ast.parse(file.read_text()))]
    return {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names} | {
        node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_no_test_imports_another():
    for file in TESTS.rglob("*.py"):
        assert not [name for name in imported(file) if name.rpartition(".")[2].startswith("test_")], file


def test_files_of_tests_have_names_of_their_own():
    """Two of one name in folders without a package cannot be read in one run."""
    names = Counter(file.name for file in TESTS.rglob("test_*.py"))
    assert not [name for name, files in names.items() if files > 1]
