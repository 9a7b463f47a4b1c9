"""queend completion, in the shells themselves."""
from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest
import typer
from support.forked import queend
from support.guides import blocks
from support.wait import PATIENCE, until
from typer.main import get_command


@pytest.fixture
def home(cli, tmp_path) -> Path:
    """A folder with the command in it, as it stands in the path."""
    command = tmp_path / "bin" / "queend"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec {shlex.join(queend())} \"$@\"\n")
    command.chmod(0o755)
    return tmp_path


def asked(shell: str, cli, home: Path, line: str) -> list[str]:
    """What the shell offers behind a line."""
    script = home / f"completion.{shell}"
    script.write_text(cli.ok("completion", shell).out)
    environment = {**cli.clean(), "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(home)}
    words = line.split(" ")
    if shell == "bash":
        program = (f"source {script}; COMP_WORDS=({shlex.join(words)});"
                   f" COMP_CWORD={len(words) - 1}; _queend_completion queend; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    elif shell == "zsh":      # its function, with what zsh shows them with replaced by one that prints
        program = ("compdef() { :; }; _arguments() { print -r -- $@ | grep -oE '\"[^\" ]+\"'; };"
                   f" source {script}; words=({shlex.join(words)});"
                   f" CURRENT={len(words)}; _queend_completion")
    else:
        program = f"source {script}; complete --do-complete {shlex.quote(line)}"
    shell_path = shutil.which(shell)
    assert shell_path, f"{shell} is missing: tools/system.sh tests"
    done = subprocess.run([shell_path, *(["-f"] if shell == "zsh" else ["--norc"] if shell == "bash" else ["-N"]),
                           "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    return [one.split("\t")[0].split(":")[0].strip('"') for one in done.stdout.splitlines() if one.strip()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_options_and_names_are_completed(cli, client, home, shell):
    client.push(f"completed.{shell}.one", 1)
    client.push(f"completed.{shell}.two", 1)
    assert asked(shell, cli, home, "queend que") == ["queue"]
    assert "pause" in asked(shell, cli, home, "queend queue p")
    assert "--dry-run" in asked(shell, cli, home, "queend queue delete --d")
    assert asked(shell, cli, home, "queend top --sort ba") == ["backlog"]
    assert asked(shell, cli, home, "queend lease re") == ["release"]
    assert asked(shell, cli, home, "queend dlq err") == ["errors"]
    assert asked(shell, cli, home, "queend lease list --sort i") == ["idle"]
    # names that do not come at once are not waited for
    until(lambda: asked(shell, cli, home, f"queend queue show completed.{shell}") == [
        f"completed.{shell}.one", f"completed.{shell}.two"], "names are completed")


@pytest.mark.parametrize(("shell", "before", "after"), [
    ("bash", "", "complete -p queend"),
    ("zsh", "autoload -Uz compinit; compinit -u -D", "print _queend_completion: $_comps[queend]"),
    ("fish", "", "complete --do-complete 'queend que' | string replace queue _queend_completion")])
def test_the_line_of_the_page_turns_it_on(cli, home, shell, before, after):
    """docs/cli.md, without the files that the shell reads at its start."""
    (block,) = (one for one in blocks("cli.md") if "eval" in one)
    (line,) = re.findall(rf".*queend completion {shell}.*", block)
    environment = {**cli.clean(), "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(home)}
    quiet = {"bash": "--norc", "zsh": "-f", "fish": "-N"}[shell]
    done = subprocess.run([shell, quiet, "-c", "\n".join([before, line, after])], env=environment, capture_output=True,
                          text=True, timeout=60)
    assert "_queend_completion" in done.stdout and done.stderr == "", done


def test_a_server_that_is_not_there_completes_nothing_and_says_nothing(cli):
    done = cli.process("queue", "show", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done.communicate()
    environment = {**cli.clean(), "QUEEND_URL": "http://127.0.0.1:9", "_QUEEND_COMPLETE": "complete_bash",
                   "COMP_WORDS": "queend queue show a", "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-m", "queend"], env=environment, capture_output=True, text=True, cwd="/")
    assert done.stdout.strip() == "" and done.stderr == ""
    assert cli("completion", "tcsh").status == 2


# How a shell starts that has read this script and completes as at a terminal of its own.
BEGIN = {
    "bash": ["--rcfile", "{home}/rc", "-i"],
    "zsh": ["-i"],
    "fish": ["--no-config", "-C", "source {home}/rc", "-i"],
}
RC = {
    "bash": "PS1='ready> '; bind 'set bell-style none'\n",
    "zsh": "PS1='ready> '; autoload -Uz compinit; compinit -u -D\n",
    "fish": "function fish_prompt; echo -n 'ready> '; end\n",
}


class Terminal:
    """An interactive shell at a terminal."""

    def __init__(self, shell: str, home: Path, environment: dict[str, str]):
        self.shown = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir("/")
            os.execvpe(shell, [shell, *(word.format(home=home) for word in BEGIN[shell])], environment)

    def types(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def shows(self, text: str, again: str = "") -> None:
        """Waits until the terminal shows a text. again: keys that are typed each second meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.terminal], [], [], 1.0)[0]:
                self.shown += os.read(self.terminal, 1 << 16).decode(errors="replace")
            elif again:
                self.types(again)
        self.shown = self.shown.partition(text)[2]

    def close(self) -> None:
        os.close(self.terminal)      # the shell gets SIGHUP
        os.waitpid(self.pid, 0)


def hostile(mark: Path) -> list[str]:
    """Names that a shell could run, all of which begin with zz."""
    return [f"zz\\$(touch {mark})", f"zz$(touch {mark})", f"zz`touch {mark}`", f"zz\\`touch {mark}\\`",
            f"zz;touch {mark};", f"zz\"$(touch {mark})\"", f"zz'$(touch {mark})'", f"zz'\"; touch {mark}; \"'",
            f"zz)(touch {mark})", f"zz\ntouch {mark}\n", f"zz\r touch {mark}\r", f"zz (e:'touch {mark}':)",
            f"zz${{(e):-\\$(touch {mark})}}", f"zz:(touch {mark})", "zz\u202eevil", "zz\x1b[31mevil", "zz\x9b31mevil"]


@pytest.mark.parametrize("shell", list(BEGIN))
def test_a_name_is_never_run_as_a_command(cli, client, home, shell):
    mark = home / "ran"
    for name in hostile(mark):
        client.post("/api/v1/configure", {"queue": name, "options": {}})
    for name in ("zz.safe.one", "zz.safe.two"):
        client.post("/api/v1/configure", {"queue": name, "options": {}})
    for name in ("rc", ".zshrc"):
        (home / name).write_text(RC[shell] + cli.ok("completion", shell).out)
    terminal = Terminal(shell, home, {**cli.clean(), "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(home),
                                      "ZDOTDIR": str(home), "TERM": "xterm"})
    try:
        terminal.shows("ready> ")
        terminal.types("queend pop zz\t")
        terminal.shows(".safe.", again="\t")      # a server that answers late completes nothing
        for name in ("one", "two"):
            terminal.shows(name, again="\t")
        assert "evil" not in terminal.shown
    finally:
        terminal.close()
    assert not mark.exists()


def test_names_that_are_offered_are_of_a_safe_alphabet(cli, client, home):
    for name in hostile(home / "ran") + ["aa-b_c.d/e@f+1", "-aa"]:
        client.post("/api/v1/configure", {"queue": name, "options": {}})
    from queend.cli import app
    from queend.cli.completion import contexts
    from queend.cli.server_names import queues

    context = typer.Context(get_command(app))
    saved = home / "queend/contexts.json"
    saved.parent.mkdir()
    saved.write_text(json.dumps({"contexts": dict.fromkeys([*hostile(home), "zz.one"])}))
    saved.chmod(0o600)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("QUEEND_URL", cli.environment["QUEEND_URL"])
        patched.setenv("XDG_CONFIG_HOME", str(home))
        patched.setattr("queend.cli.server_names.ANSWER_S", PATIENCE)
        assert queues(context, "aa") == ["aa-b_c.d/e@f+1"] and queues(context, "-") == []
        assert [name for name in queues(context, "zz") if "safe" not in name] == [] and contexts("") == ["zz.one"]


LINES = ["queend --url {url} queue show named.", "queend --url={url} queue show named.",
         "queend queue show --url {url} named.", "queend --url http://127.0.0.1:9 queue delete --url {url} named.",
         "queend --context there queue delete named.", "queend pop --context=there named."]
ELSEWHERE = ["queend --url http://127.0.0.1:9 queue show named.", "queend --context gone queue show named.",
             "queend queue show --wrong --url {url} named.", "queend --url $ADDRESS queue show named.",
             "queend --token-file /nowhere queue show named."]


@pytest.mark.parametrize("shell", list(BEGIN))
def test_names_come_from_the_server_that_the_line_names(cli, client, daemon, home, shell):
    """The server of QUEEND_URL answers nothing in the first part; in the second it has queues that are not meant."""
    for name in ("named.one", "named.two"):
        client.post("/api/v1/configure", {"queue": name, "options": {}})
    cli.ok("context", "add", "there", daemon.url)
    cli.environment["QUEEND_URL"] = "http://127.0.0.1:9"
    for line in LINES:
        line = line.format(url=daemon.url)
        # names that do not come at once are not waited for
        until(lambda line=line: asked_live(shell, cli, home, line) == ["named.one", "named.two"], line)
    cli.environment["QUEEND_URL"] = daemon.url
    for line in ELSEWHERE:
        assert not [name for name in asked_live(shell, cli, home, line.format(url=daemon.url)) if "named" in name], line


def asked_live(shell: str, cli, home: Path, line: str) -> list[str]:
    """What the shell offers behind a line of one command, taken apart as it takes lines apart at a terminal."""
    if shell != "bash":
        return asked(shell, cli, home, line)
    script = home / "completion.bash"
    script.write_text(cli.ok("completion", "bash").out + f"""
offered() {{ _queend_completion queend; printf '%s\\n' "${{COMPREPLY[@]}}" > {home}/offered; }}
complete -F offered queend
PS1='ready> '
""")
    (home / "offered").unlink(missing_ok=True)
    environment = {**cli.clean(), "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(home), "TERM": "xterm"}
    (home / "rc").write_text(script.read_text())
    terminal = Terminal("bash", home, environment)
    try:
        terminal.shows("ready> ")
        terminal.types(f"{line}\t")
        until(lambda: (home / "offered").exists() and (home / "offered").read_text().endswith("\n"), "bash completes")
        return [name for name in (home / "offered").read_text().splitlines() if name]
    finally:
        terminal.close()


@pytest.mark.parametrize("path", ["queue show", "group show"])
def test_a_server_that_never_ends_its_answer_holds_no_shell(cli, path):
    """It sends an octet whenever the last one was taken, for as long as there is a reader."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def drip() -> None:
            with suppress(OSError):
                taken, _ = listener.accept()
                with taken:
                    taken.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    while not ended.wait(0.1):
                        taken.sendall(b" ")

        ended = Event()
        thread = Thread(target=drip, daemon=True)
        thread.start()
        environment = {**cli.clean(), "QUEEND_URL": f"http://127.0.0.1:{listener.getsockname()[1]}",
                       "_QUEEND_COMPLETE": "complete_bash", "COMP_WORDS": f"queend {path} a", "COMP_CWORD": "3"}
        done = subprocess.run([sys.executable, "-m", "queend"], env=environment, capture_output=True, text=True,
                              cwd="/", timeout=PATIENCE)
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)      # wakes an accept that nothing came for
        thread.join()
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
