"""What daemons share with each other: two switches, which are kept in the database. /api/v1/system/shared-state and
its two other names."""
from __future__ import annotations

from fastapi import Request

from ..auth.levels import ADMIN
from .answer import Json
from .health import shared
from .route import Routes
from .shapes import PEERLESS

router = Routes("system")


@router.declare("GET /api/v1/system/shared-state", ADMIN, PEERLESS)
@router.declare("GET /internal/api/shared-state/stats", ADMIN, PEERLESS)
@router.declare("GET /internal/api/inter-instance/stats", ADMIN, PEERLESS)
async def shared_state(request: Request) -> Json:
    """A daemon has no peers it talks to; what it keeps of queues and their options is its catalogue."""
    return Json(shared(request.app.state.control))
