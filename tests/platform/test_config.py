"""Settings: where they come from, what is refused, how they become connection strings."""
import json
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.command import command
from support.flat import core_limit

from queend.daemon.core_settings import core_settings
from queend.postgres import session
from queend.postgres.conninfo import HOT_PLANS, conninfo, session_options, verifies_server
from queend.settings.keyring import keyring
from queend.settings.lists import peers_read, urls_read
from queend.settings.load import load
from queend.settings.messages import ConfigError, traits
from queend.settings.model import Settings
from queend.settings.origins import origins, uses_embedded, without_effect

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in os.environ:
        if name.lower() in Settings.model_fields or name.startswith("QUEEND_") or name == "PGSSLROOTCERT":
            monkeypatch.delenv(name)


def problems() -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load()
    return str(caught.value).splitlines()


@pytest.mark.parametrize("name, value, words", [
    ("PORT", "abc", "abc is not a whole number from 0 to 65535"), ("PORT", "66 a", "'66 a' is not a whole number from"),
    ("PORT", "65536", "65536 is not a whole number from 0 to 65535"),
    ("DB_STATEMENT_TIMEOUT", "-1", "-1 is not a whole number of milliseconds from 0 to 2147483647"),
    ("DB_STATEMENT_TIMEOUT", "1.5", "1.5 is not a whole number of milliseconds"),
    ("PG_USE_SSL", "maybe", "maybe is neither true nor false"),
    ("LOG_LEVEL", "loud", "loud is not one of trace, debug, info, warn, error"),
    ("LOG_LEVEL", "INFO", "INFO is not one of"),
    ("DEFAULT_SUBSCRIPTION_MODE", "old", "old is not one of all, new, new-only"),
    ("QUEEN_PUSH_MAX_BATCH_SIZE", "0", "0 is not a whole number of jobs from 1 to"),
    ("QUEEND_BUFFER_BYTES", "1GB", "1GB is not a whole number of bytes"),
    ("FILE_BUFFER_MAX_BATCH", "4001", "4001 is not a whole number of messages from 1 to 4000"),
    ("QUEEND_LEAST_RATE", "x" * 1000, f"{'x' * 60}… is not a whole number of bytes a second"),
    ("STATS_INTERVAL_MS", "10s", "10s is not a whole number of milliseconds"),
    ("DB_KEEPALIVES_IDLE", "0", "0 is not a whole number of seconds from 1 to 32767"),
    ("DB_KEEPALIVES_IDLE", "32768", "32768 is not"), ("DB_KEEPALIVES_INTERVAL", "32768", "32768 is not"),
    ("DB_KEEPALIVES_COUNT", "128", "128 is not a whole number from 1 to 127"),
    ("METRICS_RETENTION_DAYS", "36501", "36501 is not a whole number of days from 1 to 36500"),
    ("QUEEND_MIGRATION_TARGETS", "a/b,h:99999/d", "h:99999/d is not a target"),
    ("PG_PASSWORD", "p\udcff", "the value is not valid UTF-8"),
    ("CORS_ORIGINS", "\udcff", "the value is not valid UTF-8"),
    ("QUEEND_CONFIG", "/none", "/none: No such file or directory"),
])
def test_a_wrong_value_is_named(monkeypatch, name, value, words):
    monkeypatch.setenv(name, value)
    (problem,) = problems()
    assert problem.startswith(f"{name}: {words}"), problem


def numbers() -> Iterator[tuple[str, int, int]]:
    """Each setting that is a number, with the least and the most it may be."""
    for name, field in Settings.model_fields.items():
        if field.annotation in (int, int | None):
            limits = {key: getattr(one, key) for one in field.metadata for key in ("ge", "le") if hasattr(one, key)}
            yield name.upper(), limits["ge"], limits["le"]


