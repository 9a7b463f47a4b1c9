"""Prints docs/cli.md, made of the help texts of the commands. A test compares the two."""
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

`queend` runs the daemon and manages a running server. `make run` puts the command into the path; in a checkout it is
`bin/queend`.

```
queend push orders '{"n":1}'
queend queue list
queend pop orders --ack
queend tail -f orders
```

## Which server

The first of these that is set decides:

1. `--url`
2. the saved server (`queend context`) that `--context` names
3. `QUEEND_URL`
4. the saved server that `QUEEND_CONTEXT` names
5. the current context (`queend context use`)
6. `http://127.0.0.1:6632`

`--ca` is a file with CA certificates for https. `--cert` is a file with your certificate and its private key, for
servers that [ask for one](production.md#client-certificates). `--timeout` limits the wait for an answer; the default is
30s. These options may come before or after the command. For the jobs of `queend spark`, `--context` must come before
the command. The commands work with any server of the protocol; if the server lacks a route, the command says so.

The token comes from the first of `--token-file`, the saved server that `--context` names, `QUEEND_TOKEN`, the file that
`QUEEND_TOKEN_FILE` names, and the saved server. No option takes the token itself, because other users of the machine
could read it in the list of processes. A saved server has its token, and the names of the files of `--token-file`,
`--ca` and `--cert`. The token and the certificate of a saved server are shown only to that server. Saved servers are in
`contexts.json`, in the directory `queend` of `XDG_CONFIG_HOME` (default `~/.config`). The file must be readable by its
owner only; otherwise it is refused.

## Completion

```
eval "$(queend completion bash)"
eval "$(queend completion zsh)"
queend completion fish | source
```

Commands, options, and names of queues, groups and saved servers are completed. Names come from the server that the
command would use, according to the options of the line (`--url`, `--context`, `--token-file`, `--ca`, `--cert`) and the
environment. If the server does not answer within one second, no names are offered. The same holds if one of these
options contains a `$` or cannot be read. Names with characters other than ASCII letters, digits and `_ . / @ + -` are
left out, because a shell might run a part of such a name as a command. Type these names in quotes.

## Durations

Options with a DURATION take numbers with units: `500ms`, `30s`, `5m`, `1h30m`, `7d`. A number without a unit counts
seconds. Output has the same form. `queend queue configure` also takes durations for options that are times, like
`leaseTime=5m`. The jobs of `queend spark` also take Spark's words, like `"5 minutes"`.

## Output

Lists take `-o`: `table` (aligned columns), `wide` (a table with all columns), `json` (one array), `ndjson` (one object
per line), `names` (one name per line). At a terminal, a table leaves out columns that do not fit, the least important
ones first; a line below it names them. Names and numbers are never cut or wrapped. Texts like errors and payloads are
wrapped, except with `-o wide`. If the most important columns do not fit either, each row is printed as a block, one
line per column. A file or a program gets all columns. An empty list prints a note on standard error as a
table, `[]` as `json`, and nothing in the other formats. Results go to standard output; questions, hints and progress go
to standard error. In tables and names, control characters are escaped; JSON contains every name unchanged.
Tables show consumers that name no group as `(without a group)`. In JSON, with `-o names` and as an argument, this group
is `__QUEUE_MODE__`.

Lists, the commands `show`, `queend message search`, `queend dlq errors`, `queend status` and `queend doctor` take
`--watch`: the result is printed again every two seconds, or after each `--interval`, until Ctrl-C, which ends the
command with status 0. A terminal is redrawn in place. Otherwise the
results follow each other, with an empty line and the time of the server between them; `json`, `ndjson` and `names` have
neither. If the first request fails, the command fails. Later on, a server that does not answer is waited for, and the
command says so. `queend top` is redrawn in the same way.

Commands that delete data ask for confirmation. `--yes` skips the question. Without a terminal and without `--yes`, the
command is refused. `--dry-run` prints what would change, with counts.

| status | meaning |
|---|---|
| 0 | success |
| 1 | the server refused the request, or the command failed |
| 2 | wrong arguments or settings; nothing was done |
| 3 | the counts of both databases differ (`import-queen`) |
| 4 | not found: the object, the route, or a server of the protocol at this address |
| 5 | `pop` found no message |
| 6 | no server, no answer, or the server is unavailable |
| 7 | the token is missing, invalid, or lacks the right |
| 8 | the server executed the command, or a part of it, but standard output could not be written |
| 130 | interrupted with Ctrl-C |
| 141 | the reader of standard output closed it |
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
        lines += ["", "Also takes the options of [Which server](#which-server)."]
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
