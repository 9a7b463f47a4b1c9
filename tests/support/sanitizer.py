"""Under a sanitizer its runtime is preloaded into the interpreter. The daemons the tests start need it too; other
programs must not have it."""
import os
import shlex
import sys

from .forked import queend

PRELOAD = os.environ.pop("LD_PRELOAD", None)


def preloaded(environment: dict[str, str]) -> dict[str, str]:
    """The environment of an interpreter that runs queend: the runtime comes before what else it preloads, and may look
    into its own process."""
    if not PRELOAD:
        return environment
    libraries = [PRELOAD.replace(" ", ":"), environment.get("LD_PRELOAD")]
    options = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
    return {"QUEEND_CORE_DUMPS": "true", **options, **environment, "LD_PRELOAD": ":".join(filter(None, libraries))}


def typed() -> str:
    """Returns the command queend as words of a shell's line. What else the line runs does not have the runtime, with
    which curl has been seen to wait for ever."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in preloaded({}).items()]
    return " ".join(["env", *variables, sys.executable, "-m", "queend"]) if variables else shlex.join(queend())