@pytest.mark.parametrize("wrong", ["10s", "1.5", "below", "above"])
def test_every_number_has_its_bounds_and_no_unit(monkeypatch, wrong):
    for name, least, most in numbers():
        monkeypatch.setenv(name, {"below": str(least - 1), "above": str(most + 1)}.get(wrong, wrong))
    told = {problem.split(":")[0]: problem for problem in problems()}
    assert list(told) == [name for name, _, _ in numbers()]
    for name, least, most in numbers():
        unit = traits(Settings.model_fields[name.lower()])["unit"]
        assert f" is not a whole number{' of ' if unit else ' from '}" in told[name]
        assert told[name].endswith(f" from {least} to {most}"), told[name]


@pytest.mark.parametrize("bound", [1, 2], ids=["least", "most"])
def test_the_core_takes_every_number_that_may_be(monkeypatch, bound):
    for number in numbers():
        with monkeypatch.context() as one:
            one.setenv(number[0], str(number[bound]))
            try:
                core_limit()
            except ConfigError as error:      # beside the others as they are
                assert number[0] in str(error), error


def test_every_problem_is_told_at_once(monkeypatch):
    monkeypatch.setenv("PORT", "x")
    monkeypatch.setenv("QUEEND_NO_SUCH", "1")
    assert [line.split(":")[0] for line in problems()] == ["QUEEND_NO_SUCH", "PORT"]


def test_unprotected_instead_of_protected_is_refused(monkeypatch):
    monkeypatch.setenv("JWT_ENABLED", "true")
    assert "JWT_SECRET" in problems()[0]


@pytest.mark.parametrize("name, meant", [
    ("JWT_ENABELD", "JWT_ENABLED"), ("PG_HSOT", "PG_HOST"), ("PG_PASWORD", "PG_PASSWORD"),
    ("JWT_SECRETT", "JWT_SECRET"), ("NUM_WORKER", "NUM_WORKERS"),
    ("DATABASE_URI", "DATABASE_URL"), ("jwt_enabeld", "JWT_ENABLED"), ("QUEEND_DSM", "QUEEND_DSN"),
    ("QUEUND_DSN", "QUEEND_DSN"), ("CORS_ORIGIN", "CORS_ORIGINS")])
def test_a_name_that_is_nearly_ours_is_refused(monkeypatch, name, meant):
    monkeypatch.setenv(name, "")
    with pytest.raises(ConfigError, match=f"^{name}: unknown setting; did you mean {meant}\\?$"):
        load()


@pytest.mark.parametrize("name", ["PGHOST", "PGUSER", "PGPASSWORD", "LOGLEVEL", "HOSTS", "PORTS", "JWT_HEADER",
                                  "PG_HOME", "jwt_issuer"])
def test_names_of_others_are_theirs(monkeypatch, name):
    monkeypatch.setenv(name, "x")
    load()


