"""queend completion, in the shells themselves."""
from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.wait import until


@pytest.fixture
def home(cli, tmp_path) -> Path:
    """A folder with the command in it, as it stands in the path."""
    command = tmp_path / "bin" / "queend"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -m queend \"$@\"\n")
    command.chmod(0o755)
    return tmp_path


def asked(shell: str, cli, home: Path, line: str) -> list[str]:
    """What the shell offers behind a line."""
    script = home / f"completion.{shell}"
    script.write_text(cli.ok("completion", shell).out)
    environment = {**cli.clean(), "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": str(home)}
    words = line.split(" ")
    if shell == "bash":
        program = (f"source {script}; COMP_WORDS=({' '.join(words[:-1])} {shlex.quote(words[-1])});"
                   f" COMP_CWORD={len(words) - 1}; _queend_completion queend; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    elif shell == "zsh":      # its function, with what zsh shows them with replaced by one that prints
        program = ("compdef() { :; }; _arguments() { print -r -- $@ | grep -oE '\"[^\" ]+\"'; };"
                   f" source {script}; words=({' '.join(words[:-1])} {shlex.quote(words[-1])});"
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
    # names that do not come at once are not waited for
    until(lambda: asked(shell, cli, home, f"queend queue show completed.{shell}") == [
        f"completed.{shell}.one", f"completed.{shell}.two"], "names are completed")


def test_a_server_that_is_not_there_completes_nothing_and_says_nothing(cli):
    done = cli.process("queue", "show", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done.communicate()
    environment = {**cli.clean(), "QUEEND_URL": "http://127.0.0.1:9", "_QUEEND_COMPLETE": "complete_bash",
                   "COMP_WORDS": "queend queue show a", "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-m", "queend"], env=environment, capture_output=True, text=True, cwd="/")
    assert done.stdout.strip() == "" and done.stderr == ""
    assert cli("completion", "tcsh").status == 2
