"""The options of a queue, declared once: configure checks by them, and a queue's page shows them. tools/options.py
makes sql/function/options.sql and docs/queue-options.md of them."""
from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

LARGEST = 2**31 - 1
PRIORITY_MOST = 1_000_000
TRUTH = {True: True, False: False, "true": True, "false": False}
BACKOFF = {"oneOf": [
    {"type": "array", "minItems": 1, "maxItems": 32, "items": {"type": "integer", "minimum": 0, "maximum": LARGEST}},
    {"type": "object", "required": ["type", "initial"], "properties": {
        "type": {"const": "exponential"}, "initial": {"type": "integer", "minimum": 1, "maximum": LARGEST},
        "multiplier": {"type": "number", "minimum": 1, "maximum": 1000},
        "max": {"type": "integer", "minimum": 1, "maximum": LARGEST},
        "jitter": {"type": "number", "minimum": 0, "maximum": 1}}}]}


class BadOption(ValueError):
    """An invalid option; the message names it and says what is allowed."""


@dataclass(frozen=True)
class Option:
    """One option. column: of queend.queues. least, most: bounds of a whole number. own: the reference lacks it, so
    configure returns it only if it was asked for."""

    name: str
    kind: Literal["whole", "flag", "backoff"]
    default: Any
    unit: str
    about: str
    column: str
    least: int = 0
    most: int = LARGEST
    own: bool = False

    def schema(self) -> dict[str, Any]:
        """Returns the schema of its value in OpenAPI."""
        if self.kind == "backoff":
            return BACKOFF
        return {"type": "boolean"} if self.kind == "flag" else {
            "type": "integer", "minimum": self.least, "maximum": self.most}

    def shape(self) -> dict[str, Any]:
        """Returns the schema of its value in answers."""
        return BACKOFF if self.kind == "backoff" else {"type": self.schema()["type"]}

    def read(self, given: Any) -> Any:
        """Returns the value sent, as its own type: numbers and booleans may come as text. Raises BadOption for anything
        else."""
        if self.kind == "backoff":
            return given          # queend.backoff_read checks its forms
        if self.kind == "flag":
            if not isinstance(given, (bool, str)) or given not in TRUTH:
                raise BadOption(f"options.{self.name} must be true or false")
            return TRUTH[given]
        if isinstance(given, str) and given.isascii() and given.removeprefix("-").isdigit() and len(given) < 20:
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, int) or not self.least <= given <= self.most:
            raise BadOption(f"options.{self.name} must be an integer from {self.least} to {self.most}")
        return given


def _whole(name: str, column: str, default: int, unit: str, about: str, least: int = 0, most: int = LARGEST,
           own: bool = False) -> Option:
    return Option(name, "whole", default, unit, about, column, least, most, own)


def _flag(name: str, column: str, about: str) -> Option:
    return Option(name, "flag", False, "", about, column)


OPTIONS: tuple[Option, ...] = (
    _whole("leaseTime", "lease_time", 300, "s",
           "how long a popped batch belongs to its consumer unless the pop says otherwise; 0 is 60 s"),
    _whole("retryLimit", "retry_limit", 3, "failures", "a batch that failed more often goes to the dead letters"),
    _whole("deliveryLimit", "delivery_limit", 20, "leases",
           "a message that was left by so many leases in a row that ran out, alone in the end, goes to the dead "
           "letters at the next; 0: never ([a message that ends its "
           "consumers](operations.md#a-message-that-ends-its-consumers))", own=True),
    _whole("retryDelay", "retry_delay", 1000, "ms",
           "the partition pauses so long after a failed batch; only if asked for, the default is no pause"),
    Option("retryBackoff", "backoff", None, "ms", "pauses by the number of the retry: a list of them, or an "
                                                  "exponential rule; goes before `retryDelay` ([delays](delays.md))",
           "retry_backoff", own=True), _whole(
               "delayedProcessing", "delayed_processing", 0, "s",
               "a message is delivered no earlier than so long after it was stored"),
    _whole("windowBuffer", "window_buffer", 0, "s",
           "nothing of a partition is delivered until it was quiet for so long, or its oldest message that was not "
           "delivered yet is five times as old"),
    _whole("maxSize", "max_size", 0, "messages",
           "what the queue holds at most, stored and not consumed by all groups; 0: no bound"),
    _whole("ttl", "ttl", 3600, "s",
           "older messages are not delivered, and are removed; only if asked for, the default is no bound"),
    _whole("rateLimit", "rate_limit", 0, "messages",
           "a consumer group is delivered so many messages of a partition in a `ratePeriod`; 0: no bound "
           "([rates](delays.md#rates))", most=1_000_000, own=True),
    _whole("ratePeriod", "rate_period", 1, "s", "the time `rateLimit`, `groupRateLimit` and `queueRateLimit` count for",
           1, 86_400 * 366, own=True),
    _whole("rateBurst", "rate_burst", 0, "messages",
           "how many of them at once, after a rest; 0: as many as `rateLimit`", most=1_000_000, own=True),
    _whole("groupRateLimit", "group_rate_limit", 0, "messages",
           "a consumer group is delivered so many messages of all partitions together in a `ratePeriod`; 0: no bound "
           "([rates](delays.md#rates-over-all-partitions))", most=1_000_000, own=True),
    _whole("groupRateBurst", "group_rate_burst", 0, "messages",
           "how many of them at once, after a rest; 0: as many as `groupRateLimit`", most=1_000_000, own=True),
    _whole("queueRateLimit", "queue_rate_limit", 0, "messages",
           "the same for all consumer groups together; 0: no bound", most=1_000_000, own=True),
    _whole("queueRateBurst", "queue_rate_burst", 0, "messages",
           "how many of them at once, after a rest; 0: as many as `queueRateLimit`", most=1_000_000, own=True),
    _whole("priority", "priority", 0, "",
           "pops of a namespace or task take from the queue of the highest priority first", -PRIORITY_MOST,
           PRIORITY_MOST),
    _flag("deadLetterQueue", "dead_letter_queue", "shown only: dead letters are kept in any case"),
    _flag("dlqAfterMaxRetries", "dlq_after_max_retries",
          "shown only: what used up its retries goes to the dead letters in any case"),
    _flag("retentionEnabled", "retention_enabled", "whether the next two count"),
    _whole("retentionSeconds", "retention_seconds", 0, "s", "older messages are removed, consumed or not; 0: never"),
    _whole("completedRetentionSeconds", "completed_retention_seconds", 0, "s",
           "older messages that every group has consumed are removed; 0: never"),
    _whole("maxWaitTimeSeconds", "max_wait_time_seconds", 0, "s",
           "older messages that some group has not consumed are removed; 0: never"),
    _flag("encryptionEnabled", "encryption_enabled",
          "payloads are sealed; `true` turns it on, and only `\"encryption\": \"off\"` turns it off "
          "([encryption](encryption.md))"),)
