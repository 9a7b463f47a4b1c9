"""Compiles and runs the C programs of the benchmark: the load generator and the floor."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
LOAD = [HERE / "load" / f"{name}.c"
        for name in ("main", "http", "link", "push", "binary", "pop", "payload", "text")]
FLOOR = [HERE / "floor" / f"{name}.c" for name in ("main", "batch", "calls")] + [
    HERE / "load" / f"{name}.c" for name in ("payload", "text")]


def _flags(*words: str) -> list[str]:
    return subprocess.run(["pkg-config", *words], check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def build(name: str, sources: list[Path]) -> Path:
    """The program, compiled again only when a source changed."""
    headers = sorted({path for source in sources for path in source.parent.glob("*.h")})
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in [*sources, *headers])).hexdigest()[:12]
    program = OUT / f"{name}-{digest}"
    if not program.exists():
        OUT.mkdir(exist_ok=True)
        extra = _flags("--cflags", "libpq") if name != "load" else []
        libraries = _flags("--libs", *(["libpq"] if name != "load" else ["libzstd", "libssl", "libcrypto"]))
        partial = program.with_suffix(f".{os.getpid()}")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-g", "-Wall", "-Wextra", "-I", HERE / "load",
                        *extra, "-o", partial, *sources, *libraries, "-lm"], check=True)
        partial.rename(program)
    return program


def run_load(host: str, port: int, warm: float, seconds: float, roles: list[dict], start: Callable, stop: Callable,
             part: Callable[[dict], None] | None = None, every: float = 0, ca: Path | None = None) -> dict:
    """One load. `start` and `stop` are called when its measured window begins and ends, `part` with the figures of each
    piece of `every` seconds. ca: authorities of the server's certificate, for TLS. Returns its report."""
    words = [",".join([role["kind"], *(f"{key}={value}" for key, value in role.items() if key != "kind")])
             for role in roles]
    command = [build("load", LOAD), host, str(port), str(warm), str(seconds), *words]
    more = ({"LOAD_EVERY": str(every)} if part else {}) | ({"LOAD_CA": str(ca)} if ca else {})
    return follow(command, start, stop, part, {**os.environ, **more})


def follow(command: list, start: Callable, stop: Callable, part: Callable[[dict], None] | None = None,
           environment: dict | None = None) -> dict:
    """Runs a load generator until it ends; see run_load."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        report = None
        for line in process.stdout:
            if line == "start\n":
                start()
            elif line == "stop\n":
                stop()
            elif part and line.startswith("part "):
                part(json.loads(line[5:]))
            else:
                report = json.loads(line)
    if process.returncode or report is None:
        raise SystemExit(f"bench: the load generator failed ({process.returncode}): {' '.join(map(str, command))}")
    report["roles"] = {role["name"]: role for role in report.get("roles", ())}
    return report


def run_floor(dsn: str, *words: object) -> dict:
    """One floor; words as bench/floor/main.c describes them."""
    done = subprocess.run([build("floor", FLOOR), dsn, *map(str, words)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"bench: the floor failed ({done.returncode}): {words}")
    return json.loads(done.stdout)
