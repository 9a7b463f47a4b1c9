"""Options of the connector: names as they are spelled, defaults, and errors that name the option."""
from __future__ import annotations

import difflib
import logging
import os
import re
import ssl
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..duration import milliseconds

MIB = 1 << 20
HERE = "http://127.0.0.1:6632"
OWN_FILES = ('option "cert" must be a file with a certificate in PEM format, and "key" one with its private key, '
             'unless "cert" has both')
ITEMS_MOST = 10_000    # of one push (docs/push-formats.md)

LINK = ("url", "token", "tokenFile", "ca", "cert", "key", "timeoutMs", "retryTimeoutMs", "retries", "retryMs")
SINK = ("queue", "partition", "topic", "batchRows", "batchBytes", "requestsInFlight", "compression", "delivery",
        "queryId", "onError", "deadLetterQueue", "deadLetterPath", "valueFormat")
SOURCE = ("subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
          "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
          "startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
          "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders", "commitGroup", "fetchBytes",
          "valueFormat")
STREAMS_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitGroup")    # of SOURCE
FORMATS = ("json", "base64", "text")    # of valueFormat
# Options that Spark itself adds to ours.
FOREIGN = {"path", "checkpointlocation", "queryname", "outputmode", "header", "mergeschema", "provider", "owner",
           "location", "comment", "external", "is_managed_location", "table_type", "collation"}
# Beginnings of the names of Kafka's options, in lower case, and what a queue has instead. The first one counts.
GROUP = 'a queue is read without a consumer group; the option "commitGroup" names one whose lag shows the progress'
KAFKA = {"groupidprefix": GROUP, "kafka.group.id": GROUP,
         **dict.fromkeys(("kafka.security.", "kafka.sasl.", "kafka.ssl."),
                         'set the options "token" or "tokenFile", and for https "ca", "cert" and "key"'),
         "kafka.": 'a queue is read and written over HTTP; set the option "url" to the address of the daemon, like '
                   'http://HOST:6632'}
SPELLED = {"groupidprefix": "groupIdPrefix"}    # Spark tells names in lower case


class OptionError(ValueError):
    """An invalid option; the message names it and says what is allowed."""


class Options:
    """Reads options: each method returns one option, or refuses it by its name."""

    def __init__(self, values: Mapping[str, str]):
        self.values = {name.lower(): value for name, value in values.items()}
        known = {name.lower(): name for name in (*LINK, *SINK, *SOURCE)}
        for name in values:
            instead = next((one for begin, one in KAFKA.items() if name.lower().startswith(begin)), None)
            if instead:
                raise OptionError(f'there is no option "{SPELLED.get(name.lower(), name)}": {instead}')
            if name.lower() not in known and name.lower() not in FOREIGN and "." not in name:
                near = difflib.get_close_matches(name.lower(), known, 1)
                hint = f"; did you mean {known[near[0]]}?" if near else ""
                raise OptionError(f'there is no option "{name}"{hint}')

    def ineffective(self, names: Iterable[str], where: str) -> None:
        """Warns in the log of given options that have no effect. where: the end of the sentence."""
        for name in names:
            if name.lower() in self.values:
                logging.getLogger("queend.spark").warning('option "%s" has no effect %s', name, where)

    def dotted(self) -> list[str]:
        """Returns the given names with a dot: no option has one. A table keeps each of its options as `option.NAME`."""
        return [name for name in self.values if "." in name and not name.startswith("option.")]

    def text(self, name: str, default: str | None = None) -> str | None:
        return self.values.get(name.lower()) or default

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        value = self.values.get(name.lower())
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise OptionError(f'option "{name}" must be an integer from {low} to {high}, not "{value}"')
        return number

    def maybe(self, name: str, low: int = 0) -> int | None:
        return self.whole(name, 0, low, 2**63 - 1) if name.lower() in self.values else None

    def choice(self, name: str, *choices: str) -> str:
        """Returns the option; the first choice is the default."""
        value = self.values.get(name.lower(), choices[0]).lower()
        if value not in choices:
            raise OptionError(f'option "{name}" must be {" or ".join(choices)}, not "{value}"')
        return value

    def seconds(self, name: str, default: float) -> float:
        """Returns a duration. A number without a unit counts milliseconds, as for Kafka's source."""
        value = self.values.get(name.lower())
        if value is None:
            return default
        word = re.sub("min$", "m", value.strip().lower())
        found = milliseconds(f"{word}ms" if word.isdecimal() else word)
        if found is None:
            raise OptionError(f'option "{name}" must be a number with a unit, like 500ms, 30s, 15m or 1h, not '
                              f'"{value}"')
        return found / 1000

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, *(("true", "false") if default else ("false", "true"))) == "true"


def _address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:      # a bracket that is not closed, a port that is not a number
        return False


