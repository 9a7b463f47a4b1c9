"""What every command says of wrong words, of nothing to list, of a server that is not there or requires a token."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from support.cli import Cli
from support.ports import free_port
from support.tokens import SECRET, token

from queend.cli import COMMANDS, Commands
from queend.cli.output import Format

WRONG = {
    "queue list -o xml": "'xml' is not one of 'table', 'wide', 'json', 'ndjson', 'names'.",
    "status -o yaml": "'yaml' is not one of 'table', 'wide', 'json', 'ndjson', 'names'.",
    "completion tcsh": "'tcsh' is not one of 'bash', 'zsh', 'fish'.",
    "token mint me --role king": "'king' is not one of 'read-only', 'read-write', 'admin'.",
    "pop q --batch x": "'--batch' / '-n': it must be a valid integer\n",
    "bench --seconds x": "invalid duration 'x' of --for: expected a number with a unit",
    "--timeout x queue list": "invalid duration 'x' of --timeout: expected a number with a unit",
    "--timeout inf queue list": "invalid duration 'inf' of --timeout",
    "token inspect /nowhere/token": "cannot read the token in /nowhere/token: No such file or directory",
    "queue list --token-file /nowhere/token": "cannot read the token in /nowhere/token: No such file or directory",
    # as other tools have it
    "pub q 1": "No such command 'pub'. Did you mean `queend push`?\n", "SUB q": "Did you mean `queend pop`?\n",
    "search q 1": "Did you mean `queend message search`?\n", "stream ls": "Did you mean `queend queue list`?\n",
    "queue info q": "Did you mean `queend queue show`?\n", "queue rm q": "Did you mean `queend queue delete`?\n",
    "context rm x": "Did you mean `queend context remove`?\n", "dlq purge-all q": "Did you mean 'purge'",
    "message q": "Commands: list, search, show, delete, retry, dlq.\n", "nonsense": "No such command 'nonsense'.\n",
    "queue list --json": "Choose the output format with -o: table, wide, json, ndjson or names.",
    "--server http://x queue list": "Choose the server with --url.",
    "message search q -77": "No such option: -7. Put values that start with a dash after `--`.\n",
    "message search q -x1": "No such option: -x. Put values that start with a dash after `--`.\n",
    "status -x": "No such option: -x\n",
    "push q -5": "Put values that start with a dash after `--`.\n",
    "queue list --token x": "Pass the token with QUEEND_TOKEN, --token-file or a context.",
}
EMPTY = {"queue list no-*": "no matching queues", "group list": "no groups", "group list --lagging": "no group has lag",
         "dlq list": "no dead letters", "message list": "no messages",
         "trace list": "no traces",
         "trace named x": "no traces with the name 'x'",
         "context list": "no saved servers; add one with `queend context add`"}
MESSAGE = "00000000-0000-0000-0000-000000000001/x"
# Every command that talks to a server.
CALLS = ["doctor", "top --once", "queue list", "queue show q", "queue configure q leaseTime=5", "queue pause q",
         "queue resume q", "queue clear q --yes", "queue delete q --yes", "group list", "group show g",
         "group seek g q --end --yes",
         "group pause g", "group resume g", "group delete g --yes", "export", "bench -s 1", "push q 1", "pop q",
         "tail q", "message list q", "message search q x", f"message show {MESSAGE}",
         f"ack {MESSAGE}", "dlq list", f"dlq show {MESSAGE}", f"dlq edit {MESSAGE} 1",
         "dlq redrive q --yes", "dlq purge q --yes",
         "trace list", "trace named x", f"trace show {MESSAGE}"]


# Commands of these that print a list or an object.
PRINTED = [words for words in CALLS if words.split()[-1] == "list" or words.split()[:2] in (
    ["queue", "show"], ["group", "show"], ["message", "search"], ["message", "show"], ["dlq", "show"],
    ["trace", "named"], ["trace", "show"]) or words.split()[0] in ("doctor", "top", "tail", "pop", "bench")]
PRINTED.append("message list")


@pytest.fixture(scope="module")
def bare(start_daemon):
    """A daemon in which nothing is, and which requires a token."""
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)


@pytest.mark.parametrize("words", WRONG)
def test_wrong_words_are_told_in_words(tmp_path, words):
    done = Cli("http://127.0.0.1:1", tmp_path)(*words.split())
    assert done.status == 2 and WRONG[words] in done.err and done.out == ""
    assert "Value error" not in done.err and "Errno" not in done.err


@pytest.mark.parametrize("words", EMPTY)
@pytest.mark.parametrize("how", list(Format))
def test_an_empty_list(bare, tmp_path, words, how):
    cli = Cli(bare.url, tmp_path, QUEEND_TOKEN=token(role="admin"))
    done = cli.ok(*words.split(), "-o", how)
    assert done.out == ("[]\n" if how == "json" else "")
    assert done.err.startswith(EMPTY[words]) if how.for_people else done.err == ""


@pytest.mark.parametrize("words", CALLS)
def test_a_server_that_is_not_there(tmp_path, words):
    url = f"http://127.0.0.1:{free_port()}"
    done = Cli(url, tmp_path)(*words.split())
    assert (done.status, done.out) == (6, "")
    assert done.err.startswith(f"queend: cannot connect to {url}: Connection refused\n        start a server ")


@pytest.mark.parametrize("words", PRINTED)
@pytest.mark.parametrize("how", list(Format))
def test_nothing_is_printed_if_the_first_request_fails(bare, tmp_path, words, how):
    for url, status in ((bare.url, 7), (f"http://127.0.0.1:{free_port()}", 6)):
        done = Cli(url, tmp_path)(*words.split(), "-o", how)
        assert (done.status, done.out) == (status, "") and done.err


@pytest.mark.parametrize("words", CALLS)
def test_a_token_that_is_missing_or_wrong(bare, tmp_path, words):
    done = Cli(bare.url, tmp_path)(*words.split())
    assert (done.status, done.out) == (7, "") and "requires a token" in done.err and "QUEEND_TOKEN" in done.err
    done = Cli(bare.url, tmp_path, QUEEND_TOKEN="wrong")(*words.split())
    assert (done.status, done.out) == (7, "") and "refused the token: " in done.err
    assert "requires" not in done.err and "pass another token with QUEEND_TOKEN" in done.err


def test_status_says_what_it_may_not_show(bare, tmp_path):
    done = Cli(bare.url, tmp_path).ok("status")
    assert "healthy" in done.out and "waiting" not in done.out and "only the public fields" in done.err


@pytest.mark.parametrize("words", ["show", "pause", "resume", "clear --yes", "delete --yes"])
def test_a_queue_that_is_not_there(bare, tmp_path, words):
    cli = Cli(bare.url, tmp_path, QUEEND_TOKEN=token(role="admin"))
    verb, *more = words.split()
    done = cli("queue", verb, "none", *more)
    assert (done.status, done.err) == (4, "queend: there is no queue 'none'\n")


@pytest.mark.parametrize("words", ["dlq list none", "dlq redrive none --yes", "dlq purge none --yes", "tail none",
                                   "group list --queue none", "group seek g none --end", "export none"])
def test_a_queue_that_is_not_there_of_other_commands(bare, tmp_path, words):
    done = Cli(bare.url, tmp_path, QUEEND_TOKEN=token(role="admin"))(*words.split())
    assert (done.status, done.err) == (4, "queend: there is no queue 'none'\n")


def test_an_option_that_is_not_there(bare, tmp_path):
    cli = Cli(bare.url, tmp_path, QUEEND_TOKEN=token(role="admin"))
    done = cli("queue", "configure", "q", "leasetime=5")
    assert (done.status, done.err) == (2, "queend: unknown option 'leasetime'\n        leaseTime?\n")
    done = cli("queue", "configure", "q", "x=5")
    assert done.status == 2 and "options are leaseTime, retryLimit," in done.err
    assert cli("queue", "show", "q").status == 4, "nothing was made"


@contextmanager
def json_server(body: bytes) -> Iterator[str]:
    """The address of an HTTP server that answers every request with this body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("body", [b'"text"', b"5", b"[1]"])
