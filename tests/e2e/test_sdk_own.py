"""The SDK's own tests, as its source distributions bring them, against the daemon: with and without tokens."""
from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict
from support.certificates import session_authority
from support.daemon import Daemon
from support.tokens import SECRET, token
from support.sdk import HERE, pip, prepare

# generation: what its tests need besides
NEEDS = {"0.15": ["asyncpg"], "2": []}
# Of what only servers of the second generation have: nothing (docs/compatibility.md).
ABSENT: set[str] = set()
# Deliberately different (docs/compatibility.md, "The clients' own tests").
DIFFERENT = {"0.15": "", "2": "test_each_stops_batch_after_nack test_ack_unknown_txn_must_fail"
                              " test_a_bundle_with_an_ack_under_an_expired_lease_is_refused_whole"
                              " test_nack_below_cursor_is_rejected test_ack_below_cursor_is_noop_flagged"}
SLOW = {"test_consume.py", "test_subscription.py", "test_reads.py"}  # `make test-sdk`
OPEN = {"test_transaction_lease_fencing.py"}  # asks without a token in part


def sources(generation: str) -> tuple[Path, Path]:
    """The interpreter of the generation with what its tests need, and the folder of its tests; made once."""
    python = prepare(generation).python
    folder = python.parent.parent / "own"
    if not (folder / "ready").exists():
        version = subprocess.run([python, "-c", "from importlib.metadata import version; print(version('queen-mq'))"],
                                 capture_output=True, text=True, check=True).stdout.strip()
        pip(python, "install", "pytest>=8", "pytest-asyncio>=1", *NEEDS[generation])
        pip(python, "download", "--no-deps", "--no-binary", ":all:", "--dest", folder, f"queen-mq=={version}")
        subprocess.run(["tar", "-xzf", next(folder.glob("*.tar.gz")), "--no-same-owner", "-C", folder], check=True)
        (folder / "ready").touch()
    return python, next(folder.glob("*/tests"))


def run(daemon: Daemon, generation: str, files: set[str], **settings: str) -> str:
    """Runs files of its tests: the lines that say which were not run, and how many passed."""
    python, folder = sources(generation)
    place = conninfo_to_dict(daemon.conninfo)
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD", "JWT", "PG"))}
    environment |= {"QUEEN_SERVER_URL": daemon.url, "QUEEN_URL": daemon.url, "PYTHONPATH": str(HERE),
                    "DIFFERENT": DIFFERENT[generation],
                    # each client reads the certificates to trust: one takes 2 ms, those of the system 24 ms
                    "SSL_CERT_FILE": str(session_authority().file), **settings}
    environment |= {f"PG_{name}": str(place[word]) for name, word in {
        "HOST": "host", "PORT": "port", "DB": "dbname", "USER": "user"}.items() if word in place}
    done = subprocess.run([python, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-p", "sdk_own", "-o",
                           "asyncio_mode=auto",
                           "-o", "asyncio_default_fixture_loop_scope=session", "-o",
                           "asyncio_default_test_loop_scope=session", *sorted(files)],
                          cwd=folder, capture_output=True, text=True, env=environment, timeout=900)
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-2000:]}\n{daemon.story()}"
    return "\n".join(line for line in done.stdout.splitlines() if re.match(r"SKIPPED|XFAIL|\d+ passed", line))


def test_what_the_sdk_expects(start_daemon, request) -> None:
    """All at once, as they mostly wait. Everything with and without tokens; in the ordinary run one generation each
    way."""
    everything = request.config.getoption("--sdk-tests")

    def one(generation: str, tokens: bool) -> str:
        files = {one.name for one in sources(generation)[1].glob("test_*.py")} - ABSENT - (
            OPEN if tokens else set()) - (set() if everything else SLOW)
        daemon = start_daemon(QUEEN_ENCRYPTION_KEY="00" * 32,
                              **({"JWT_ENABLED": "true", "JWT_SECRET": SECRET} if tokens else {}))
        settings = {"JWT_SECRET": SECRET, "QUEEN_TOKEN": token(sub="the sdk", role="admin", exp=3600)} if tokens else {}
        told = run(daemon, generation, files, **settings)
        assert "set JWT_SECRET" not in told or not tokens, "nothing is left out for want of tokens"
        return f"{generation}{' with tokens' * tokens}\n{told}"

    for generation in NEEDS:
        sources(generation)
    with ThreadPoolExecutor() as pool:
        for told in pool.map(lambda asked: one(*asked),
                             [(g, t) for g in NEEDS for t in (True, False) if everything or t == (g == "0.15")]):
            print(told)
