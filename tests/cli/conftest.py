import pytest
from support.cli import Cli


@pytest.fixture
def cli(daemon, tmp_path) -> Cli:
    return Cli(daemon.url, tmp_path)