BY_NAME = {option.name: option for option in OPTIONS}
SWITCHED, SWITCH = "encryptionEnabled", "encryption"       # "on" or "off": the only name that turns encryption off


def checked(value: Any) -> dict[str, Any]:
    """Returns the known options among those sent, each of its own type; null: back to the default. Raises BadOption
    naming the invalid one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadOption("options must be an object")
    if SWITCH in value and value[SWITCH] not in ("on", "off"):
        raise BadOption(f'options.{SWITCH} must be "on" or "off"')
    return {name: given if given is None or name == SWITCH else BY_NAME[name].read(given)
            for name, given in value.items() if name in BY_NAME or name == SWITCH}


def shown(row: Any) -> dict[str, Any]:
    """Returns every option of a queue: value, effective value (null: no effect), unit, default and whether it was asked
    for. row: of queend.queues, with `asked`, with `backoff` as it was configured, and with `in_force`
    (queend.options_in_force)."""
    return {option.name: {"value": getattr(row, "backoff" if option.kind == "backoff" else option.column),
                          "inForce": row.in_force[option.name], "unit": option.unit, "default": option.default,
                          "asked": option.name in row.asked}
            for option in OPTIONS}


def sql() -> str:
    """Returns sql/function/options.sql."""
    rows = [f"        ('{option.name}', '{option.column}', '{json.dumps(option.default)}', "
            f"{str(not option.own).lower()}, "
            f"{f'{option.least}, {option.most}' if option.kind == 'whole' else 'NULL, NULL'})"
            for option in OPTIONS if option.name != SWITCHED]
    return SQL_HEAD + ",\n".join(rows) + ")\n        AS v (name, col, otherwise, shown, low, high)\n$$;\n"


SQL_HEAD = """\
-- The options of a queue: made by tools/options.py of queend/control/options.py, the one place to change.

-- Each option but encryptionEnabled, which has rules of its own (configure): its column of queend.queues, its default,
-- whether configure answers it though it was not asked for, and of a whole number the least and the most.
CREATE OR REPLACE FUNCTION queend.queue_options()
RETURNS TABLE (name text, col text, otherwise jsonb, shown boolean, low int, high int)
LANGUAGE sql IMMUTABLE AS $$
    SELECT v.name, v.col, v.otherwise::jsonb, v.shown, v.low, v.high FROM (VALUES
"""


def document() -> str:
    """Returns docs/queue-options.md."""
    lines = [HEAD]
    for option in OPTIONS:
        default = "" if option.default is None else json.dumps(option.default)
        plain = option.kind != "whole" or (option.least, option.most) == (0, LARGEST)
        span = "" if plain else f" From {option.least} to {option.most}."
        lines.append(f"| `{option.name}` | {option.unit} | {default} | {option.about}.{span} |")
    return "\n".join(lines) + "\n"


HEAD = """# Options of a queue

`POST /api/v1/configure` sets them: `{"queue": "orders", "options": {"leaseTime": 60}}`. What a call does not name
stays as it is, the namespace and the task too; `null` returns an option to its default. `"mode": "replace"` beside
`options` returns everything that is not named to its default, as Queen MQ does with every call;
`QUEEND_CONFIGURE_REPLACES=true` makes that the rule. Encryption that is on is turned off by
`"options": {"encryption": "off"}` alone: the published clients send `encryptionEnabled: false` with every call.

`GET /api/v1/resources/queues/:queue`, `queend queue show`, the dashboard and `queen.queue_options_v1` in SQL show each
option: the value that is kept (`value`), what it comes to now (`inForce`), its default, and whether it was set
(`asked`). `inForce` is null where the option has no effect: a `ttl` or `retryDelay` that nobody set, a bound of 0, a
`retryDelay` beside a `retryBackoff`, a retention while `retentionEnabled` is false. A `leaseTime` of 0 is 60 in force,
a burst of 0 is its limit.

Whole numbers from 0 to 2147483647 unless said otherwise; numbers and booleans may come as text.

| option | unit | default | what it does |
|---|---|---|---|"""
