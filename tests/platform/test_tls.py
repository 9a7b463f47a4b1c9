"""PG_USE_SSL and PG_SSL_REJECT_UNAUTHORIZED against a server that has a certificate."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.daemon import ROOT
from support.ports import free_port

from queend.postgres.conninfo import conninfo
from queend.postgres.embedded import Embedded
from queend.settings.load import load


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def authority(folder, name: str) -> None:
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for `localhost` that lets in TLS only; yields its port and the folder of the certificates."""
    folder = tmp_path_factory.mktemp("tls")
    authority(folder, "known")
    authority(folder, "other")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", f"{folder}/server.key", "-out",
            f"{folder}/server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    openssl("x509", "-req", "-in", f"{folder}/server.csr", "-CA", f"{folder}/known.crt", "-CAkey",
            f"{folder}/known.key", "-CAcreateserial",
            "-days", "2", "-extfile", f"{folder}/names", "-out", f"{folder}/server.crt")
    port = free_port()
    # The embedded programs have no TLS; the system's do.
    system = max(int(path.name) for path in Path("/usr/lib/postgresql").glob("[0-9]*"))
    cluster = Embedded(tmp_path_factory.mktemp("data"), major=system)
    cluster.start()
    cluster.stop()
    for name in ("server.crt", "server.key"):
        shutil.copy(folder / name, cluster.data / name)
        os.chmod(cluster.data / name, 0o600)
        os.chown(cluster.data / name, cluster.account.uid, cluster.account.gid)
    (cluster.data / "tls_hba.conf").write_text("local all all peer map=queend\nhostssl all all all trust\n")
    os.chmod(cluster.data / "tls_hba.conf", 0o644)
    cluster.settings = {"listen_addresses": "127.0.0.1", "port": str(port), "ssl": "on",
                        "hba_file": "/proc/self/cwd/tls_hba.conf"}
    try:
        cluster.start()
        yield port, folder
    finally:
        cluster.stop()


def connection(monkeypatch, server, **variables: str) -> bool:
    """Connects as the daemon would; True if the session is encrypted."""
    port, folder = server
    monkeypatch.delenv("PGSSLROOTCERT", raising=False)
    monkeypatch.setenv("HOME", str(folder))
    for name, value in {"PG_HOST": "localhost", "PG_PORT": str(port), **variables}.items():
        monkeypatch.setenv(name, value)
    with psycopg.connect(conninfo(load())) as one:
        return one.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()[0]


def test_encrypted_without_verification(monkeypatch, server):
    assert connection(monkeypatch, server, PG_USE_SSL="true", PG_SSL_REJECT_UNAUTHORIZED="false")


def test_verified(monkeypatch, server):
    assert connection(monkeypatch, server, PG_USE_SSL="true", PG_SSL_REJECT_UNAUTHORIZED="true",
                      PGSSLROOTCERT=f"{server[1]}/known.crt")
    assert connection(monkeypatch, server, PG_USE_SSL="true", PGSSLROOTCERT=f"{server[1]}/known.crt")


def test_the_connection_string_of_the_page(monkeypatch, server):
    """And what the page says of a certificate that names another host."""
    (line,) = re.findall(r'^QUEEND_DSN="(.*sslmode=verify-full.*)"', (ROOT / "docs/postgresql.md").read_text(), re.M)
    words = {**conninfo_to_dict(line), "port": server[0], "dbname": "postgres", "user": "postgres",
             "sslrootcert": f"{server[1]}/known.crt"}
    assert connection(monkeypatch, server, QUEEND_DSN=make_conninfo(**{**words, "host": "localhost"}))
    words["host"] = "127.0.0.1"
    with pytest.raises(psycopg.OperationalError, match="does not match host name"):
        connection(monkeypatch, server, QUEEND_DSN=make_conninfo(**words))
    assert connection(monkeypatch, server, QUEEND_DSN=make_conninfo(**{**words, "sslmode": "verify-ca"}))
    del words["sslmode"], words["sslrootcert"]
    assert connection(monkeypatch, server, QUEEND_DSN=make_conninfo(**words)), "libpq's default: prefer"


@pytest.mark.parametrize("variables, words", [
    ({"PG_USE_SSL": "false"}, "no encryption"),
    ({"PG_USE_SSL": "true", "PGSSLROOTCERT": "{folder}/other.crt"}, "certificate verify failed"),
    ({"PG_USE_SSL": "true"}, "certificate verify failed"),
    ({"PG_USE_SSL": "true", "PG_SSL_REJECT_UNAUTHORIZED": "true"}, "certificate verify failed"),
    ({"PG_USE_SSL": "true", "PGSSLROOTCERT": "{folder}/known.crt", "PG_HOST": "127.0.0.1"}, "does not match host name"),
])
def test_refused(monkeypatch, server, variables, words):
    variables = {name: value.format(folder=server[1]) for name, value in variables.items()}
    with pytest.raises(psycopg.OperationalError, match=words):
        connection(monkeypatch, server, **variables)
