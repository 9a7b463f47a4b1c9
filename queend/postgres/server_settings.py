"""The settings of an embedded server."""
from __future__ import annotations

import os

from .binaries import OLDEST

PORT = "5432"  # only names the socket: nothing listens on a network


def server_settings(major: int = OLDEST) -> dict[str, str]:
    """Returns server settings that fit a queue: every commit durable, few checkpoints, no parallel plans, local socket
    only."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The more of the log lies in these buffers, the less vacuum waits: pages it has to fetch go through a small ring,
    # and each turn of the ring waits for a commit.
    buffers = max(64, min(memory // 8, 4 << 30) >> 20)
    return {
        "listen_addresses": "",
        "unix_socket_directories": ".",
        "port": PORT,
        "max_connections": "200",
        "shared_buffers": f"{buffers}MB",
        "synchronous_commit": "on",
        "fsync": "on",
        "full_page_writes": "on",
        # A checkpoint makes the next write of every page a full page of WAL: rare checkpoints are cheap.
        "checkpoint_timeout": "15min",
        "max_wal_size": "4GB",
        # Keeps enough WAL for the full speed of one checkpoint interval: a WAL file that must be created, not renamed,
        # delays a commit by 40 ms.
        "min_wal_size": "2GB",
        "checkpoint_completion_target": "0.9",
        "wal_buffers": "16MB",
        "autovacuum_naptime": "15s",
        "autovacuum_vacuum_cost_limit": "2000",
        # 45 million dead rows in one pass over the indexes; taken only while a vacuum needs it
        "autovacuum_work_mem": "256MB",
        **({"vacuum_buffer_usage_limit": "128MB"} if major >= 16 else {}),  # the ring
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "random_page_cost": "1.1",
        "log_checkpoints": "off",
        "log_line_prefix": "%m [%p] ",
    }
