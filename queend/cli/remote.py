"""Common parts of commands that call a server: the server's address, messages about errors, exit statuses."""
from __future__ import annotations

import errno
import inspect
import os
import re
import sys
import typing
from collections.abc import Callable
from typing import Annotated, Any, Optional

import typer
from typer.models import OptionInfo

from .. import log
from ..duration import FORM, exact, milliseconds
from .client import Server, ServerError
from .completion import contexts
from .contexts import ContextError, chosen
from .terminal import clean, folded, say

Url = Annotated[Optional[str], typer.Option("--url", metavar="URL", help="URL of the server. Default: QUEEND_URL, else "
                "the current context, else http://127.0.0.1:6632.")]
Context = Annotated[Optional[str], typer.Option("--context", metavar="NAME", help="Saved server to use (`queend "
                    "context`).",
                                                    autocompletion=contexts)]
TokenFile = Annotated[Optional[str], typer.Option("--token-file", metavar="FILE", help="File with the token. Default: "
                      "QUEEND_TOKEN, else the token of the context.")]
CaFile = Annotated[Optional[str], typer.Option("--ca", metavar="FILE", help="CA certificates in PEM format, for "
                   "https.")]
CertFile = Annotated[Optional[str], typer.Option("--cert", metavar="FILE", help="Your certificate and its private key "
                     "in PEM format, for servers that ask for one.")]
Timeout = Annotated[Optional[str], typer.Option("--timeout", metavar="DURATION", help="Time to wait for an answer. "
                    "Default: 30s.")]
SHARED: dict[str, Any] = {"url": Url, "context": Context, "token_file": TokenFile, "ca": CaFile, "cert": CertFile,
                          "timeout": Timeout}
# parameters of commands with names or times, which are never empty
NAMES = frozenset(("name", "names", "queue", "partition", "group", "transaction_id", "from_", "to"))
INDENT = " " * len("queend: ")
SURROGATE = re.compile("[\ud800-\udfff]")      # how Python reads bytes of arguments that are not UTF-8
given: dict[str, Any] = {}      # those given before the command

# Exit statuses, as docs/cli.md lists them.
REFUSED, USAGE, DIFFERS, NOT_FOUND, NOTHING, UNREACHABLE, FORBIDDEN, UNWRITTEN = 1, 2, 3, 4, 5, 6, 7, 8
INTERRUPTED, CLOSED = 130, 141


class Stop(Exception):
    """The end of a command: a sentence, an optional hint, a status."""

    def __init__(self, text: str, status: int = REFUSED, hint: str = ""):
        self.text, self.status, self.hint = text, status, hint


class Foreign(Stop):
    """An answer was JSON, but not of the protocol's shape."""

    def __init__(self, url: str):
        super().__init__(f"{url} is not a queend server, or another version of queend", NOT_FOUND,
                         "set LOG_LEVEL=debug to print the traceback")


def seconds(text: str, option: str, least: float = 0.0, most: float | None = None) -> float:
    """Returns the duration that an option has, in seconds. Every option with a duration is read here."""
    read = milliseconds(text)
    if read is None:
        raise Stop(f"invalid duration {text!r} of {option}: expected {FORM}; a number without a unit counts seconds",
                   USAGE)
    if read < least * 1000 or most is not None and read > most * 1000:
        raise Stop(f"{option} {text} is too {'short' if read < least * 1000 else 'long'}: expected at least "
                   f"{exact(least)}" + ("" if most is None else f" and at most {exact(most)}"), USAGE)
    return read / 1000


def tell(text: str, hint: str = "") -> None:
    """Prints a sentence on standard error, and the hint below it."""
    say(*folded(f"queend: {log.masked(text)}", INDENT), err=True)
    if hint:
        say(*folded(f"{INDENT}{hint}", INDENT), err=True)


