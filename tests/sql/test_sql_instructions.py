"""Instructions of a push, a pop and its acknowledgment where nothing is special: ten partitions of one group, callgrind
in a PostgreSQL of one session, so no clock and no noise. The budgets stand in instructions.toml, for the major version
they were counted on. The ids of the pushes are of version 4 and known to be new: the way of others depends on how old
they are."""
import os
import re
import shlex
import signal
import tempfile
import tomllib
from pathlib import Path

import psycopg
import pytest
from sql.calls import ACK_LEASED, MINUTE, PUSH_ONE
from sql.records import NOTHING, PUSH, batch, id4, id7, new_lease, push_arrays
from support.callgrind import instructions
from support.postgres import Postgres, running

from queend.postgres.conninfo import HOT_PLANS

pytestmark = pytest.mark.counted
BUDGETS = tomllib.loads(Path(__file__).with_name("instructions.toml").read_text())
OVER, UNDER = 1.02, 0.9     # runs differ by a thousandth
PARTITIONS = 10
TAKE, ROW = 4, 2    # records of a delivery, and of a row of the log
ROUNDS = 3          # the first one plans
OF_LEASE = "8" + new_lease()[1:]      # it names its partition
CALLS = ("pop", "pop_leased", "ack_leased", "ack_placed", "push", "push_named", "push_one", "push_one_named")
SINGLE = ("push_one", "push_one_named")     # of one partition, with a claim
POP = ("SELECT * FROM queend.pop(%s, %s::int[], %s::int[], %s::int[], %s::boolean[], %s::int[], %s::int[],"
       " %s::boolean[], %s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[])")


def push_one(parts: list[int], ends: dict[int, tuple], named: bool) -> tuple[str, list]:
    """One record in each partition, of which the caller knows the newest row: (base, its end, its moment). named: that
    nobody has written since is for the primary key to say, else the row is looked up."""
    rows = [batch(part, [id4()], [b"x" * 130])._replace(hi=NOTHING) for part in parts]
    bases, heads, moments = zip(*(ends[part] for part in parts))
    return (f"SELECT * FROM queend.push(%s, %s::int[], {PUSH}, %s::bigint[], p_known => %s::bigint[],"
            " p_known_at => %s::bigint[])",
            [1, sorted({part & 63 for part in parts}), *push_arrays(rows), [-1] * len(parts) if named else list(bases),
             list(heads), list(moments)])


def push_single(part: int, group: int, end: tuple, named: bool) -> tuple[str, list]:
    base, head, moment = end
    row = batch(part, [id4()], [b"x" * 130])._replace(hi=NOTHING)
    return PUSH_ONE, [1, part & 63, *row, -1 if named else base, 1, group, 1, True, OF_LEASE, 0, head, moment]


def steady(parts: list[int], group: int, ends: dict[int, tuple], held: list[tuple]) -> list[tuple[str, list]]:
    """The calls of all rounds, in the order of CALLS. Each takes what is next in every partition; pushes go to other
    partitions, each of `ends` once. held: (partition, group, place of the cursor) whose first record OF_LEASE has."""
    many = len(parts)
    calls: list[tuple[str, list]] = []
    fresh = sorted(ends)
    for number in range(ROUNDS):
        lease, first = new_lease(), (2 * number + 1) * TAKE
        for auto in (True, False):
            calls.append((POP, [1, list(range(1, many + 1)), parts, [group] * many, [False] * many, [TAKE] * many,
                                [1] * many, [auto] * many, [lease] * many, [MINUTE] * many, [0] * many, [0] * many]))
        calls.append((ACK_LEASED, [1, parts, [group] * many, [lease] * many, [first] * many,
                                   [first + TAKE - 1] * many, [first + TAKE] * many, False, None]))
        theirs = [list(column) for column in zip(*held[number * many:(number + 1) * many])]
        calls.append((ACK_LEASED, [1, *theirs[:2], [OF_LEASE] * many, [0] * many, [0] * many, [0] * many, False,
                                   theirs[2]]))
        for named in (False, True):
            at = (2 * number + named) * many
            calls.append(push_one(fresh[at:at + many], ends, named))
        for named in (False, True):
            part = fresh[2 * ROUNDS * many + 2 * number + named]
            calls.append(push_single(part, group, ends[part], named))
    return calls


def pushed(parts: list[int]) -> tuple[str, list]:
    rows = [batch(part, [id7() for _ in range(ROW)]) for part in parts]
    return f"SELECT * FROM queend.push(%s, %s::int[], {PUSH})", [1, sorted({part & 63 for part in parts}),
                                                                 *push_arrays(rows)]


