"""The tables of the engine have room for each row: a row too many would overwrite what stands behind the table."""
import re
from pathlib import Path

CORE = Path(__file__).parents[2] / "queend/core"
JOBTYPES = (CORE / "run/jobtypes.pyx").read_text()


def room(file: str, name: str) -> int:
    (number,) = re.findall(rf"^    {name} = (\d+)$", (CORE / file).read_text(), re.M)
    return int(number)


def test_routes() -> None:
    rows = re.findall(r"jobtype_\w*route\(b\"", JOBTYPES)
    assert 20 < len(rows) <= room("state/workertypes.pyx", "ROUTES_MOST")


def test_drains() -> None:
    rows = re.findall(r"jobtype_(?:queue_)?drain\(e, ", JOBTYPES)
    assert 15 < len(rows) <= room("state/enginetypes.pyx", "DRAINS_MOST")