@pytest.mark.parametrize("wrong, told", [
    ({"QUEEN_SYNC_SECRET": "0" * 63}, "QUEEN_SYNC_SECRET must have 64 ASCII characters"),
    ({"QUEEN_SYNC_SECRET": "0" * 65}, "QUEEN_SYNC_SECRET must have 64 ASCII characters"),
    ({"QUEEN_SYNC_SECRET": "0" * 63 + " "}, "QUEEN_SYNC_SECRET must have 64 ASCII characters"),
    ({"QUEEN_UDP_PEERS": "a,b c"}, "QUEEN_UDP_PEERS: b c is not a peer"),
    ({"QUEEN_UDP_PEERS": "a:0"}, "QUEEN_UDP_PEERS: a:0 is not a peer"),
    ({"QUEEN_UDP_PEERS": "http://a"}, "QUEEN_UDP_PEERS: http://a is not a peer"),
    ({"QUEEN_UDP_PEERS": "::1"}, "QUEEN_UDP_PEERS: ::1 is not a peer"),
    ({"QUEEN_PEERS": "ftp://a"}, "QUEEN_PEERS: ftp://a is not the URL"),
    ({"QUEEN_PEERS": "http://user:word@a"}, "QUEEN_PEERS: http://********@a is not the URL"),
    ({"QUEEN_PEERS": "b,http://a:66666"}, "QUEEN_PEERS: http://a:66666 is not the URL"),
    ({"QUEEN_PEERS": "http://a:0"}, "QUEEN_PEERS: http://a:0 is not the URL"),
    ({"QUEEN_PEERS": "b,http://[:::]:1"}, "QUEEN_PEERS: http://[:::]:1 is not the URL"),
    ({"QUEEN_UDP_PEERS": "b,a:99999"}, "QUEEN_UDP_PEERS: a:99999 is not a peer"),
    ({"QUEEN_UDP_PEERS": "b,[:::]:1"}, "QUEEN_UDP_PEERS: [:::]:1 is not a peer"),
    ({"QUEEN_SYNC_HEARTBEAT_MS": "5000"}, "QUEEN_SYNC_DEAD_THRESHOLD_MS is not above"),
    ({"QUEEN_PEERS": "a", "JWT_ENABLED": "true", "JWT_SECRET": "0" * 32}, "QUEEN_PEERS with JWT_ENABLED requires"),
], ids=str)
def test_peers_that_cannot_be_are_refused(monkeypatch, wrong, told):
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    (problem,) = problems()
    assert problem.startswith(told), problem


@pytest.mark.parametrize("name, right, wrong", [
    ("CORS_ORIGINS", "https://App.example/, null,http://a:1", "app.example"),
    ("QUEEND_HOSTS", "Queue.example,[::1],*", "queue.example:6632"), ("QUEEND_HOSTS", "a", "http://a"),
    ("JWT_SKIP_PATHS", "/,/metrics/", "metrics"), ("QUEEND_OTLP_HEADERS", "x-key = a=b, y=", "a-secret"),
    ("QUEEND_OTLP_HEADERS", "x=1", "a secret=1")])
def test_what_is_none_of_a_list_is_refused(monkeypatch, name, right, wrong):
    monkeypatch.setenv(name, right)
    load()
    monkeypatch.setenv(name, f"{right},{wrong}")
    shown = "one" if name == "QUEEND_OTLP_HEADERS" else wrong
    (problem,) = problems()
    assert problem.startswith(f"{name}: {shown} is not a valid "), problem


def test_peers_in_all_their_forms():
    assert peers_read("a, b.example:7,[::1]:8,[::1],10.0.0.1", 6633) == [
        ("a", 6633), ("b.example", 7), ("::1", 8), ("::1", 6633), ("10.0.0.1", 6633)]
    assert urls_read("a,http://b:7,https://c/queue,http://[::1]") == [
        "http://a:6632", "http://b:7", "https://c:6632/queue", "http://[::1]:6632"]


def test_a_web_application_that_is_not_there_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("WEBAPP_ROOT", str(tmp_path))
    load()
    monkeypatch.setenv("WEBAPP_ROOT", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="WEBAPP_ROOT: .*none is not a directory"):
        load()
    monkeypatch.setenv("WEBAPP_ROOT", "x" * 5000)      # the system refuses to look
    with pytest.raises(ConfigError, match="WEBAPP_ROOT: x+ is not a directory"):
        load()


def test_an_empty_variable_is_no_variable(monkeypatch):
    monkeypatch.setenv("PORT", "")
    assert load().port == 6632


def test_the_environment_wins_over_the_file_and_the_argument_over_both(monkeypatch, tmp_path):
    file = tmp_path / "queend.toml"
    file.write_text("port = 1\nhost = '::1'\nqueend_slots = 5\n")
    monkeypatch.setenv("QUEEND_CONFIG", str(file))
    monkeypatch.setenv("HOST", "127.0.0.1")
    monkeypatch.setenv("PORT", "2")
    settings = load(port=3)
    assert (settings.port, settings.host, settings.queend_slots, settings.default_batch_size) == (3, "127.0.0.1", 5, 1)
    told = origins(settings, {"port": 3})
    assert [told[name] for name in ("port", "host", "queend_slots", "default_batch_size")] == ["argument",
        "environment", "file", "default"]