def trusting(ca: str | None, own: str | None) -> ssl.SSLContext:
    """Returns what an https connection needs. ca: certificates to trust, None: those of the system; own: the
    certificate that is shown to a server that asks for one, with its private key. Both are texts in PEM format."""
    context = ssl.create_default_context(cadata=ca)
    if own:    # OpenSSL takes a file; where it can, the key stays in memory
        file = os.fdopen(os.memfd_create("queend"), "w") if hasattr(os, "memfd_create") else None
        with file or tempfile.NamedTemporaryFile("w", suffix=".pem") as opened:
            opened.write(own)
            opened.flush()
            context.load_cert_chain(f"/proc/self/fd/{opened.fileno()}" if file else opened.name, password=lambda: "")
    return context


@dataclass(frozen=True)
class LinkSettings:
    """The daemons' addresses, and how long to retry. ca, own: as `trusting` takes them."""

    urls: tuple[str, ...]
    token: str | None = field(repr=False)
    ca: str | None
    own: str | None = field(repr=False)
    timeout: float
    patience: float
    retries: int | None
    pause: float

    @classmethod
    def of(cls, options: Options) -> LinkSettings:
        urls = tuple(one.strip().rstrip("/") for one in (options.text("url", HERE) or "").split(",")
                     if one.strip())
        for url in urls:
            if not _address(url):
                raise OptionError('option "url" must be a list of URLs like http://host:6632, separated by commas; '
                                  f'"{url}" is invalid')
        if not urls:
            raise OptionError('option "url" is empty')
        token, file = options.text("token"), options.text("tokenFile")
        if file:
            try:
                token = Path(file).read_text().strip()
            except OSError as error:
                raise OptionError(f'option "tokenFile": {error}') from None
        ca, own = options.text("ca"), options.text("cert")
        if ca:
            try:    # stores the text, not the path: executors have other files
                ca = Path(ca).read_text()
                trusting(ca, None)
            except (OSError, UnicodeDecodeError) as error:
                raise OptionError(f'option "ca" must be a file of CA certificates in PEM format: {error}') from None
        key = options.text("key")
        if key and not own:
            raise OptionError('option "key" requires the option "cert"')
        if own:
            try:
                files = [key, own] if key else [own]      # OpenSSL takes the first key
                own = "\n".join(Path(one).read_text(encoding="utf-8") for one in files)
                if not own.strip():
                    raise OSError("it is empty")
                trusting(None, own)
            except UnicodeDecodeError:
                raise OptionError(OWN_FILES) from None    # the error has the text of the key
            except OSError as error:
                raise OptionError(f"{OWN_FILES}: {error}") from None
        return cls(urls, token, ca, own, options.whole("timeoutMs", 60_000, 100, 3_600_000) / 1000,
                   options.whole("retryTimeoutMs", 120_000, 0, 86_400_000) / 1000, options.maybe("retries"),
                   options.whole("retryMs", 100, 1, 60_000) / 1000)


@dataclass(frozen=True)
class SinkSettings:
    """How rows become requests. format: one of FORMATS."""

    link: LinkSettings
    queue: str | None
    partition: str | None
    rows: int
    bytes: int
    lanes: int
    compression: str | None
    exactly_once: bool
    query: str
    dead_queue: str | None
    dead_path: str | None
    format: str

    @classmethod
    def of(cls, options: Options, streaming: bool = False) -> SinkSettings:
        options.ineffective([*(name for name in SOURCE if name not in SINK), *options.dotted()], "on a write")
        if streaming:
            options.ineffective(["queryId"], "on a stream: its query id is that of its checkpoint")
        queue, path = options.text("deadLetterQueue"), options.text("deadLetterPath")
        if options.choice("onError", "fail", "deadletter") == "fail":
            if queue or path:
                raise OptionError(f'option "{"deadLetterQueue" if queue else "deadLetterPath"}" requires '
                                  'onError=deadletter')
        elif bool(queue) == bool(path):
            raise OptionError('onError=deadletter requires the option "deadLetterQueue" or "deadLetterPath"')
        link = LinkSettings.of(options)
        compression = options.choice("compression", "auto", "zstd", "none")
        if compression == "auto":    # compression gains nothing on the local machine
            compression = "none" if all(urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
                                        for url in link.urls) else "zstd"
        return cls(link, options.text("queue") or options.text("topic"), options.text("partition"),
                   options.whole("batchRows", ITEMS_MOST, 1, ITEMS_MOST),
                   options.whole("batchBytes", 4 * MIB, 1024, 32 * MIB),
                   options.whole("requestsInFlight", 1, 1, 64), None if compression == "none" else compression,
                   options.choice("delivery", "exactly-once", "at-least-once") == "exactly-once",
                   options.text("queryId") or str(uuid.uuid4()), queue, path, options.choice("valueFormat", *FORMATS))


def named(values: Any) -> str:
    """Joins names in one line."""
    return ", ".join(map(str, values))
