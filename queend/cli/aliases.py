"""Command names of other tools, and our names for them."""
from __future__ import annotations

import re
from typing import Any

COMMANDS = {
    "push": "pub publish produce send put add enqueue",
    "pop": "sub subscribe consume consumer get receive next dequeue",
    "tail -f": "cat watch follow",
    "queue list": "ls list topic topics stream streams list_queues",
    "queue configure": "create declare new configure",
    "queue clear": "purge clear",
    "queue delete": "rm delete remove",
    "queue pause": "pause",
    "queue resume": "resume",
    "group list": "lag consumers",
    "message search": "search find grep",
    "message list": "view peek browse show",
    "lease list": "leases inflight in-flight unacked",
    "timer list": "timers reminders",
    "dlq redrive": "retry redrive requeue",
    "erase": "forget anonymize anonymise shred wipe scrub",
    "status": "health info ping server overview",
    "top": "monitor dashboard stats",
    "doctor": "check diagnose",
    "serve": "start run daemon",
    "context add": "login connect",
}
# Verbs after a noun that has such a command.
VERBS = {
    "show": "info describe get view inspect", "list": "ls report all",
    "configure": "create add declare edit set make new",
    "delete": "rm remove drop destroy del", "remove": "rm delete drop", "clear": "purge empty truncate",
    "purge": "clear delete empty", "redrive": "retry replay requeue", "seek": "move reset offset",
    "resume": "unpause continue start", "pause": "stop suspend", "search": "find grep", "use": "select switch",
    "add": "save create new", "extend": "renew prolong", "release": "free unlock end expire return",
    "errors": "summary stats groups", "schedule": "create add set", "cancel": "delete remove rm",
}
OPTIONS = {
    "choose the output format with -o: table, wide, json, ndjson or names": "--json --format --names -J",
    "choose the server with --url": "--server -s --host --port -b --broker --addr",
    "pass the token with QUEEND_TOKEN, --token-file or a context": "--token --password --user -u --creds",
    "pass the name of the queue as an argument": "--topic -t --queue -q --stream",
    "set the number with -n": "--count -c --max --num",
    "set the partition with -p": "--key -k",
}
COMMAND, OPTION = re.compile(r"No such command '(.*)'\."), re.compile(r"No such option: (-\S+)")


def hint(message: str, ctx: Any) -> str:
    """Returns a sentence with the command that was probably meant; empty if there is no guess."""
    if found := COMMAND.fullmatch(message):
        here = getattr(getattr(ctx, "command", None), "commands", {})
        if getattr(ctx, "parent", None) is None:
            return "".join(f"Did you mean `queend {name}`?" for name in _named(COMMANDS, found[1]))
        verbs = [verb for verb in _named(VERBS, found[1]) if verb in here]
        if verbs:
            return f"Did you mean `queend {ctx.info_name} {verbs[0]}`?"
        return f"Commands: {', '.join(here)}." if here else ""
    if found := OPTION.fullmatch(message):
        if habit := "".join(f"{text[0].upper()}{text[1:]}." for text in _named(OPTIONS, found[1])):
            return habit
        parameters = getattr(getattr(ctx, "command", None), "params", ())
        if any(one.param_type_name == "argument" for one in parameters):      # `message search q -77`
            return "Put values that start with a dash after `--`."
    return ""


def _named(table: dict[str, str], word: str) -> list[str]:
    return [name for name, words in table.items() if word.lower() in words.split()]