@pytest.mark.parametrize("text, problem", [
    ("prot = 1", "PROT: unknown setting"), ("port = ", "QUEEND_CONFIG: "), ("port = 'x'", "PORT: "),
    ("port = true", "PORT: true is not a whole number"),
    ("port = 1.5", "PORT: 1.5 is not a whole number from 0 to 65535"),
    ("log_level = true", "LOG_LEVEL: true is not one of trace,"),
    ("queend_data_dir = 5", "QUEEND_DATA_DIR: 5 is not a path"),
    ("cors_origins = ['*']", "CORS_ORIGINS: ['*'] is not a text"),
    ("pg_password = 4711", "PG_PASSWORD: the given value is not a text"),
    ("pg_password = true", "PG_PASSWORD: the given value is not a text"),
    ("[server]\nport = 1", "SERVER: unknown setting")])
def test_a_wrong_file_is_refused(monkeypatch, tmp_path, text, problem):
    (tmp_path / "queend.toml").write_text(text)
    monkeypatch.setenv("QUEEND_CONFIG", str(tmp_path / "queend.toml"))
    assert problems()[0].startswith(problem)


def test_what_has_no_effect_is_known(monkeypatch, tmp_path):
    """From the environment and from the file, whatever it is set to; a name that is nearly one is not one."""
    file = tmp_path / "queend.toml"
    file.write_text("queen_cache_refresh_interval_ms = 5\nport = 1\n")
    for name, value in {"QUEEND_CONFIG": str(file), "STATS_HISTORY_RETENTION_DAYS": "ten", "QUEUE_POLL_INTERVAL": "50",
                        "STREAM_POLL_X": "1", "WORKER_ID": ""}.items():
        monkeypatch.setenv(name, value)
    assert load().port == 1
    assert list(without_effect()) == ["QUEEN_CACHE_REFRESH_INTERVAL_MS", "QUEUE_POLL_INTERVAL",
                                      "STATS_HISTORY_RETENTION_DAYS", "STREAM_POLL_X"]
    monkeypatch.setenv("QUEEN_SYNC_ENABLE", "true")
    assert problems() == ["QUEEN_SYNC_ENABLE: unknown setting; did you mean QUEEN_SYNC_ENABLED?"]


@pytest.mark.parametrize("name", ["QUEEND_DSN", "DATABASE_URL", "PG_HOST", "PG_PORT", "PG_USER", "PG_PASSWORD",
                                  "PG_DB"])
def test_naming_a_server_turns_the_embedded_one_off(monkeypatch, name):
    assert uses_embedded(load())
    monkeypatch.setenv(name, "host=h" if name in ("QUEEND_DSN", "DATABASE_URL") else "5433")
    assert not uses_embedded(load())


def test_connection_string_from_parts(monkeypatch):
    for name, value in {"PG_HOST": "db.example", "PG_PORT": "5433", "PG_DB": "a b", "PG_USER": "u'",
                        "PG_PASSWORD": "p\\ w",
                        "DB_STATEMENT_TIMEOUT": "1234"}.items():
        monkeypatch.setenv(name, value)
    words = conninfo_to_dict(conninfo(load()))
    assert {name: words[name] for name in ("host", "port", "dbname", "user", "password", "sslmode")} == {
        "host": "db.example", "port": "5433", "dbname": "a b", "user": "u'", "password": "p\\ w", "sslmode": "disable"}
    assert "statement_timeout=1234" in words["options"]


@pytest.mark.parametrize("name, beside", [("QUEEND_DSN", "PG_HOST"), ("QUEEND_DSN", "DATABASE_URL"),
                                          ("DATABASE_URL", "PG_HOST")])