def script(server: Postgres, database: str) -> str:
    """Fills the database; the steady calls, a line each."""
    with psycopg.connect(database, autocommit=True, cursor_factory=psycopg.ClientCursor) as db:
        count = PARTITIONS * (1 + 2 * ROUNDS) + 2 * ROUNDS
        found = db.execute("SELECT ord, partition_id FROM queend.resolve(%s, %s)",
                           (["q"] * count, [f"p{i}" for i in range(count)])).fetchall()
        all_parts = sorted(part for _, part in found)
        parts = all_parts[:PARTITIONS]
        group, = db.execute("SELECT group_id FROM queend.group_resolve((SELECT id FROM queend.queues), 'g', 'all',"
                            " NULL)").fetchone()
        db.execute("SELECT queend.cursors_open(%s::int[], %s::int[], %s::boolean[])",
                   (parts, [group] * PARTITIONS, [True] * PARTITIONS))
        singles = all_parts[-2 * ROUNDS:]
        db.execute("SELECT queend.cursors_open(%s::int[], %s::int[], %s::boolean[])",
                   (singles, [group] * len(singles), [True] * len(singles)))
        db.execute("UPDATE queend.cursors SET committed = %s, row_base = %s WHERE partition_id = ANY (%s)",
                   (ROW - 1, ROW, singles))
        holders = [db.execute("SELECT group_id FROM queend.group_resolve((SELECT id FROM queend.queues), %s, 'all',"
                              " NULL)", (f"held{number}",)).fetchone()[0] for number in range(ROUNDS)]
        for holder in holders:
            db.execute("SELECT queend.cursors_open(%s::int[], %s::int[], %s::boolean[])",
                       (parts, [holder] * PARTITIONS, [True] * PARTITIONS))
        for _ in range(2 * ROUNDS * TAKE // ROW):
            assert all(row[1] == 0 for row in db.execute(*pushed(parts)).fetchall())
        assert all(row[1] == 0 for row in db.execute(*pushed(all_parts[PARTITIONS:])).fetchall())
        db.execute("UPDATE queend.cursors SET lease_id = %s, lease_until = %s, lease_end = 0 WHERE group_id = ANY (%s)",
                   (OF_LEASE, 1 << 60, holders))
        db.execute("VACUUM ANALYZE")
        held = db.execute("SELECT partition_id, group_id, ctid::text FROM queend.cursors WHERE group_id = ANY (%s)"
                          " ORDER BY group_id, partition_id", (holders,)).fetchall()
        newest = db.execute("SELECT DISTINCT ON (partition_id) partition_id, base, base + n, created_at"
                            " FROM queend.log ORDER BY partition_id, base DESC").fetchall()
        ends = {part: tuple(end) for part, *end in newest if part not in parts}
        mogrify = db.cursor().mogrify
        return "".join(f"{mogrify(statement, values)}\n" for statement, values in steady(parts, group, ends, held))


@pytest.fixture(scope="module")
def counted(postgres: Postgres) -> dict[str, float]:
    """Instructions of the last call of each, per partition."""
    with running(postgres.cluster.programs.major) as server, tempfile.TemporaryDirectory() as out:
        database = server.database()
        calls = script(server, database)
        server.halt(signal.SIGINT)
        cluster = server.cluster
        cluster.folder.chmod(0o755)     # its account walks the path
        os.chown(out, cluster.account.uid, cluster.account.gid)
        totals = instructions("PortalRun", [cluster.programs.folder / "postgres", "--single", "-D", ".",
                                            "-c", "shared_buffers=16MB", *shlex.split(HOT_PLANS),
                                            re.search(r"dbname=(\w+)", database)[1]], Path(out), input=calls,
                              cwd=cluster.data, env={"PATH": os.defpath, "LANG": "C", "TZ": "UTC"},
                              user=cluster.account.uid, group=cluster.account.gid, extra_groups=[])
    assert len(totals) == len(CALLS) * ROUNDS
    return {name: total / (1 if name in SINGLE else PARTITIONS) for name, total in zip(CALLS, totals[-len(CALLS):])}


@pytest.fixture(scope="module")
def budgets(postgres: Postgres) -> dict[str, int]:
    major = postgres.cluster.programs.major
    if str(major) not in BUDGETS:
        pytest.skip(f"no budgets for PostgreSQL {major}")
    return BUDGETS[str(major)]


@pytest.mark.parametrize("name", CALLS)
def test_instructions_of_a_statement(budgets: dict[str, int], counted: dict[str, float], name: str) -> None:
    now, budget = counted[name], budgets[name]
    assert now <= budget * OVER, f"{name}: {now:.0f} instructions, {budget} allowed (tests/sql/instructions.toml)"
    assert now >= budget * UNDER, (f"{name}: {now:.0f} instructions;"
                                   f" lower its budget of {budget} in tests/sql/instructions.toml")
