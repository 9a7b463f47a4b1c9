"""Writes what is made of queend/control/options.py: sql/function/options.sql and docs/queue-options.md. A test
compares."""
from pathlib import Path

from queend.control.options import document, sql

ROOT = Path(__file__).resolve().parent.parent
MADE = {"sql/function/options.sql": sql, "docs/queue-options.md": document}

if __name__ == "__main__":
    for name, make in MADE.items():
        (ROOT / name).write_text(make())