def test_a_dsn_wins_and_keeps_its_own_words(monkeypatch, name, beside):
    monkeypatch.setenv(name, "postgresql://u:p@h:1/d?sslmode=verify-full&connect_timeout=9&options=-c%20geqo%3Doff")
    monkeypatch.setenv(beside, "elsewhere" if beside == "PG_HOST" else "host=elsewhere")
    words = conninfo_to_dict(conninfo(load(), options="-c jit=off"))
    assert (words["host"], words["sslmode"], words["connect_timeout"]) == ("h", "verify-full", "9")
    assert "-c jit=off -c geqo=off" in words["options"]


def test_what_the_functions_rely_on_is_the_same_in_every_session(monkeypatch):
    monkeypatch.setenv("QUEEND_DSN", "postgresql://u:p@h:1/d?options=-c%20default_transaction_isolation%3Dserializable")
    options = conninfo_to_dict(conninfo(load(), options=HOT_PLANS))["options"]
    assert options.endswith(session_options())      # the last word counts
    assert r"-c default_transaction_isolation=read\ committed" in options and "-c search_path=pg_catalog" in options


def test_a_dsn_libpq_cannot_read_is_refused(monkeypatch):
    for dsn in ("host=h s3cret", "postgresql://u:s3cret@h/d?passw=s3cret", "postgresql://u:s3cret@[h/d"):
        monkeypatch.setenv("QUEEND_DSN", dsn)
        with pytest.raises(ConfigError, match="QUEEND_DSN: ") as told:
            conninfo(load())
        assert "s3cret" not in str(told.value)


@pytest.mark.parametrize("name, value, told", [
    ("QUEEND_DSN", "host=h sslmode=requre", 'invalid sslmode value: "requre"'),
    ("DATABASE_URL", "postgresql://u:p@a,b/d?port=99999", "invalid port number"),
    ("DATABASE_URL", "host=a,b port=1,2,3", "could not match 3 port numbers to 2 hosts"),
    ("QUEEND_DSN", "postgresql://u:p@h:s3cret/d", "invalid integer value (port)"),
    ("QUEEND_DSN", "hostaddr=1.2.3.4 sslmode=no", 'invalid sslmode value: "no"')])
def test_a_value_that_libpq_takes_for_none_is_told(monkeypatch, name, value, told):
    monkeypatch.setenv(name, value)
    (problem,) = problems()
    assert problem.startswith(f"{name}: {told}") and "s3cret" not in problem
    done = command("serve", **{name: value})
    assert done.returncode == 2 and f"queend: {name}: {told}" in done.stderr


@pytest.mark.parametrize("variables, deadline", [
    ({}, 35_000), ({"DB_STATEMENT_TIMEOUT": "1000"}, 6_000), ({"DB_STATEMENT_TIMEOUT": "0"}, 35_000),
    ({"DB_STATEMENT_TIMEOUT": "2147483647"}, 2147483647),
    ({"DB_STATEMENT_TIMEOUT": "0", "LIBQUEEN_INFLIGHT_DEADLINE_MS": "90000"}, 90_000)], ids=str)
def test_the_deadline_of_an_answer(monkeypatch, variables, deadline):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert core_settings(load())["inflight_deadline_ms"] == deadline


@pytest.mark.parametrize("variables, mode, verified", [
    ({}, "disable", True),
    ({"PG_USE_SSL": "true"}, "verify-full", True),
    ({"QUEEND_DSN": "host=h sslmode=require"}, "require", False),
    ({"QUEEND_DSN": "host=h sslmode=verify-full"}, "verify-full", True),
    ({"PG_USE_SSL": "true", "PG_SSL_REJECT_UNAUTHORIZED": "false"}, "require", False),
    ({"PG_USE_SSL": "true", "PGSSLROOTCERT": "/r.crt"}, "verify-full", True),
    ({"PG_USE_SSL": "true", "PG_SSL_REJECT_UNAUTHORIZED": "true", "PGSSLROOTCERT": "/r.crt"}, "verify-full", True),
    ({"PG_USE_SSL": "true", "PG_SSL_REJECT_UNAUTHORIZED": "false", "PGSSLROOTCERT": "/r.crt"}, "require", False),
])
def test_tls_words(monkeypatch, variables, mode, verified):
    monkeypatch.setenv("PG_HOST", "h")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = load()
    assert conninfo_to_dict(conninfo(settings))["sslmode"] == mode
    assert verifies_server(settings) is verified


