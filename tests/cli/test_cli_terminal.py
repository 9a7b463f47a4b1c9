"""What others wrote reaches a terminal without controls and without marks of direction."""
import ast
import http.server
import json
import threading
import unicodedata
from pathlib import Path

import pytest
from support.cli import Cli

from queend.cli.output import dump
from queend.cli.terminal import clean

ROOT = Path(__file__).resolve().parents[2]
EVIL = "a\x1b]0;title\x07b\x9b31mc\u202ed\u2066e\x7ff\rg\u2028h\u200ei"
SHOWN = r"a\u001b]0;title\u0007b\u009b31mc\u202ed\u2066e\u007ff\rg\u2028h\u200ei"


def test_every_sign_that_steers_a_terminal_is_spelled_out():
    for number in range(0x110000):
        sign = chr(number)
        steers = (unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp")
                  or unicodedata.bidirectional(sign) in ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))
        assert not steers or clean(sign).isascii() and clean(sign).isprintable(), hex(number)
    assert clean(EVIL) == SHOWN
    assert clean("مرحبا 日本\u3000語 é 👩\u200d💻") == "مرحبا 日本\u3000語 é 👩\u200d💻"


@pytest.mark.parametrize("indent", [None, 2])
def test_json_says_the_same_and_is_harmless(indent):
    value = {EVIL: [EVIL, "\U000e0041", "plain"]}
    text = dump(value, indent)
    assert json.loads(text) == value
    assert all(sign.isprintable() or sign == "\n" for sign in text)


class Evil(http.server.BaseHTTPRequestHandler):
    """Refuses everything with a text that steers terminals."""

    def do_GET(self):
        body = json.dumps({"error": EVIL}, ensure_ascii=False).encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        """Nothing is printed."""


def test_the_error_text_of_a_server(tmp_path):
    with http.server.HTTPServer(("127.0.0.1", 0), Evil) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status, shown = Cli(f"http://127.0.0.1:{server.server_port}", tmp_path).at_terminal("queue", "list")
        server.shutdown()
    assert status == 1 and SHOWN in shown


def test_names_and_payloads_of_a_daemon_and_of_saved_servers(cli, client):
    queue = "evil." + EVIL.replace("\u2028", "")
    shown = "evil." + SHOWN.replace("\\u2028", "")
    client.push(queue, {"text": EVIL}, partition="p\u202e")
    cli.ok("context", "add", EVIL, cli.environment["QUEEND_URL"])
    for words, expected in ((("queue", "list", "evil.*"), shown), (("queue", "list", "evil.*", "-o", "names"), shown),
                            (("queue", "list", "evil.*", "-o", "json"), shown),
                            (("pop", queue, "--payload"), SHOWN), (("context", "list"), SHOWN),
                            (("context", "list", "-o", "names"), SHOWN), (("queue", "show", queue), shown),
                            (("context", "use", EVIL + "x"), "there is no context"),
                            (("queue", "show", queue + "x"), "evil.")):
        done = cli(*words)
        assert expected in done.out + done.err, done
        assert all(sign.isprintable() or sign == "\n" for sign in done.out + done.err), done
    client.post("/api/v1/configure", {"queue": "evil.two", "options": {}})
    assert all(ord(sign) >= 32 or sign in "\r\n\x1b" for sign in cli.at_terminal("queue", "list", "evil.*")[1])


def test_names_and_numbers_stay_on_one_line_in_a_narrow_terminal(cli, client):
    names = ["narrow-payments-reconciliation-with-a-long-name", "narrow-orders"]
    for name in names:
        client.push(name, 1)
    shown = Cli(cli.environment["QUEEND_URL"], Path("/none"), COLUMNS="80").at_terminal("queue", "list", "narrow-*")[1]
    assert all(any(line.split()[:1] == [name] for line in shown.splitlines()) for name in names), shown


# Files that print a text of their own past `say` and `write`, or one whose parts were cleaned.
OWN = {"output.py": {"write"}, "table.py": {"write", "print"}, "watch.py": {"write"},
       "terminal.py": {"secho", "write"}, "serve.py": {"write"}, "tail.py": {"write"},
       "completion.py": {"echo"}, "__init__.py": {"echo"}, "config.py": {"print"}}


def test_no_command_prints_past_the_one_place():
    found = {}
    for file in sorted((ROOT / "queend/cli").glob("*.py")):
        calls = {node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                 for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)
                 and (isinstance(node.func, ast.Name) and node.func.id == "print"
                      or isinstance(node.func, ast.Attribute) and (
                          node.func.attr in ("echo", "secho", "print")
                          or ast.unparse(node.func) in ("sys.stdout.write", "sys.stderr.write")))}
        if calls - OWN.get(file.name, set()):
            found[file.name] = calls
    assert not found
