"""Connection strings of libpq that users write: read as words, checked, and hidden from the log."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .. import log
from .messages import ConfigError

if TYPE_CHECKING:
    from .model import Settings


SECRETS = {"scram_client_key", "scram_server_key",
           *(one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults() if one.dispchar == b"*")}


def dsn_words(settings: Settings) -> dict[str, Any]:
    """Returns QUEEND_DSN, or DATABASE_URL, as words."""
    return words_of(settings.queend_dsn or settings.database_url,
                    "QUEEND_DSN" if settings.queend_dsn else "DATABASE_URL")


def words_of(dsn: str, name: str) -> dict[str, Any]:
    """Returns a connection string as words, and hides its secrets from the log and from errors from then on. name:
    where it comes from. Raises ConfigError if libpq cannot read it, or refuses a value of it."""
    try:
        words = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:      # libpq's text quotes what it could not read, which may be the password
        raise ConfigError(f"{name}: expected a connection string like `host=… user=…` or postgresql://…; write special "
                          "characters of a URI's password as %40") from None
    log.hide({word: str(value) for word, value in words.items() if value and (word in SECRETS or may_be_cut(dsn)
              or word == "port" and not str(value).replace(",", "").isdigit()) and word != "sslmode"})
    if problem := _unusable(words):
        raise ConfigError(f"{name}: {log.masked(problem)}")
    return words


def may_be_cut(dsn: str) -> bool:
    """Whether libpq may have read a part of the password as a host, a port or a database: a URI's `@` or `/` in it is
    not written as %40 or %2F, so that an `@` stands behind the one, or behind the `/`, at which libpq ended it."""
    scheme, mark, rest = dsn.partition("://")
    login, at, behind = rest.partition("@")
    return bool(mark) and "=" not in scheme and bool(at) and ("@" in behind or "/" in login)


def _unusable(words: dict[str, Any]) -> str:
    """Returns libpq's message about invalid values, whatever the server; empty if there is none. Asks libpq to connect
    to a place that cannot exist, because libpq checks the values first."""
    if words.get("service"):      # further values stand in a file
        return ""
    hosts = str(words.get("hostaddr") or words.get("host") or "").count(",") + 1
    nowhere = {**words, "hostaddr": None, "host": ",".join(["/dev/null/none"] * hosts)}
    tried = psycopg.pq.PGconn.connect_start(
        make_conninfo("", **{word: value for word, value in nowhere.items() if value is not None}).encode())
    text = tried.get_error_message().strip()      # a line for each host
    tried.finish()
    return "" if text.startswith("connection to server") else text.splitlines()[0]
