"""Prints what pyproject.toml asks for, the test extra included, one requirement per line; with names of extras, those alone."""
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
print("\n".join([r for name in sys.argv[1:] for r in extras[name]] or [*project["dependencies"], *extras["test"]]))
