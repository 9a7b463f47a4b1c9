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
    {"type": "array", "title": "BackoffPauses", "minItems": 1, "maxItems": 32,
     "items": {"type": "integer", "minimum": 0, "maximum": LARGEST}},
    {"type": "object", "title": "ExponentialBackoff", "required": ["type", "initial"], "properties": {
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


def _flag(name: str, column: str, about: str, default: bool = False, own: bool = False) -> Option:
    return Option(name, "flag", default, "", about, column, own=own)


OPTIONS: tuple[Option, ...] = (
    _whole("leaseTime", "lease_time", 300, "s",
           "duration of a lease, unless the pop names another; 0: 60 s"),
    _whole("retryLimit", "retry_limit", 3, "failures", "a batch that fails more often becomes dead letters"),
    _whole("deliveryLimit", "delivery_limit", 20, "leases",
           "expired leases in a row that a message may have. If one more expires while the message is leased alone, it "
           "becomes a dead letter. 0: no limit ([a message that ends its "
           "consumers](recover.md#a-message-that-ends-its-consumers))", own=True),
    _whole("retryDelay", "retry_delay", 1000, "ms",
           "pause of the partition after a failed batch; applies only if the option was set"),
    Option("retryBackoff", "backoff", None, "ms", "pauses by number of the retry: a list, or an exponential rule; "
                                                  "takes precedence over `retryDelay` ([delays](delays.md))",
           "retry_backoff", own=True), _whole(
               "delayedProcessing", "delayed_processing", 0, "s",
               "minimum time between the push of a message and its delivery"),
    _whole("windowBuffer", "window_buffer", 0, "s",
           "delivery of a partition waits until no message was pushed to it for this time. It waits at most until the "
           "oldest undelivered message is five times as old"),
    _whole("maxSize", "max_size", 0, "messages",
           "maximum number of stored messages that at least one group has still to consume; 0: no limit"),
    _whole("ttl", "ttl", 3600, "s",
           "older messages are removed and not delivered; applies only if the option was set"),
    _whole("rateLimit", "rate_limit", 0, "messages",
           "messages of a partition that a consumer group receives per `ratePeriod`; 0: no limit "
           "([rates](delays.md#rates))", most=1_000_000, own=True),
    _whole("ratePeriod", "rate_period", 1, "s", "period of `rateLimit`, `groupRateLimit` and `queueRateLimit`",
           1, 86_400 * 366, own=True),
    _whole("rateBurst", "rate_burst", 0, "messages",
           "burst of `rateLimit`; 0: equal to `rateLimit`", most=1_000_000, own=True),
    _whole("groupRateLimit", "group_rate_limit", 0, "messages",
           "messages of all partitions that a consumer group receives per `ratePeriod`; 0: no limit "
           "([rates](delays.md#rates-over-all-partitions))", most=1_000_000, own=True),
    _whole("groupRateBurst", "group_rate_burst", 0, "messages",
           "burst of `groupRateLimit`; 0: equal to `groupRateLimit`", most=1_000_000, own=True),
    _whole("queueRateLimit", "queue_rate_limit", 0, "messages",
           "messages of all partitions that all consumer groups receive together per `ratePeriod`; 0: no "
           "limit", most=1_000_000, own=True),
    _whole("queueRateBurst", "queue_rate_burst", 0, "messages",
           "burst of `queueRateLimit`; 0: equal to `queueRateLimit`", most=1_000_000, own=True),
    _flag("ordered", "ordered",
          "messages without a partition keep their order, in `Default`. `false`: they are spread over "
          "`spreadPartitions` partitions and have no order "
          "([queues without order](partitions.md#queues-without-order))",
          True, own=True),
    _whole("spreadPartitions", "spread_partitions", 64, "partitions",
           "partitions `~00`, `~01`, … of a queue with `ordered: false`; at most so many of its messages are processed "
           "at once", 1, 1024, own=True),
    _whole("priority", "priority", 0, "",
           "priority of the queue for pops by namespace or task; higher values first", -PRIORITY_MOST,
           PRIORITY_MOST),
    _flag("deadLetterQueue", "dead_letter_queue", "stored and returned without effect: dead letters are always kept"),
    _flag("dlqAfterMaxRetries", "dlq_after_max_retries",
          "stored and returned without effect: messages without retries left always become dead letters"),
    _flag("retentionEnabled", "retention_enabled", "whether `retentionSeconds` and `completedRetentionSeconds` apply"),
    _whole("retentionSeconds", "retention_seconds", 0, "s",
           "older messages are removed, whether or not they are consumed; 0: off"),
    _whole("completedRetentionSeconds", "completed_retention_seconds", 0, "s",
           "older messages that every group has consumed are removed; 0: off"),
    _whole("maxWaitTimeSeconds", "max_wait_time_seconds", 0, "s",
           "older messages that some group has not consumed are removed; 0: off"),
    _flag("encryptionEnabled", "encryption_enabled",
          "payloads are encrypted; `true` turns encryption on, and only `\"encryption\": \"off\"` turns it off "
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

`POST /api/v1/configure` sets options: `{"queue": "orders", "options": {"leaseTime": 60}}`. Options that the request
does not name keep their values, and so do namespace and task. `null` resets an option to its default.

- **Reset the rest.** With `"mode": "replace"` next to `options`, options that are not named are reset, as in Queen MQ.
  `QUEEND_CONFIGURE_REPLACES=true` makes this the default.
- **Encryption off.** Only `"options": {"encryption": "off"}` turns encryption off, because the published clients send
  `encryptionEnabled: false` with every request.

Each option has four values: the stored one (`value`), the effective one (`inForce`), the default, and whether it was
set (`asked`). They are shown by `GET /api/v1/resources/queues/:queue`, `queend queue show`, the dashboard and, in SQL,
`queen.queue_options_v1`.

- `inForce` is null if the option has no effect. Examples are a `ttl` that was not set, a limit of 0, a `retryDelay`
  next to a `retryBackoff`, and a retention while `retentionEnabled` is false.
- A `leaseTime` of 0 has the effective value 60. A burst of 0 has the value of its limit.

Numbers are integers from 0 to 2147483647, unless the table says otherwise. Numbers and booleans may be sent as strings.

| option | unit | default | description |
|---|---|---|---|"""