def given_values(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Refuses empty texts among the arguments of a command, as an unset variable of a script leaves them: a name is
    never empty. A command that deletes or moves (one with --yes) takes no empty text at all, so that it cannot mean
    "all"."""
    hints = getattr(function, "__hints__", None) or typing.get_type_hints(function, include_extras=True)
    for name, value in arguments.items():
        if name in SHARED or not ("yes" in arguments or name in NAMES):
            continue
        if value == "" or isinstance(value, list) and "" in value:
            word = hints[name].__metadata__[0]
            spelled = [one for one in (word.default, *(word.param_decls or ())) if str(one).startswith("--")]
            option = (spelled or [f"--{name.rstrip('_').replace('_', '-')}"])[0]
            told = option if isinstance(word, OptionInfo) else f"the argument {name.upper()}"
            needed = inspect.signature(function).parameters[name].default is inspect.Parameter.empty
            raise Stop(f"{told} is empty", USAGE, "pass a value" + ("" if needed else ", or omit it"))


def ending(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the command with its errors printed as sentences."""

    def run(**arguments: Any) -> Any:
        try:
            try:
                given_values(function, arguments)
                result = function(**arguments)
                sys.stdout.flush()
                return result
            except KeyboardInterrupt:
                tell("interrupted")
                raise typer.Exit(INTERRUPTED) from None
            except (Stop, ServerError) as error:
                sys.stdout.flush()
                tell(error.text, error.hint)
                raise typer.Exit(error.status) from None
            except ContextError as error:
                tell(str(error))
                raise typer.Exit(USAGE) from None
            except UnicodeEncodeError:
                words = [word for value in arguments.values()
                         for word in (value if isinstance(value, list) else [value])]
                wrong = next((word for word in words if isinstance(word, str) and SURROGATE.search(word)), None)
                if wrong is None:
                    raise
                tell(f"the argument {wrong!r} is not UTF-8")
                raise typer.Exit(USAGE) from None
        except OSError as error:
            raise typer.Exit(unwritten(error)) from None

    return like(run, function, {})


def unwritten(error: OSError) -> int:
    """Discards all further output, because standard output takes none. Returns the exit status. Raises errors that are
    not about standard output again. A note of the error says what the server had done before."""
    if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.EPIPE:      # the reader of the output is gone
        return CLOSED
    notes = getattr(error, "__notes__", ())
    tell(f"cannot write the output: {error.strerror}", *notes[:1])
    return UNWRITTEN if notes else REFUSED


def remote(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a command whose first argument is the server: adds the options that choose the server."""

    def run(**arguments: Any) -> Any:
        own = {name: arguments.pop(name) for name in SHARED}
        words = {name: given.get(name) if value is None else value for name, value in own.items()}
        server = connect(**words)
        try:
            result = function(server=server, **arguments)
            sys.stdout.flush()
            return result
        except OSError as error:
            if server.changed and not hasattr(error, "__notes__"):
                error.add_note("the server had executed the command, or a part of it")
            raise
        except UnicodeError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if not server.answered or os.environ.get("LOG_LEVEL", "").lower() in ("debug", "trace"):
                raise
            raise Foreign(server.url) from error
        finally:
            server.close()

    return ending(like(run, function, SHARED))


def like(run: Callable[..., Any], function: Callable[..., Any], more: dict[str, Any]) -> Callable[..., Any]:
    """Returns `run` with the signature of `function` as typer reads it, without the arguments that `run` supplies (a
    server, the runner of a job), and with these options."""
    hints = getattr(function, "__hints__", None) or typing.get_type_hints(function, include_extras=True)
    hints = {name: hint for name, hint in hints.items() if name not in ("server", "run", "return")}
    own = [parameter.replace(annotation=hints[name])
           for name, parameter in inspect.signature(function).parameters.items() if name in hints]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
             for name, hint in more.items()]
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    hints = {**hints, **more}
    run.__hints__ = run.__annotations__ = hints      # type: ignore[attr-defined]
    run.__signature__ = inspect.Signature([*own, *added])      # type: ignore[attr-defined]
    return run


def connect(url: str | None, context: str | None, token_file: str | None, ca: str | None, timeout: str | None,
            cert: str | None = None) -> Server:
    """Returns a client of the chosen server."""
    within = 30.0 if timeout is None else seconds(timeout, "--timeout", 0.1, 86400)
    address, token, file, authorities, own = meant(url, context, token_file, ca, cert)
    return Server(address, (_read(file) if file else token).strip(), within, authorities, own)


def meant(url: str | None, context: str | None, token_file: str | None, ca: str | None,
          cert: str | None) -> tuple[str, str, str, str | None, str | None]:
    """Returns address, token or the file that holds it, file of CA certificates, file of the client certificate. Token
    and client certificate of a context are shown to the server of that context only."""
    if url and context:
        raise Stop("--url and --context cannot be combined", USAGE)
    saved = chosen(context) if not (url or (os.environ.get("QUEEND_URL") and not context)) else None
    address = url or (saved or {}).get("url") or os.environ.get("QUEEND_URL") or "http://127.0.0.1:6632"
    token = os.environ.get("QUEEND_TOKEN") or ""
    file = token_file or ("" if token else os.environ.get("QUEEND_TOKEN_FILE") or "")
    if not token_file and saved and (context or not (token or file)) and (saved.get("tokenFile") or saved.get("token")):
        token, file = saved.get("token") or "", saved.get("tokenFile") or ""
    return (address, "" if file else token, os.path.expanduser(file), ca or (saved or {}).get("ca"),
            cert or (saved or {}).get("cert"))


def _read(file: str) -> str:
    try:
        with open(file, encoding="ascii") as opened:
            return opened.read(1 << 16)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise Stop(f"cannot read the token in {file}: {why}", USAGE) from None


def sure(question: str, yes: bool) -> None:
    """Asks before something is destroyed. Without a terminal, --yes must be given instead."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Stop("this cannot be undone, and standard input is not a terminal", USAGE,
                   "use --yes to skip the confirmation")
    sys.stdout.flush()
    if not typer.confirm(clean(question), err=True):
        raise Stop("cancelled; nothing was changed")
