"""What daemons share with each other: two switches, which are kept in the database. /api/v1/system/shared-state and its two other names."""
from __future__ import annotations

from fastapi import APIRouter, Request

from .answer import Json
from .health import shared

router = APIRouter()


@router.get("/api/v1/system/shared-state", tags=["system"])
@router.get("/internal/api/shared-state/stats", tags=["system"])
@router.get("/internal/api/inter-instance/stats", tags=["system"])
async def shared_state(request: Request) -> Json:
    """A daemon has no peers it talks to; what it keeps of queues and their options is its catalogue."""
    return Json(shared(request.app.state.control))
