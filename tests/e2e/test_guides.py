"""Pages for developers of applications: their commands and programs, run as they stand there."""
from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from tempfile import TemporaryDirectory

import httpx
import psycopg
import pytest
from support.callers import Caller
from support.daemon import PACKAGE, ROOT
from support.guides import blocks, environment, like, named, sessions, type_in
from support.ports import free_port
from support.tokens import SECRET, writer
from support.wait import PATIENCE, until

EXAMPLES = ROOT / "examples"
LOOKS = re.compile(r"curl (localhost|127\.0\.0\.1)|queend dlq list")         # commands that change nothing


def spread(page, folder):
    """Writes the files of a page into a folder."""
    for language in ("python", "sql", "html"):
        for name, text in named(page, language).items():
            (folder / name).write_text(text)


@contextmanager
def program(daemon, folder, *words, **settings):
    """A program that runs for as long as the block, and is sent SIGTERM then."""
    log = folder / f"{words[-1]}.log"
    with log.open("w") as output, subprocess.Popen(
            [sys.executable, *words], cwd=folder, env=environment(daemon, folder, **settings), stdout=output,
            stderr=subprocess.STDOUT) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            print(log.read_text())
            raise
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except ConnectionRefusedError:
        return False


def check(daemon, folder, command, promised):
    """Runs a command and compares. One that changes nothing is repeated until it shows what the page shows."""
    told = ""

    def shown():
        nonlocal told
        told = type_in(daemon, folder, command.replace("python ", f"{sys.executable} "))
        return like(told, promised)

    if LOOKS.match(command):
        until(shown, command)
    else:
        assert shown(), (command, told, promised)


def test_the_session_about_partitions(daemon, tmp_path):
    found = sessions("partitions.md")
    assert len(found) >= 8
    for command, promised in found:
        check(daemon, tmp_path, command, promised)


def test_the_web_application(start_daemon, tmp_path, monkeypatch):
    """From its tables to its dead letter."""
    daemon, port = start_daemon(), free_port()
    spread("web-app.md", tmp_path)
    monkeypatch.setenv("SHOP_DSN", daemon.conninfo)
    found = sessions("web-app.md")
    web_words, worker_words = [line.removeprefix("python ").replace("queend ", "-m queend ").split()
                               for line in blocks("web-app.md", "sh")[2].splitlines()]
    assert len(found) >= 8
    with ExitStack() as running:
        for command, promised in found:
            if "curl" in command and not listens(port):
                worker = running.enter_context(program(daemon, tmp_path, *worker_words))
                web = running.enter_context(program(daemon, tmp_path, *web_words, PORT=str(port)))
                until(lambda: listens(port), "web.py listens")
            check(daemon, tmp_path, command.replace("localhost:8000", f"127.0.0.1:{port}"), promised)
        assert worker.poll() is None
    assert worker.returncode == 0 and web.returncode == -signal.SIGTERM


def test_the_unit_of_a_worker(tmp_path):
    block, = blocks("web-app.md", "ini")
    file = tmp_path / re.match(r"# /etc/systemd/system/(\S+)\n", block)[1]
    file.write_text(re.sub(r"ExecStart=\S+", f"ExecStart={sys.executable}", block))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", file], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done


@pytest.fixture
def shop(start_daemon, tmp_path, monkeypatch):
    """A daemon on a database with the tables of the shop, and the files of the page about frameworks."""
    daemon = start_daemon()
    monkeypatch.setenv("SHOP_DSN", daemon.conninfo)
    monkeypatch.setenv("QUEEND_URL", daemon.url)
    with psycopg.connect(daemon.conninfo) as database:
        database.execute(named("web-app.md", "sql")["shop.sql"])
    spread("frameworks.md", tmp_path)
    return daemon


def ordered(daemon, order):
    """Whether the order is in the table and its job in the queue, each once."""
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as database:
        until(lambda: client.show("orders").status == 200, "the outbox is moved")
        jobs = until(lambda: client.pop("orders", consumerGroup=f"look-{order['id']}", autoAck=True), "the job")
        rows = database.execute("SELECT * FROM orders WHERE id = %s", (order["id"],)).fetchall()
        return rows == [tuple(order.values())] and [job["data"] for job in jobs] == [order]


def placed(port, path, body):
    """Sends a request twice, as a caller without an answer does. Returns both answers."""
    asked = [httpx.post(f"http://127.0.0.1:{port}{path}", json=body) for _ in range(2)]
    return [(one.status_code, one.json()) for one in asked]


