"""GET /health: whether the database stores messages."""
from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from fastapi import Request

from ... import __version__
from ...auth.levels import PUBLIC
from ..http.answer import Json
from ..http.route import Routes
from ..http.schema import INTEGER, TEXT, array, whole
from ..http.schemas import PEERLESS

router = Routes("health")
DOUBTS = array({"enum": ["away", "silent", "disk_full", "read_only", "refused", "crowded", "buffer_full",
                        "commits_hang"]})
RISKS = array({"enum": ["synchronous_commit", "synchronous_commit_local", "fsync", "full_page_writes"]})

# A daemon without peers, in the form of a daemon with peers.
ALONE = {"enabled": False, "running": False, "server_id": "",
         "queue_config_cache": {"size": 0, "hits": 0, "misses": 0, "hit_rate": 0.0},
         "server_health": {"servers_tracked": 0, "servers_alive": 0, "servers_dead": 0, "heartbeats_received": 0,
                           "restarts_detected": 0}}


SILENT_S = 5.0      # a database that is silent for so long counts as away
# Doubts that keep messages from being stored.
FATAL = {"away", "silent", "disk_full", "commits_hang"}


def shared(control: Any) -> dict[str, Any]:
    """Returns the state shared by daemons: the two switches, which are stored in the database, and the state of
    peers."""
    on, peers = control.maintenance.on, control.peers.figures()
    return {**ALONE, **({} if peers is None else with_peers(peers)), "maintenance_mode": on["push"],
            "pop_maintenance_mode": on["pop"]}


def with_peers(peers: dict[str, Any]) -> dict[str, Any]:
    """Returns the state of a daemon with peers."""
    alive = sum(one["alive"] for one in peers["senders"])
    return {"enabled": True, "running": True, "server_id": peers["server"], "server_health": {
        "servers_tracked": len(peers["senders"]), "servers_alive": alive,
        "servers_dead": len(peers["senders"]) - alive, "heartbeats_received": peers["beats"],
        "restarts_detected": sum(one["restarts"] for one in peers["senders"])}}


@router.declare("GET /health", PUBLIC,
                whole("reason", reason=TEXT, status={"enum": ["healthy", "unhealthy"]},
                      database={"enum": ["connected", "disconnected"]}, doubts=DOUBTS, commitsMayBeLost=RISKS,
                      server=TEXT, worker_id=INTEGER, version=TEXT, shared_state=PEERLESS,
                      queen=whole(worker_id=INTEGER, status={"const": "active"})))
async def health(request: Request) -> Json:
    """Answers 200 if PostgreSQL answers, can store, and its functions fit this version; otherwise 503 with the same
    body. `reason`: why the daemon is not healthy. `doubts`: problems of the database. `commitsMayBeLost`: PostgreSQL
    settings that allow a crash to lose committed data. Without a token, and if JWT_SKIP_PATHS does not contain the
    path, the answer has only `status`."""
    control = request.app.state.control
    reason, database = control.core.unserved(), control.core.database()
    try:
        async with asyncio.timeout(SILENT_S), control.pool.connection() as connection:
            await connection.execute("SELECT 1")
        there = True
    except (psycopg.Error, TimeoutError):
        there = False
    alive = there and reason is None and not FATAL.intersection(database["doubts"])
    status, code = ("healthy", 200) if alive else ("unhealthy", 503)
    if getattr(request.state, "brief", False):
        return Json({"status": status}, code)
    return Json({"status": status, "database": "connected" if there else "disconnected", "doubts": database["doubts"],
                 "commitsMayBeLost": database["risks"], "server": "queend", "worker_id": 0, "version": __version__,
                 **({"reason": reason} if reason else {}), "shared_state": shared(control),
                 "queen": {"worker_id": 0, "status": "active"}}, code)
