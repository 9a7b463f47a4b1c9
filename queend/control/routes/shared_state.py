"""State shared by daemons: two switches, which are stored in the database, and the notices between them
(docs/peers.md). /api/v1/system/shared-state and its two other names."""
from __future__ import annotations

from typing import Any

from fastapi import Request

from ...auth.levels import ADMIN
from ..http.answer import Json
from ..http.route import Routes
from ..http.schema import FLAG, INTEGER, TEXT, array, whole
from ..http.schemas import PEERLESS, integers
from .health import shared

router = Routes("system")

TRANSPORT = ("sent", "unsent", "posted", "received", "dropped", "entriesTold", "entriesHeard", "looks")
REFUSED = ("broken", "other_version", "forged", "own", "other_database", "stale", "again", "ended", "crowded",
           "stranger")
SHARED = {**PEERLESS, "properties": {
    **PEERLESS["properties"], "transport": whole(**integers(*TRANSPORT), refused=whole(**integers(*REFUSED))),
    "addresses": array(TEXT), "links": array(whole(url=TEXT, posts=INTEGER, failed=INTEGER, failing=FLAG)),
    "servers": array(whole(server=TEXT, session=TEXT, alive=FLAG, **integers("silentMs", "packets", "lost",
                                                                            "restarts")))}}


@router.declare("GET /api/v1/system/shared-state", ADMIN, SHARED)
@router.declare("GET /internal/api/shared-state/stats", ADMIN, SHARED)
@router.declare("GET /internal/api/inter-instance/stats", ADMIN, SHARED)
async def shared_state(request: Request) -> Json:
    """Returns the maintenance modes and the state of the peer daemons. The last four members exist only if this daemon
    has peers."""
    control = request.app.state.control
    peers = control.peers.figures()
    return Json({**shared(control), **({} if peers is None else told(peers))})


def told(peers: dict[str, Any]) -> dict[str, Any]:
    return {"transport": {"sent": peers["sent"], "unsent": peers["unsent"], "posted": peers["posted"],
                          "received": peers["taken"], "dropped": dropped(peers), "entriesTold": peers["told"],
                          "entriesHeard": peers["heard"], "looks": peers["looks"], "refused": peers["refused"]},
            "addresses": [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in peers["addresses"]],
            "links": peers["links"], "servers": peers["senders"]}


def dropped(peers: dict[str, Any]) -> int:
    """Returns the number of dropped packets, without this daemon's own."""
    return sum(peers["refused"].values()) - peers["refused"]["own"]