def test_fastapi(shop, tmp_path):
    """Requests to a web server, and workers, each a process of its own."""
    shutil.copy(EXAMPLES / "fastapi_orders.py", tmp_path)
    port, order = free_port(), {"id": "o-1", "customer": "anna", "cents": 500}
    with (program(shop, tmp_path, "-m", "uvicorn", "fastapi_orders:app", "--port", str(port)),
          program(shop, tmp_path, "-m", "queend", "worker", "fastapi_orders:workers") as worker):
        until(lambda: listens(port), "uvicorn listens")
        assert placed(port, "/orders", order) == [(201, {"id": "o-1"})] * 2
        assert placed(port, "/mails/m-1", {"to": "bert", "text": "hello"}) == [
            (202, {"status": "queued"}), (202, {"status": "duplicate"})]
        log = tmp_path / "fastapi_orders:workers.log"
        until(lambda: {"anna: 500 cents", "bert: hello"} <= set(log.read_text().splitlines()), "both mails are sent")
    assert worker.returncode == 0 and log.read_text().count("anna: 500 cents") == 1
    assert ordered(shop, order)
    with psycopg.connect(shop.conninfo) as database:
        assert database.execute("SELECT * FROM invoices").fetchall() == [("o-1", 500)]


def test_django(shop, tmp_path):
    """Pushes after commits, one of them while the daemon is away."""
    pytest.importorskip("django", reason="make venv")
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLES / "django_orders", folder, ignore=shutil.ignore_patterns("__pycache__"))

    def manage(*words):
        return subprocess.run([sys.executable, "manage.py", *words], cwd=folder, env=environment(shop, folder),
                              check=True, capture_output=True, text=True)

    def invoiced():
        with closing(sqlite3.connect(folder / "shop.db")) as database:
            return database.execute("SELECT id, invoiced FROM shop_order ORDER BY id").fetchall()

    def server(port, **settings):
        return program(shop, folder, "manage.py", "runserver", "--noreload", str(port), **settings)

    manage("migrate", "--run-syncdb")
    ports = free_port(), free_port()
    with (server(ports[0]), server(ports[1], QUEEND_URL=f"http://127.0.0.1:{free_port()}"),
          program(shop, folder, "manage.py", "work") as worker):
        until(lambda: all(map(listens, ports)), "both servers listen")
        assert placed(ports[0], "/orders", {"id": "o-1", "customer": "anna", "cents": 5}) == [(201, {"id": "o-1"})] * 2
        assert placed(ports[1], "/orders", {"id": "o-2", "customer": "bert", "cents": 7}) == [(201, {"id": "o-2"})] * 2
        until(lambda: invoiced() == [("o-1", 1), ("o-2", 0)], "the first order is invoiced")
        for _ in range(2):
            manage("push_again")
        until(lambda: invoiced() == [("o-1", 1), ("o-2", 1)], "the second order is invoiced")
    assert worker.returncode == 0
    with shop.client() as client:
        jobs = client.pop("orders", consumerGroup="look", autoAck=True, batch=10, partitions=10)
    assert sorted(job["transactionId"] for job in jobs) == ["order-o-1", "order-o-2"]


IN_DJANGO = """
import json, os
import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict
words = conninfo_to_dict(os.environ["SHOP_DSN"])
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": words.pop("dbname"),
    "USER": words.pop("user", ""), "PASSWORD": words.pop("password", ""), "HOST": words.pop("host", ""),
    "PORT": words.pop("port", ""), "OPTIONS": words}})
django.setup()
from django.db import connection, transaction
for number in (1, 2):
    queue, partition, payload = "orders", "anna", {"id": f"o-{number}", "customer": "anna", "cents": 5}
    job_id = f"order-{number}"
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders VALUES (%s, %s, %s)", list(payload.values()))
            PUSH
        transaction.set_rollback(number == 1)
"""


def test_django_in_the_database_of_the_daemon(shop, tmp_path):
    """One transaction is rolled back, the next one commits."""
    pytest.importorskip("django", reason="make venv")
    (push,) = re.findall(r"`(cursor\.execute\(.*?\))`", (ROOT / "docs/frameworks.md").read_text())
    subprocess.run([sys.executable, "-c", IN_DJANGO.replace("PUSH", push)], cwd=tmp_path, check=True,
                   env=environment(shop, tmp_path, SHOP_DSN=shop.conninfo))
    assert ordered(shop, {"id": "o-2", "customer": "anna", "cents": 5})