def test_a_server_of_another_kind_is_told_in_one_sentence(tmp_path, body):
    with json_server(body) as url:
        for words in [*CALLS, "status", "erase q --id x --yes", f"message retry {MESSAGE}"]:
            done = Cli(url, tmp_path)(*words.split())
            assert done.status == 4, (words, done)
            assert f"queend: {url} is not a queend server, or another version of queend\n" in done.err, words
        with pytest.raises((LookupError, TypeError, AttributeError)):
            Cli(url, tmp_path)("queue", "show", "q", LOG_LEVEL="debug")


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b"", b'[{"status":"queued"},{"status":"queued"}]'])
def test_what_was_not_answered_one_by_one_was_not_done(tmp_path, body):
    with json_server(body) as url:
        for words in ("push q 1", f"ack {MESSAGE}", "queue configure q leaseTime=5 -o json", "bench -s 1"):
            done = Cli(url, tmp_path)(*words.split())
            assert done.status == 4 and "is not a queend server" in done.err, (words, done)


# The command with ... where the empty word stands: what is told to be empty.
EMPTY_WORDS = {
    "queue show ...": "the argument NAME", "queue configure ...": "the argument NAME",
    "queue pause ...": "the argument NAMES", "queue resume q ...": "the argument NAMES",
    "queue delete ... --yes": "the argument NAMES", "group list --queue ...": "--queue",
    "group show ...": "the argument NAME", "group show g --queue ...": "--queue",
    "group pause ...": "the argument NAME",
    "group seek g ... --end --yes": "the argument QUEUE", "export ...": "the argument NAMES",
    "bench ...": "the argument QUEUE", "push ... 1": "the argument QUEUE", "push q 1 -p ...": "--partition",
    "push q 1 --transaction-id ...": "--transaction-id", "pop ...": "the argument QUEUE", "pop q -g ...": "--group",
    "pop q -p ...": "--partition", f"ack {MESSAGE} -g ...": "--group", "tail ...": "the argument QUEUE",
    "message list ...": "the argument QUEUE", "message list q -p ...": "--partition",
    "message list q --from ...": "--from", "message search ... x": "the argument QUEUE",
    f"message dlq {MESSAGE} -g ...": "--group", "dlq list ...": "the argument QUEUE", "dlq list q -g ...": "--group",
    "dlq redrive q --from ... --yes": "--from", "dlq purge q --from ... --yes": "--from",
    f"dlq edit {MESSAGE} 1 -g ...": "--group", "erase q --id ... --yes": "--id",
    "erase ... --id x --yes": "the argument QUEUE", "trace named ...": "the argument NAME",
    "context show ...": "the argument NAME",
    "context add ... http://h": "the argument NAME",
}


@pytest.mark.parametrize("words", EMPTY_WORDS)
def test_an_empty_name_is_refused_before_a_server_is_asked(tmp_path, words):
    done = Cli("http://127.0.0.1:1", tmp_path)(*("" if word == "..." else word for word in words.split()))
    assert (done.status, done.out) == (2, "") and done.err.startswith(f"queend: {EMPTY_WORDS[words]} is empty\n")


def test_what_may_be_empty_is_taken(cli, client):
    assert cli.ok("push", "texts", "--text", "").out == "1 stored\n"
    assert cli.ok("pop", "texts", "--auto-ack", "--payload").out == '""\n'
    cli.ok("queue", "configure", "texts", "--namespace", "")


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS if hasattr(Commands()[name], "commands"))])
def test_a_group_without_a_command_prints_its_help_line_by_line(tmp_path, words):
    cli = Cli(None, tmp_path)
    done = cli(*words)
    assert (done.status, done.out) == (2, "") and "\\n" not in done.err
    assert done.err == cli.ok(*words, "--help").out and len(done.err.splitlines()) > 8
