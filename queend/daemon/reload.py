"""SIGHUP: reads the settings again, and applies those that may change while the daemon runs (`live` in
`settings/fields`). No connection ends and no request waits for it. The environment of a running process cannot change:
changes come from the file of QUEEND_CONFIG, the folder of credentials and the files of the certificate."""
from __future__ import annotations

import asyncio
import time
from typing import Any

from pydantic import ValidationError

from .. import log
from ..control.app import Control
from ..settings.load import load
from ..settings.messages import ConfigError, told
from ..settings.model import Settings, is_live
from . import hardening
from .core_settings import changing
from .systemd import notify


def differing(before: Settings, after: Settings) -> set[str]:
    return {name for name in Settings.model_fields if getattr(before, name) != getattr(after, name)}


async def reload(settings: Settings, arguments: dict[str, Any], control: Control) -> bool:
    """Applies what changed to `settings` itself, the object that all parts share. Returns False if the change was
    refused; then the settings stay as they were. Logs the result and notifies systemd."""
    notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
    try:
        return await _reload(settings, arguments, control)
    finally:
        notify("READY=1")


async def _reload(settings: Settings, arguments: dict[str, Any], control: Control) -> bool:
    try:
        wanted = load(**arguments)
    except ConfigError as error:
        log.line("error", "reload_refused", str(error))
        return False
    names = differing(settings, wanted)
    changed = {name for name in names if is_live(name)}
    # the changed settings must be valid together with the unchanged ones
    try:
        mixed = Settings.model_validate({**settings.model_dump(), **{name: getattr(wanted, name) for name in changed}})
    except ValidationError as error:
        log.line("error", "reload_refused", "\n".join(told(error, Settings.model_fields)))
        return False
    try:
        await asyncio.to_thread(control.secured.use)
    except ValueError as error:
        log.line("error", "reload_refused", f"{error}; the former certificate stays in use")
        return False
    for name in sorted(names - changed):
        log.line("warn", "setting_needs_restart", f"{name.upper()} cannot change while the daemon runs; the new value "
                                                  "takes effect at the next start")
    if changed:
        settings.take(mixed, changed)
        if settings.jwt_secret:
            hardening.close(settings.queend_core_dumps)
        if "log_level" in changed:
            log.level_set(settings.log_level)
        control.core.change(**changing(settings))
        await control.changed(changed)
    control.reload()
    log.line("info", "reloaded", changed=sorted(name.upper() for name in changed))
    return True