def test_the_core_gets_flat_numbers_and_texts(monkeypatch):
    monkeypatch.setenv("SIDECAR_MICRO_BATCH_WAIT_MS", "7")
    monkeypatch.setenv("QUEEN_ACK_MAX_HOLD_MS", "3")
    monkeypatch.setenv("NUM_WORKERS", "4")
    monkeypatch.setenv("SIDECAR_POOL_SIZE", "10")
    flat = core_settings(load())
    assert all(isinstance(value, (int, str)) for value in flat.values())
    assert (flat["push_max_hold_ms"], flat["ack_max_hold_ms"], flat["slots_per_worker"]) == (7, 3, 3)


def test_command_config_tells_origins_and_hides_secrets():
    done = command("config", "--show-origin", PORT="7777", PG_PASSWORD="hunter2",
                   JWT_JWKS_URL="https://me:hunter2@id.example/keys?code=hunter2&x=hunter2#f")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert lines["PORT"] == ["7777", "environment"]
    assert lines["PG_PASSWORD"] == ["********", "environment"]
    assert "hunter2" not in done.stdout and lines["JWT_JWKS_URL"][0] == "https://********@id.example/keys?********#f"


def test_command_config_prints_values_as_they_are_set(tmp_path):
    """What it prints is a configuration that means the same."""
    done = command("config", "--changed", QUEEND_DASHBOARD="0", PG_USE_SSL="yes", PORT="7777")
    lines = dict(line.split() for line in done.stdout.splitlines()[1:])
    assert lines == {"QUEEND_DASHBOARD": "false", "PG_USE_SSL": "true", "PORT": "7777"}
    again = command("config", "--changed", **lines)
    assert again.stdout == done.stdout and again.returncode == 0


def test_command_config_as_json_and_only_what_was_changed():
    done = command("config", "--json", "--changed", PORT="7777", HOST="127.0.0.2", PG_PASSWORD="hunter2")
    assert json.loads(done.stdout) == {"PORT": 7777, "HOST": "127.0.0.2", "PG_PASSWORD": "********"}
    told = json.loads(command("config", "--json", "--show-origin", PORT="7777").stdout)
    assert told["PORT"] == {"value": 7777, "origin": "environment"} and told["HOST"]["origin"] == "default"


def test_command_serve_ends_with_a_clear_message():
    done = command("serve", PORT="abc")
    assert done.returncode == 2
    assert done.stderr.startswith("queend: PORT: ")


def test_command_version():
    done = command("--version")
    assert done.returncode == 0 and done.stdout.startswith("queend ")


@pytest.mark.parametrize(("options", "settings"), [
    ("-c jit=off -cgeqo=on --work-mem=4MB", [("jit", "off"), ("geqo", "on"), ("work_mem", "4MB")]),
    (r"-c default_transaction_isolation=read\ committed", [("default_transaction_isolation", "read committed")]),
    (r"  -c a.b=x\\y'z  ", [("a.b", r"x\y'z")]),
    ("", []),
    ("-B 100 -c jit=off", None),
    ("-c jit", None),
])
def test_options_become_settings(options, settings):
    assert session.read(options) == settings
    words = {"host": "h", "options": options} if options else {"host": "h"}
    rest, made = session.parted(make_conninfo(**words))
    assert made == (settings or [])
    assert conninfo_to_dict(rest) == (words if settings is None else {"host": "h"})


