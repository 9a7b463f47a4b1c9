"""GET /api/v1/system/settings: what this daemon runs with, secrets masked."""
from __future__ import annotations

from typing import Any

from fastapi import Request

from ...auth.levels import ADMIN
from ...settings.messages import ConfigError, traits
from ...settings.model import Settings
from ...settings.origins import origins
from ...settings.redact import masked
from ..http.answer import Json
from ..http.route import Routes
from ..http.schema import FLAG, TEXT, array, whole

router = Routes("system")


@router.declare("GET /api/v1/system/settings", ADMIN,
                array(whole(name={**TEXT, "examples": ["PORT"]}, value=TEXT, default=TEXT, unit=TEXT, about=TEXT,
                            origin=TEXT, changed=FLAG)), own=True)
async def settings_list(request: Request) -> Json:
    """Returns the settings of this daemon like `queend config`: value, default, unit and origin. Secrets are masked."""
    settings = request.app.state.control.settings
    try:
        origin = origins(settings)
    except ConfigError:      # the file has changed since the start
        origin = dict.fromkeys(Settings.model_fields, "")
    return Json([{
        "name": name.upper(), "value": _text(masked(settings, name)), "default": _text(field.default),
        "unit": traits(field)["unit"], "about": field.description or "",
        "origin": origin[name], "changed": getattr(settings, name) != field.default}
        for name, field in Settings.model_fields.items()])


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
