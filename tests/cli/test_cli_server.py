"""Which server, which token, and what is told where there is none."""
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.cli import Cli
from support.daemon import ROOT
from support.tokens import SECRET, token
from support.wait import PATIENCE, until


@pytest.fixture
def nowhere(tmp_path) -> Cli:
    return Cli(None, tmp_path)


class Odd:
    """A server that reads a request, sends these bytes and closes."""

    def __init__(self, answer: bytes):
        self.answer, self.asked = answer, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.asked.append(connection.recv(1 << 16).decode("latin-1"))
                connection.sendall(self.answer)

    def __enter__(self) -> "Odd":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def http(status: str, body: bytes, kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize(("url", "status", "told"), [
    ("http://127.0.0.1:1", 6, "cannot connect to http://127.0.0.1:1"),
    ("127.0.0.1:1", 6, "cannot connect"),
    ("http://no-such-host.invalid:6632", 6, "no-such-host.invalid"),
    ("ftp://127.0.0.1", 2, "invalid server URL"),
    ("http://127.0.0.1:port", 2, "invalid server URL"),
    ("http://[::1", 2, "invalid server URL"),
    ("http://a..b", 2, "invalid server URL"),
    (f"http://{'a' * 64}.example", 2, "invalid server URL"),
    ("http://\udcff", 2, "invalid server URL"),
    ("http://127.0.0.1:1/\udcff", 2, "invalid server URL"),
    ("http://127.0.0.1:1/ä b", 6, "cannot connect to http://127.0.0.1:1/%C3%A4%20b"),
    ("http://me:secret@127.0.0.1", 2, "contains a password"),
])
def test_an_address_where_nobody_is(nowhere, url, status, told):
    done = nowhere("queue", "list", "--url", url)
    assert done.status == status and told in done.err and done.out == "" and "secret" not in done.err


@pytest.mark.parametrize(("answer", "status", "told"), [
    (b"SSH-2.0-OpenSSH_9.2\r\n", 6, "is not an HTTP server"),
    (b"", 6, "was closed before the answer was complete"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"queues\":", 6, "was closed before the answer was complete"),
    (http("200 OK", b"<html>", "text/html"), 4, "not a server of this protocol"),
    (http("404 Not Found", b"<html>", "text/html"), 4, "it lacks the route"),
    (http("404 Not Found", b'{"error":"Not found"}'), 4, "this server has no route GET /api/v1/resources/queues"),
    (http("200 OK", b'{"error":"Queue not found"}'), 4, "Queue not found"),
    (http("500 Oops", b"plain words"), 1, "plain words"),
    (http("503 Service Unavailable", b'{"error":"Database unavailable"}'), 6, "is unavailable: Database"),
], ids=["ssh", "nothing", "half", "page", "page-404", "no-route", "error-as-200", "no-json", "unavailable"])
def test_a_server_that_answers_oddly(nowhere, answer, status, told):
    with Odd(answer) as odd:
        done = nowhere("queue", "list", "-o", "names", "--url", odd.url)
    assert done.status == status and told in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(("words", "route"), [
    (("queue", "list"), "GET /api/v1/api/v1/resources/queues"),
    (("queue", "show", "a/b"), "GET /api/v1/api/v1/resources/queues/a%2Fb"),
    (("pop", "orders"), "GET /api/v1/api/v1/pop/queue/orders"),
    (("push", "orders", "1"), "POST /api/v1/api/v1/push"),
])
def test_a_url_with_a_path_names_the_requested_route(nowhere, daemon, words, route):
    done = nowhere(*words, "--url", f"{daemon.url}/api/v1")
    assert done.status == 4 and done.err == (
        f"queend: this server has no route {route}\n"
        f"        the URL of the server has the path /api/v1; try {daemon.url}\n")


def test_a_write_whose_answer_is_lost_says_so(nowhere):
    with Odd(b"") as odd:
        done = nowhere("push", "q", "1", "--url", odd.url)
    assert done.status == 6 and "may or may not have executed the request" in done.err


def test_a_server_that_says_nothing(nowhere):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = nowhere("status", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}", "--timeout", "0.2")
    assert done.status == 6 and "did not answer within the timeout" in done.err


def test_options_before_and_behind_the_command(nowhere, daemon):
    assert nowhere("--url", daemon.url, "status").status == 0
    assert nowhere("status", "--url", daemon.url).status == 0
    assert nowhere("--url", "http://127.0.0.1:1", "status", "--url", daemon.url).status == 0
    assert nowhere("status", QUEEND_URL=f"{daemon.url}/").status == 0


def test_saved_servers(nowhere, daemon):
    assert nowhere("context", "show").status == 4
    assert nowhere("context", "add", "", daemon.url).status == 2
    nowhere.ok("context", "add", "here", daemon.url)
    nowhere.ok("context", "add", "there", "http://127.0.0.1:1", QUEEND_TOKEN="a.b.c")
    file = nowhere.environment["XDG_CONFIG_HOME"] + "/queend/contexts.json"
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert nowhere.ok("context", "show").out == f"{daemon.url}\n"
    assert nowhere("status").status == 0
    assert nowhere("status", "--context", "there").status == 6
    nowhere.ok("context", "use", "there")
    assert nowhere("status").status == 6 and nowhere("status", QUEEND_CONTEXT="here").status == 0
    rows = nowhere.ok("context", "list", "-o", "json").json
    assert [tuple(row[key] for key in ("name", "current", "token")) for row in rows] == [
        ("here", False, ""), ("there", True, "saved")]
    assert "a.b.c" not in nowhere.ok("context", "list").out
    assert nowhere("status", "--context", "nobody").status == 2
    nowhere.ok("context", "remove", "there")
    assert nowhere.ok("context", "list", "-o", "names").out == "here\n"
    os.chmod(file, 0o644)
    refused = nowhere("context", "list")
    assert refused.status == 2 and "chmod 600" in refused.err
    os.chmod(file, 0o600)
    with open(file, "w") as broken:
        broken.write("{")
    assert nowhere("status").status == 2
    done = nowhere("context", "add", "x", daemon.url, XDG_CONFIG_HOME="/proc")
    assert (done.status, done.err) == (
        2, "queend: cannot write /proc/queend/contexts.json: No such file or directory\n")
    done = nowhere("status", "--url", "https://127.0.0.1:1", "--ca", "/none")
    assert (done.status, done.err) == (
        2, "queend: cannot read the certificates in /none: No such file or directory\n")


def test_a_home_that_is_of_another_account(tmp_path):
    """As setpriv leaves it: contexts that cannot be read are as good as none."""
    home = tmp_path / "home"
    home.mkdir(mode=0)
    found = subprocess.run([sys.executable, "-c", "import os\nfrom queend.cli import contexts\n"
                            "if os.geteuid() == 0:\n os.seteuid(65534)\nprint(contexts.chosen(None))"],
                           env={"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(home)}, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("None\n", "")


def test_the_token_of_a_saved_server_goes_to_no_other(nowhere):
    with Odd(http("200 OK", b'{"queues":[]}')) as its, Odd(http("200 OK", b'{"queues":[]}')) as other:
        nowhere.ok("context", "add", "its", its.url, QUEEND_TOKEN="a.b.c")
        for words in ([], ["--url", other.url]):
            nowhere.ok("queue", "list", "-o", "names", *words)
        assert "Bearer a.b.c" in its.asked[0] and "authorization" not in other.asked[0].lower()


def test_the_token_of_a_server_that_is_named_goes_before_those_of_the_environment(nowhere, tmp_path):
    (tmp_path / "token").write_text("d.e.f")
    with Odd(http("200 OK", b'{"queues":[]}')) as its:
        nowhere.ok("context", "add", "its", its.url, QUEEND_TOKEN="a.b.c")
        for more in ({"QUEEND_TOKEN": "d.e.f"}, {"QUEEND_TOKEN_FILE": str(tmp_path / "token")}):
            nowhere.ok("queue", "list", "-o", "names", "--context", "its", **more)
            nowhere.ok("queue", "list", "-o", "names", **more)
        assert [next(word for word in ("a.b.c", "d.e.f") if word in asked)
                for asked in its.asked] == ["a.b.c", "d.e.f"] * 2


def test_jobs_of_spark_mean_the_same_server(nowhere, monkeypatch):
    from queend.cli.spark import link

    for name in ("QUEEND_URL", "QUEEND_TOKEN", "QUEEND_TOKEN_FILE", "QUEEND_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", nowhere.environment["XDG_CONFIG_HOME"])
    nowhere.ok("token", "inspect", "-", input="e30.e30.e30")
    assert link(None, None, None, None) == {"url": "http://127.0.0.1:6632"}
    nowhere.ok("context", "add", "its", "http://saved:6632", QUEEND_TOKEN="a.b.c")
    assert link(None, None, None, None) == {"url": "http://saved:6632", "token": "a.b.c"}
    assert link("http://one:1,http://two:2", "~/token", "ca.pem", "own.pem") == {
        "url": "http://one:1,http://two:2", "tokenFile": str(Path.home() / "token"), "ca": "ca.pem",
        "cert": "own.pem"}
    monkeypatch.setenv("QUEEND_URL", "http://named:6632")
    assert link(None, None, None, None) == {"url": "http://named:6632"}
    nowhere.ok("--url", "http://before:6632", "context", "list")
    assert link(None, None, None, None) == {"url": "http://before:6632"}


def test_tokens(start_daemon, tmp_path):
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)
    cli = Cli(daemon.url, tmp_path)
    wanted = cli("queue", "list")
    assert wanted.status == 7 and "requires a token" in wanted.err and "QUEEND_TOKEN" in wanted.err
    assert cli("queue", "list", QUEEND_TOKEN="a.b.c").status == 7
    reader = token(role="read-only")
    assert cli("queue", "list", QUEEND_TOKEN=reader).status == 0
    refused = cli("push", "q", "1", QUEEND_TOKEN=reader)
    assert refused.status == 7 and "access denied" in refused.err
    (tmp_path / "token").write_text(token(role="read-write") + "\n")
    assert cli("push", "q", "1", "--token-file", str(tmp_path / "token"), QUEEND_TOKEN=reader).status == 0
    assert cli("push", "q", "1", "--token-file", str(tmp_path / "none")).status == 2


def test_a_server_that_stops_in_the_middle(start_daemon, tmp_path):
    daemon = start_daemon()
    cli = Cli(daemon.url, tmp_path)
    pushing = cli.process("push", "q", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for i in range(2000):
        pushing.stdin.write(f"{i}\n")
    pushing.stdin.flush()
    with daemon.client() as client:
        # A request has a thousand: the first was answered before the second was sent.
        while client.show("q").json.get("totals", {}).get("total", 0) <= 1000:
            pass
    daemon.kill()
    told = pushing.communicate("".join(f"{i}\n" for i in range(5000)), timeout=PATIENCE)[1]
    assert pushing.returncode == 6 and re.search(r"\d+ messages before were stored", told), told


def test_ctrl_c(cli, client, queue):
    client.push(queue, 0)
    client.pop(queue, autoAck=True)
    waiting = cli.process("pop", queue, "--wait", "600", stderr=subprocess.PIPE, text=True)
    until(lambda: client.parked() > 0, "the pop is parked")
    waiting.send_signal(signal.SIGINT)
    assert waiting.communicate(timeout=PATIENCE)[1] == "queend: interrupted\n" and waiting.returncode == 130


def test_the_help_says_what_the_commands_say():
    from typer.main import get_command

    from queend.cli import COMMANDS, app

    commands = get_command(app).commands
    for name, (_, text) in COMMANDS.items():
        assert commands[name].help.startswith(text.split(" (docs")[0].rstrip(".")), name


def test_the_help_says_what_an_option_takes_in_words_for_people():
    page = (ROOT / "docs/cli.md").read_text()
    library = r"<[a-z][^>]*>|\w\[\w+\]|\]\.\.\.\]|x>=|<=x"
    assert not re.findall(library, page)
    assert "-f, --file FILE" in page and "-n, --batch NUMBER" in page and "minimum 1" in page
    pushed = subprocess.run([sys.executable, "-m", "queend", "push", "--help"], capture_output=True, text=True,
                            cwd=ROOT, check=True).stdout
    assert not re.findall(library, pushed) and "-H, --header NAME=VALUE" in pushed and "may be repeated" in pushed


def imported(*words: str) -> set[str]:
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "queend", *words], capture_output=True, text=True,
                          cwd=ROOT, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_help_imports_no_command():
    found = imported("--help")
    assert not found & {"rich", "pydantic", "psycopg", "fastapi", "queend._core", "queend.cli.serve",
                        "queend.cli.queue"}
    assert not [name for name in found if name.startswith("queend.settings")]


def test_serve_imports_none_of_the_other_commands():
    assert not {name for name in imported("serve", "--help") if name.startswith("rich")
                or name in ("queend.cli.queue", "queend.cli.output")}


def test_a_closed_standard_input_is_an_empty_one(nowhere):
    asked = subprocess.run(["sh", "-c", 'exec "$@" <&-', "-", sys.executable, "-m", "queend", "token", "inspect", "-"],
                           env=nowhere.clean(), cwd="/", stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert asked.returncode == 2 and "there is no token" in asked.stderr, asked.stderr


@pytest.mark.parametrize("words", ["context list -o json", "--help", "queue --help", "completion bash",
                                   "completion fish", "config", "config --json", "--version"])
@pytest.mark.parametrize("where, status, told", [
    (">/dev/full", 1, "queend: cannot write the output: No space left on device\n"),
    (">&-", 0, "")])
def test_a_standard_output_that_takes_nothing(nowhere, words, where, status, told):
    """Also one that is closed: what is connected next must not take its place."""
    listed = [sys.executable, "-m", "queend", *words.split()]
    done = subprocess.run(["sh", "-c", f'exec "$@" {where}', "-", *listed], env=nowhere.clean(), cwd="/",
                          stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (status, told)


@pytest.mark.parametrize("words", [
    "queue show {}", "queue configure {}", "queue delete {} --yes", "group show {}", "group seek {q} {} --end",
    "pop {}", "pop {q} --group {}", "message list {q} --partition {}", "message search {q} {}",
    "dlq list {q} --error {}", "dlq purge {q} --error {} --yes", "erase {q} --text {}", "erase {q} --id {}",
    "trace named {}", "tail {q} --partition {}", "export {}"])
def test_an_argument_that_is_not_utf8(cli, queue, words):
    cli.ok("push", queue, "1")
    done = cli(*(word.format("\udcff", q=queue) for word in words.split()))
    assert (done.status, done.err) == (2, "queend: the argument '\\udcff' is not UTF-8\n"), done
