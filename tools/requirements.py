"""Prints what a checkout needs of pyproject.toml, the test extra included, one requirement per line; with names of
extras, those alone; with `run`, what an installed wheel needs. A checkout compiles psycopg, as it does the core: the
extra `c`."""
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
extras = {**project["optional-dependencies"], "run": project["dependencies"]}
own = [r for r in project["dependencies"] if not r.startswith("psycopg[binary]")]
print("\n".join([r for name in sys.argv[1:] for r in extras[name]] or sorted([*own, *extras["c"]]) + extras["test"]))
