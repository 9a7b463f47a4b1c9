"""docs/tutorial.md, typed in from top to bottom: its Python in the published client, its commands beside. (Its Spark:
tests/spark/test_docs.py.)"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from support.daemon import PACKAGE, ROOT
from support.sdk import HERE, prepare
from support.wait import PATIENCE

PAGE = (ROOT / "docs/tutorial.md").read_text()
BLOCKS = re.findall(r"^```([^\n]*)\n(.*?)^```", PAGE, re.M | re.S)


def like(got: str, promised: str) -> bool:
    return bool(re.fullmatch(".*".join(map(re.escape, promised.strip().split("…"))), got.strip(), re.S))


def test_it_does_what_it_says(start_daemon, tmp_path) -> None:
    daemon = start_daemon()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
    command = {**clean, "QUEEND_URL": daemon.url, "PYTHONPATH": str(PACKAGE), "XDG_CONFIG_HOME": str(tmp_path)}
    steps = 0
    with subprocess.Popen([prepare("2").python, HERE / "sdk_tutorial.py", daemon.url], env=clean, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as python:
        told = ""
        for kind, text in BLOCKS:
            if kind == "python":
                python.stdin.write(f"{json.dumps(text)}\n")
                python.stdin.flush()
                answer = python.stdout.readline()
                assert answer, (text, python.stderr.read(), daemon.story())
                told = json.loads(answer)
            elif kind == "text":
                assert like(told, text), (told, text)
                steps += 1
            elif kind == "" and "$ queend " in text:
                for line, promised in re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ ).*\n)*)", text, re.M):
                    words = line.replace("queend ", f"{sys.executable} -m queend ", 1)
                    done = subprocess.run(["bash", "-c", words], env=command, capture_output=True, text=True, cwd="/")
                    assert done.returncode == 0 and (not promised or like(done.stdout, promised)), (line, done)
                    steps += 1
        python.stdin.close()
        assert python.wait(PATIENCE) == 0 and steps >= 14


def test_the_python_of_the_readme(daemon, tmp_path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    (tmp_path / "readme.py").write_text(code.replace("http://localhost:6632", daemon.url))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
    done = subprocess.run([prepare("2").python, tmp_path / "readme.py"], env=clean, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("{'n': 1}\n"), done
    assert len(code.splitlines()) <= 12
