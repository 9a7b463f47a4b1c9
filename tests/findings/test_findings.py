"""Scripts from outside the project that show a fault on a running daemon: `make test-findings FINDINGS=folder`.

Each prints OK or FAULT last. The tables below say what each of them needs: nothing is started for the others.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.daemon import Daemon
from support.nginx import documented
from support.ports import free_port
from support.postgres import Postgres, running

ROOT = Path(__file__).resolve().parents[2]
SECRET = "0123456789abcdef0123456789abcdef"
LONGEST = 900
TOKENS = {"JWT_ENABLED": "true", "JWT_SECRET": SECRET, "QUEEND_JWT_QUEUES_CLAIM": "queues"}


@dataclass
class Stage:
    """What a script may ask for: it is started when it is asked for."""

    postgres: Postgres
    starts: Callable[..., Daemon]
    folder: Path
    environment: dict[str, str]
    ending: ExitStack
    started: list[Daemon] = field(default_factory=list)

    def start(self, *conninfo: str, **settings: object) -> Daemon:
        self.started.append(self.starts(*conninfo, **settings))
        return self.started[-1]

    def url(self, **settings: object) -> str:
        return self.start(**settings).url

    def database(self) -> str:
        return self.postgres.database()

    def two_ports(self) -> list[str]:
        """Two daemons on one database that do not tell each other anything."""
        database = self.database()
        return [str(self.start(database).port) for _ in range(2)]

    def own_stage(self) -> list[str]:
        """A script that starts its own servers: the base of its ports and its folder are told by the environment."""
        self.environment |= {"BASE": str(free_port()), "WDIR": str(self.folder / "stage"), "QDIR": str(ROOT)}
        return []


def socket_of(conninfo: str) -> tuple[str, str]:
    parts = conninfo_to_dict(conninfo)
    return str(parts["host"]), str(parts["dbname"])


def alone(stage: Stage) -> Daemon:
    """A daemon with the default settings and a server of its own, as `queend serve` starts it."""
    daemon = Daemon.own(stage.folder / "own", HOST="127.0.0.1", PORT="0").await_ready()
    stage.started.append(daemon)
    return daemon


def throw_away(stage: Stage) -> list[str]:
    """A daemon whose database the script may spoil: URL and socket folder."""
    return [alone(stage).url, str(stage.folder / "own" / "pg")]


def storm(stage: Stage, attack: str) -> list[str]:
    """Host, port, process and attack. More workers than the default, or what other scripts have left in the server,
    would be measured as well."""
    daemon = alone(stage)
    return ["127.0.0.1", str(daemon.port), str(daemon.pid), attack]


def without_daemon(stage: Stage) -> list[str]:
    host, name = socket_of(stage.database())
    stage.environment |= {"PGUSER": "postgres", "PGHOST": host}
    return [str(ROOT), str(free_port()), host, name]


def with_database(stage: Stage) -> list[str]:
    database = stage.database()
    return [stage.start(database).url, "", database]


def tokens(stage: Stage) -> list[str]:
    return [stage.url(**TOKENS), SECRET]


def tokens_of_issuer(stage: Stage) -> list[str]:
    return [stage.url(**TOKENS, JWT_ISSUER="shop"), SECRET]


def url(stage: Stage) -> list[str]:
    return [stage.url()]


def place(stage: Stage, *more: str, **settings: object) -> list[str]:
    """Host, port and process of a daemon with the database of all tests."""
    daemon = stage.start(**settings)
    return ["127.0.0.1", str(daemon.port), str(daemon.pid), *more]


def beside_psql(stage: Stage, **settings: object) -> list[str]:
    """URL of a daemon, and how psql reaches its database as the superuser: on a server that lets all roles in."""
    server = stage.ending.enter_context(running(tcp=True))
    conninfo = server.database()
    return [stage.start(conninfo, **settings).url, "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres",
            "-d", socket_of(conninfo)[1]]


def beside_queen_mq(stage: Stage) -> list[str]:
    """URL of a daemon in whose database the tables of Queen MQ are."""
    database = stage.postgres.empty_database()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute((ROOT / "tests/support/queen_schema.sql").read_text())
    return [stage.start(database).url]


def behind_nginx(stage: Stage) -> list[str]:
    """URL of the nginx of docs/production.md, before a daemon."""
    url, authority = stage.ending.enter_context(documented(stage.start().port, stage.folder))
    stage.environment["CURL_CA_BUNDLE"] = str(stage.folder / "authority.pem")
    authority.cert_pem.write_to_path(stage.folder / "authority.pem")
    return [url]


def peers(stage: Stage, **settings: object) -> list[str]:
    """Host, HTTP port and UDP port of a daemon whose only peer does not answer."""
    port = free_port()
    daemon = stage.start(QUEEN_UDP_PEERS=f"127.0.0.1:{free_port()}", QUEEN_UDP_NOTIFY_PORT=port, **settings)
    return ["127.0.0.1", str(daemon.port), str(port)]


def queue(stage: Stage) -> list[str]:
    daemon = stage.start()
    with daemon.client() as client:
        client.push("some", 1)
    return [daemon.url, "some"]


# What takes everything at once: the script names its attacks, and each is a case of its own.
STORM = "abuse/storm.py"

NEEDS: dict[str, Callable[[Stage], list[str]]] = {
    "abuse/budgets.py": place,
    "abuse/group_memory.py": place,
    "abuse/lanes.sh": lambda stage: throw_away(stage)[::-1],
    "abuse/notify_bypass.py": lambda stage: peers(stage, **TOKENS, QUEEN_SYNC_SECRET="5" * 64),
    "abuse/push_queue.py": lambda stage: place(stage)[:2],      # a third argument is a number of connections
    "abuse/udp_silence.py": peers,
    "abuse/ws_parts.py": place,
    "abuse/zbomb.py": place,
    "interop/cli_limit.sh": queue,
    "interop/content_encoding.sh": url,
    "interop/cors_headers.sh": lambda stage: [stage.url(CORS_ORIGINS="https://app.example"), "https://app.example"],
    "interop/foreign_queen_schema.sh": beside_queen_mq,
    "interop/http_raw.py": place,
    "interop/publication_retention.sh": lambda stage: beside_psql(stage, RETENTION_INTERVAL=2000),
    "interop/sql_roles.sh": beside_psql,
    "interop/watermark_update.sql": lambda stage: [*beside_psql(stage)[1:], "-v", "ON_ERROR_STOP=1", "-f"],
    "interop/ws_through_documented_nginx.sh": behind_nginx,
    "ha/*.sh": lambda stage: [str(free_port()), str(free_port()), str(ROOT)],
    "answers/06_partition_ids_run_out.py": throw_away,
    "answers/12_delay_by_two_clocks.sh": without_daemon,
    "answers/*.py": url,
    "figures/group_lag.py": url,
    "figures/narrow.sh": lambda stage: [stage.url(), f"{sys.executable} -m queend"],
    "figures/stat_hot.py": lambda stage: [*throw_away(stage), "60"],
    "restore/restore_replace.py": lambda stage: [str(ROOT), str(free_port()), str(stage.folder / "w")],
    "restore/restore_pg15.py": lambda stage: [str(ROOT), str(free_port()), str(free_port()), "/tmp/queend-restore"],
    "waiting/adopt_race.py": Stage.own_stage,
    "waiting/starved_worker.py": Stage.own_stage,
    "waiting/ns_lease_elsewhere.py": Stage.two_ports,
    "waiting/many_leases_quiet.py": Stage.two_ports,
    "spark/again.py": url,
    "spark/direct.py": url,
    "spark/faults.py": lambda stage: [str(ROOT), str(stage.folder / "w"), str(free_port())],
    "app/deleted_payload_stays.sh": with_database,
    "app/empty_page_after_delete.py": url,
    "app/redrive_identity.py": url,
    "app/token_delete_message.py": tokens,
    "app/token_groups.py": tokens,
    "app/token_no_iss.py": tokens_of_issuer,
    "interop/flush_loses_count.py": url,
    "abuse/completion_rce.py": lambda stage: [stage.url(), str(ROOT)],
    "abuse/revoke_stream.py": lambda stage: [str(ROOT), str(free_port()), "30"],
}


def scripts(folder: Path) -> list[tuple[str, str]]:
    """Pairs of a script and the pattern that says what it needs, each script once."""
    found: dict[str, str] = {}
    for pattern in NEEDS:
        for path in sorted(folder.glob(pattern)):
            found.setdefault(str(path.relative_to(folder)), pattern)
    storm = folder / STORM
    if storm.exists():
        told = subprocess.run([sys.executable, storm, "", "0", "0", "list"], capture_output=True, text=True, check=True)
        found |= {f"{STORM} {attack}": STORM for attack in told.stdout.split()}
    return list(found.items())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folder = metafunc.config.getoption("--findings")
    metafunc.parametrize("script, pattern", scripts(Path(folder)), ids=lambda value: value)


def test_script(script: str, pattern: str, request: pytest.FixtureRequest, postgres: Postgres,
                start_daemon: Callable[..., Daemon]) -> None:
    # Not pytest's folder: the user for whom a script starts PostgreSQL may not look into that.
    folder = Path(tempfile.mkdtemp(prefix="queend-findings-"))
    folder.chmod(0o755)
    stage = Stage(postgres, start_daemon, folder, {**os.environ, "PYTHONPATH": str(ROOT)}, ExitStack())
    name, *words = script.split()
    file = Path(request.config.getoption("--findings")).resolve() / name
    interpreter = sys.executable if file.suffix == ".py" else "sh" if "#!/bin/sh" in file.read_text()[:20] else "bash"
    arguments = storm(stage, *words) if pattern == STORM else NEEDS[pattern](stage)
    command = ["psql", *arguments, file] if file.suffix == ".sql" else [interpreter, file, *arguments]
    try:
        done = subprocess.run(command, env=stage.environment, capture_output=True, text=True,
                              cwd=ROOT, timeout=LONGEST)
    finally:
        for daemon in stage.started:      # their connections would not suffice for all scripts
            daemon.end()
        stage.ending.close()
        shutil.rmtree(folder, ignore_errors=True)
    told = done.stdout + done.stderr
    print(told)
    if file.suffix == ".sql":
        assert done.returncode == 0, told
    else:
        assert "OK" in told and "FAULT" not in told and "Traceback" not in told, told
