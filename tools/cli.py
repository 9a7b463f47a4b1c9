"""Prints docs/cli.md: what the commands themselves say. A test compares the two."""
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer import Context
from typer.main import get_command

from queend.cli import SECTIONS, app
from queend.cli.remote import SHARED

HEAD = """# The command line

`queend` runs the daemon, and talks to one that runs. `make run` puts it into the path; in a checkout it is
`bin/queend`.

```
queend push orders '{"n":1}'
queend queue list
queend pop orders --ack
queend tail -f orders
```

## Which server

`--url`, else the saved server (`queend context`) that `--context` names, else `QUEEND_URL`, else the saved server that
`QUEEND_CONTEXT` names, else the one that was chosen, else `http://127.0.0.1:6632`. `--ca` is a file of certificates for
https. An answer is waited for 30 seconds, or as `--timeout` says. These options may stand before the command or behind
it; `--context` of a job of `queend spark` stands before it. Any server of the protocol will do; where it lacks a route,
the command says so.

A token comes from `--token-file`, else from the saved server that `--context` names, else from `QUEEND_TOKEN`, else
from the file `QUEEND_TOKEN_FILE` names, else from the saved server. The token of a saved server goes to that server and
to no other. There is no option for the token itself: others on the machine could read it. Saved servers are in
`contexts.json`, in the folder `queend` of `XDG_CONFIG_HOME` (`~/.config` unless it is set). Only its owner may read the
file; one that others may read is refused.

## Completion

```
eval "$(queend completion bash)"
eval "$(queend completion zsh)"
queend completion fish | source
```

Commands, options, and names of queues, groups and saved servers are completed. Names come from the server that the
command would ask, by the options of the line (`--url`, `--context`, `--token-file`, `--ca`) and the environment, if the
whole answer is there within a second. Where these options hold a `$` or cannot be read, no names are offered. Names
with signs other than ASCII letters, digits and `_ . / @ + -` are left out: a shell might run a part of such a name as a
command. Type these names in quotes.

## What is printed

Lists take `-o`: `table` (aligned for people), `json` (one array), `ndjson` (one object a line), `names` (one name a
line). Of an empty one, the table says so on standard error; `json` is `[]`, the others are empty. Answers go to
standard output, questions, hints and progress to standard error. In tables and names, characters that would move the
cursor are spelled out; JSON has every name as it is.

What destroys something asks first. `--yes` answers; without a terminal and without `--yes` it is refused. `--dry-run`
says what would be done, with counts.

| status | meaning |
|---|---|
| 0 | done |
| 1 | the server refused, or it failed |
| 2 | wrong arguments or settings; nothing was done |
| 3 | counts of both sides differ (`import-queen`) |
| 4 | there is no such thing, the server has no such route, or is no server of the protocol |
| 5 | `pop` found no message |
| 6 | no server, no answer, or it cannot serve now |
| 7 | the token is missing, wrong, or may not do this |
| 130 | Ctrl-C |
| 141 | the reader of standard output has left |
"""


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if not children:
        yield name, command
        return
    for child in children.values():
        yield from commands(child, f"{name} {child.name}")


def described(name: str, command: Any) -> str:
    context = Context(command, info_name=name)
    shared = {f"--{option.replace('_', '-')}" for option in SHARED} | {"--help"}
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"### {name}\n", (command.help or "").replace("\n    ", "\n").strip(), "", "```", f"{name} {usage}", "```"]
    records = [record for parameter in command.params if not shared.intersection(parameter.opts)
               and (record := parameter.get_help_record(context))]
    if records:
        lines += ["", "| | |", "|---|---|"]
        safe = [(word.replace("|", "\\|"), text.replace("|", "\\|")) for word, text in records]
        lines += [f"| `{word}` | {text} |" for word, text in safe]
    if shared.intersection(option for parameter in command.params for option in parameter.opts):
        lines += ["", "And [which server](#which-server)."]
    return "\n".join(lines) + "\n"


def document() -> str:
    shutil.get_terminal_size = lambda *_: (120, 40)      # type: ignore[assignment]
    root = get_command(app)
    parts = [HEAD]
    for heading, names in SECTIONS.items():
        parts.append(f"## {heading}\n")
        for name in names:
            parts += [described(*one) for one in commands(root.commands[name], f"queend {name}")]
    wrapped = runpy.run_path(str(Path(__file__).parent / "wrap.py"))["wrapped"]
    return wrapped("\n".join(parts).rstrip("\n") + "\n")


if __name__ == "__main__":
    print(document(), end="")
