"""What `queend.testing` does if its daemon does not start. That it starts is shown by the examples of the document."""
from __future__ import annotations

from pathlib import Path

import pytest

from queend.testing import Daemon, DaemonError


def test_a_daemon_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="NUM_WORKERS"):
        Daemon(tmp_path, NUM_WORKERS="many")


@pytest.mark.daemon
def test_a_daemon_that_does_not_start_in_time_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="not ready"):
        Daemon(tmp_path, seconds=0.0)
