"""What daemons share with each other: two switches, which are kept in the database. /api/v1/system/shared-state and
its two other names."""
from __future__ import annotations

from fastapi import Request

from ..auth.levels import ADMIN
from .answer import Json
from .health import shared
from .route import Routes
from .shapes import PEERLESS
from .words import like, whole

router = Routes("system")
ALONE = {"enabled": False, "running": False, "server_id": "",
         "queue_config_cache": {"size": 0, "hits": 0, "misses": 0, "hit_rate": 0.0},
         "server_health": {"servers_tracked": 0, "servers_alive": 0, "servers_dead": 0, "heartbeats_received": 0,
                           "restarts_detected": 0}, "maintenance_mode": False, "pop_maintenance_mode": False}
SHARED = like(whole(**PEERLESS), ALONE)


@router.declare("GET /api/v1/system/shared-state", ADMIN, SHARED)
@router.declare("GET /internal/api/shared-state/stats", ADMIN, SHARED)
@router.declare("GET /internal/api/inter-instance/stats", ADMIN, SHARED)
async def shared_state(request: Request) -> Json:
    """A daemon has no peers it talks to; what it keeps of queues and their options is its catalogue."""
    return Json(shared(request.app.state.control))
