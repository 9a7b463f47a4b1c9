"""The Python blocks of a page, one after the other as `python` or `python -m asyncio` takes them. A block comes on
standard input as a line of JSON, what it printed goes back as one.

Usage: sdk_tutorial.py URL
"""
from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import sys


async def main(url: str) -> None:
    names: dict = {"__name__": "tutorial"}
    for line in sys.stdin:
        code = compile(json.loads(line).replace("http://localhost:6632", url), "page", "exec",
                       ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if inspect.iscoroutine(made := eval(code, names)):
                await made
        print(json.dumps(printed.getvalue()), flush=True)


asyncio.run(main(sys.argv[1]))