def test_the_page_shows_the_examples():
    """Code of the page without the name of a file is a part of an example, word for word."""
    texts = [file.read_text() for file in EXAMPLES.rglob("*.py")]
    shown = set(blocks("frameworks.md", "python")) - set(named("frameworks.md").values())
    assert len(shown) == 4
    assert [one for one in shown if not any(one in text for text in texts)] == []


def test_flask(shop, tmp_path):
    pytest.importorskip("flask", reason="make venv")
    module = runpy.run_path(tmp_path / "flask_app.py")
    order = {"id": "o-1", "customer": "anna", "cents": 500}
    with module["pool"]:
        for _ in range(2):
            assert module["app"].test_client().post("/orders", json=order).status_code == 201
        assert ordered(shop, order)


def test_functions_as_jobs(shop, tmp_path):
    with program(shop, tmp_path, "-m", "queend", "worker", "jobs:workers") as worker:
        for command, promised in sessions("frameworks.md"):
            check(shop, tmp_path, command, promised)
        until(lambda: "5" in (tmp_path / "jobs:workers.log").read_text().splitlines(), "the worker prints")
    assert worker.returncode == 0


@pytest.mark.daemon
def test_the_tests_of_an_application(tmp_path):
    """The page's fixtures start a daemon of their own, with its own PostgreSQL."""
    spread("testing.md", tmp_path)
    (command, promised), = sessions("testing.md")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "QUEEN", "PG", "JWT"))}
    with TemporaryDirectory() as base:             # the path of a socket is short
        words = [sys.executable, *command.split()[1:], "-p", "no:cacheprovider", f"--rootdir={tmp_path}",
                 f"--basetemp={base}/t"]
        done = subprocess.run(words, cwd=tmp_path, env={**kept, "PYTHONPATH": str(PACKAGE)}, capture_output=True,
                              text=True, timeout=300)
    assert done.returncode == 0 and promised.split("…")[0].strip() in done.stdout, done.stdout + done.stderr


PAGE = "https://shop.example"
TOKENS = {"JWT_ENABLED": "true", "JWT_SECRET": SECRET, "QUEEND_JWT_QUEUES_CLAIM": "queues",
          "JWT_REQUIRE_QUEUES": "true", "CORS_ORIGINS": PAGE}


def test_pages_of_browsers(start_daemon, tmp_path, monkeypatch):
    """The settings of the page, a token of a page, and what it may not. Its streams: tests/dashboard."""
    asked = dict(re.findall(r"([A-Z_]+)=(\S+)", blocks("browsers.md", "sh")[0]))
    assert asked == {**TOKENS, "JWT_SECRET": "…"}
    daemon = start_daemon(**TOKENS)
    monkeypatch.setenv("JWT_SECRET", SECRET)
    for command, promised in sessions("browsers.md"):
        told = type_in(daemon, tmp_path, command, JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")
        assert like(told, promised), (command, told, promised)
    spread("browsers.md", tmp_path)
    token = runpy.run_path(tmp_path / "page_token.py")["page_token"]("anna")
    may = {"inbox.anna": ["pop:page-anna"], "orders": ["push"]}
    with Caller(daemon, token) as page:
        assert page.get("/api/v1/system/session").json["queues"] == may
        assert page.post("/api/v1/stream/inbox.anna/ticket").status == 201
        assert page.post("/api/v1/stream/inbox.bert/ticket").status == 403


def test_a_page_pushes(start_daemon, tmp_path):
    daemon = start_daemon(**TOKENS)
    (tmp_path / "feed.mjs").write_text(named("browsers.md", "js")["feed.js"])
    (tmp_path / "page.mjs").write_text("""
import {push, server} from "./feed.mjs";
const [url, token] = process.argv.slice(2);
server.url = url;
for (const queue of ["orders", "orders", "other"])
  console.log(await push(async () => token, queue, {transactionId: "o-1", payload: {n: 1}}).catch((e) => e.status));
""")
    token = writer(queues={"orders": ["push"]})
    done = subprocess.run(["node", tmp_path / "page.mjs", daemon.url, token], capture_output=True, text=True,
                          timeout=300)
    assert done.stdout.split() == ["queued", "duplicate", "403"], done
