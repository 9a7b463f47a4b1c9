"""Clients that generators make of /openapi.json push, pop and acknowledge: `make test-generated`."""
from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from support.daemon import ROOT, Daemon

HERE = Path(__file__).parent
PROGRAMS = ROOT / "build/generated/bin"
NODE = ROOT / "dashboard/node_modules"
USED = {"pushed": ["queued", "duplicate"], "popped": [{"n": 1}], "acknowledged": True, "transaction": True,
        "leaseTime": 30, "completed": 2, "queues": ["bills", "orders"]}

# openapi-generator says this of any document of OpenAPI 3.1, of any parameter that is a time, and of any parameter that
# is named like a word of the language.
KNOWN = re.compile(r"OpenAPI 3\.1 support is still in beta|Failed to get the schema name: null"
                   r"|(From|Error) \((reserved word|model name matches existing language type)\) cannot be used")


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def document(daemon: Daemon, tmp_path: Path) -> Path:
    with daemon.client() as client:
        for queue in ("orders", "bills"):
            client.delete(queue)
        (tmp_path / "openapi.json").write_bytes(client.get("/openapi.json").body)
    return tmp_path / "openapi.json"


def test_python(daemon: Daemon, document: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("post_hooks: []\npackage_name_override: generated\n")
    told = run(PROGRAMS / "openapi-python-client", "generate", "--path", document, "--output-path", tmp_path / "made",
               "--config", tmp_path / "config.yml", "--fail-on-warning", cwd=tmp_path)
    assert "warning" not in told.lower()
    shutil.copy(HERE / "use.py", tmp_path / "made")
    assert json.loads(run(PROGRAMS / "python", "use.py", daemon.url, cwd=tmp_path / "made")) == USED


def test_typescript(daemon: Daemon, document: Path, tmp_path: Path) -> None:
    run(NODE / ".bin/openapi-typescript", document, "-o", tmp_path / "openapi.ts", cwd=tmp_path)
    shutil.copy(HERE / "use.ts", tmp_path)
    run(NODE / ".bin/tsc", "--strict", "--target", "es2022", "--module", "es2022", "--moduleResolution", "bundler",
        "--lib", "es2022,dom", "--outDir", "made", "use.ts", cwd=tmp_path)
    (tmp_path / "made/package.json").write_text('{"type": "module"}')
    assert json.loads(run("node", "made/use.js", daemon.url, cwd=tmp_path)) == USED


def generate(document: Path, language: str, folder: Path) -> None:
    """Has openapi-generator make a client. Fails if it warns of what is particular to this document."""
    told = run(PROGRAMS / "openapi-generator-cli", "generate", "--input-spec", document, "--generator-name", language,
               "--output", folder, "--package-name", "generated", cwd=folder.parent)
    warned = [line for line in told.splitlines() if re.search(r"\] (WARN|ERROR) ", line) and not KNOWN.search(line)]
    assert not warned and list(folder.iterdir())


def test_python_by_openapi_generator(daemon: Daemon, document: Path, tmp_path: Path) -> None:
    generate(document, "python", tmp_path / "made")
    shutil.copy(HERE / "use_generator.py", tmp_path / "made")
    assert json.loads(run(PROGRAMS / "python", "use_generator.py", daemon.url, cwd=tmp_path / "made")) == USED


def test_java_by_openapi_generator(daemon: Daemon, document: Path, tmp_path: Path) -> None:
    """The command and the program of docs/languages.md. The generator's own archive has all that the client depends on
    but an annotation, which a JDK had up to version 10."""
    page = (ROOT / "docs/languages.md").read_text()
    (command,) = re.findall(r"^```sh\n(openapi-generator-cli generate .*?)^```", page, re.M | re.S)
    (program,) = re.findall(r"^```java\n(.*?)^```", page, re.M | re.S)
    words = shlex.split(command.replace("\\\n", " "))
    run(PROGRAMS / words[0], *words[1:], cwd=tmp_path)
    (tmp_path / "Generated.java").write_text("package javax.annotation; public @interface Generated { String value(); "
                                             'String date() default ""; String comments() default ""; }')
    (tmp_path / "Orders.java").write_text(program.replace("http://localhost:6632", daemon.url))
    (archive,) = PROGRAMS.parent.glob("lib/*/site-packages/openapi_generator_cli/openapi-generator.jar")
    run("javac", "-nowarn", "-proc:none", "-d", "classes", "-cp", archive, "Orders.java", "Generated.java",
        *tmp_path.glob("queend-java/src/main/**/*.java"), cwd=tmp_path)
    assert run("java", "-cp", f"classes:{archive}", "Orders", cwd=tmp_path) == "{n=1}\n"


def test_typescript_by_openapi_generator(document: Path, tmp_path: Path) -> None:
    """The client compiles with --strict."""
    generate(document, "typescript-fetch", tmp_path / "made")
    run(NODE / ".bin/tsc", "--strict", "--noEmit", "--target", "es2022", "--module", "es2022", "--moduleResolution",
        "bundler", "--lib", "es2022,dom,dom.iterable", "index.ts", cwd=tmp_path / "made")