def test_settings_are_made_on_the_session(postgres):
    target = make_conninfo(postgres.conninfo,
                           options=r"-c search_path=a,\ b -c application_name=it's\ \\it -c geqo=off")
    with session.connect(target) as connection:
        shown = [connection.execute(f"SHOW {name}").fetchone()[0] for name in ("search_path", "application_name",
            "geqo")]
        connection.rollback()
        assert shown == ["a, b", r"it's \it", "off"] == [connection.execute(f"SHOW {name}").fetchone()[0]
                                                         for name in ("search_path", "application_name", "geqo")]
    with pytest.raises(psycopg.Error, match="no_such_setting"):
        session.connect(make_conninfo(postgres.conninfo, options="-c no_such_setting=1"))


def test_several_hosts_are_tried_for_one_that_can_be_written_to(monkeypatch):
    monkeypatch.setenv("QUEEND_DSN", "host=a,b dbname=d")
    assert conninfo_to_dict(conninfo(load()))["target_session_attrs"] == "read-write"
    monkeypatch.setenv("QUEEND_DSN", "host=a,b dbname=d target_session_attrs=any")
    assert conninfo_to_dict(conninfo(load()))["target_session_attrs"] == "any"
    monkeypatch.setenv("QUEEND_DSN", "host=a dbname=d")
    assert "target_session_attrs" not in conninfo_to_dict(conninfo(load()))


# ---- credentials ----------------------------------------------------------------------------------------------------

@pytest.fixture
def secrets(monkeypatch, tmp_path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    return folder


def test_a_credential_is_a_setting_and_wins_over_environment_and_file(monkeypatch, secrets, tmp_path):
    (secrets / "pg_password").write_text("of the credential\n")
    (secrets / "JWT_SECRET").write_text("s" * 40)
    (secrets / "queend.pg_user").write_text("somebody")
    (secrets / "tls.key").write_text("of another program")
    (secrets / "..data").mkdir()
    monkeypatch.setenv("PG_PASSWORD", "of the environment")
    (tmp_path / "queend.toml").write_text('jwt_secret = "of the file"\n')
    monkeypatch.setenv("QUEEND_CONFIG", str(tmp_path / "queend.toml"))
    settings = load()
    assert (settings.pg_password, settings.jwt_secret, settings.pg_user) == ("of the credential", "s" * 40, "somebody")
    assert load(pg_user="me").pg_user == "me"
    origin = origins(settings)
    assert [origin[name] for name in ("pg_password", "jwt_secret", "pg_user", "pg_db")] == [
        "credential", "credential", "credential", "default"]
    assert not uses_embedded(settings)


def test_keys_of_encrypted_queues_come_from_a_credential(secrets):
    (secrets / "queend_encryption_keys").write_text(f"new:{'1' * 64}\nold:{'2' * 64}\n")
    assert [name for name, _ in keyring(load())] == ["new", "old"]


def test_an_empty_credential_is_none(secrets):
    (secrets / "pg_password").write_text("\n")
    assert load().pg_password == "postgres"


@pytest.mark.parametrize("name, text, told", [
    ("jwt_secrte", b"x", "jwt_secrte: unknown setting; did you mean jwt_secret? (credential)"),
    ("queend.nothing", b"x", "queend.nothing: unknown setting (credential)"),
    ("jwt_secret", b"\xff", "JWT_SECRET: the credential jwt_secret is not a text of at most 1048576 bytes"),
    ("port", b"none", "PORT: none is not a whole number from 0 to 65535")])
def test_a_wrong_credential_is_told(secrets, name, text, told):
    (secrets / name).write_bytes(text)
    assert problems() == [told]


def test_two_credentials_of_one_setting_are_refused(secrets):
    (secrets / "pg_password").write_text("a")
    (secrets / "PG_PASSWORD").write_text("b")
    assert problems() == ["PG_PASSWORD: there are two credentials for this setting"]


def test_a_folder_of_credentials_that_is_not_there_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "nothing"))
    assert problems() == [f"CREDENTIALS_DIRECTORY: {tmp_path / 'nothing'}: No such file or directory"]
