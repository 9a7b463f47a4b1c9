"""Pages for developers of applications: their commands and programs, run as they stand there."""
from __future__ import annotations

from support.guides import like, sessions, type_in


def test_the_session_about_partitions(daemon, tmp_path):
    found = sessions("partitions.md")
    assert len(found) >= 8
    for command, promised in found:
        told = type_in(daemon, tmp_path, command)
        assert like(told, promised), (command, told, promised)
