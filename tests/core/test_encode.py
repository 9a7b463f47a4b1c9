"""Binary parameters and results against a real server, which psycopg reads in its own way."""
import uuid

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from queend._core import probe_array, probe_scalars

KINDS = {
    "int2": ("smallint", st.integers(-2**15, 2**15 - 1), lambda v: v),
    "int4": ("integer", st.integers(-2**31, 2**31 - 1), lambda v: v),
    "int8": ("bigint", st.integers(-2**63, 2**63 - 1), lambda v: v),
    "bool": ("boolean", st.booleans(), lambda v: v),
    "uuid": ("uuid", st.uuids(), lambda v: v.bytes),
    "bytea": ("bytea", st.binary(max_size=300), lambda v: v),
    "text": ("text", st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), lambda v: v.encode()),
}
LETTER = {"int2": "S", "int4": "I", "int8": "Q", "bool": "B", "uuid": "U", "bytea": "Y", "text": "T"}


@pytest.fixture(scope="module")
def keep(cluster):
    """A function per type that stores its argument where psycopg can read it."""
    for kind, (sql, _, _) in KINDS.items():
        cluster.execute(f"CREATE TABLE queend.kept_{kind} (v {sql}[])")
        cluster.execute(f"""CREATE FUNCTION queend.keep_{kind}(v {sql}[]) RETURNS TABLE(n int) LANGUAGE sql AS
                            $$ TRUNCATE queend.kept_{kind}; INSERT INTO queend.kept_{kind} SELECT v RETURNING 1 $$""")


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_arrive_as_they_were_meant(cluster, keep, open_pool, kind):
    pool = open_pool(statements=[(f"keep_{kind}", LETTER[kind])])
    _, values, raw = KINDS[kind]

    with cluster.connect() as reader:
        @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
        @given(st.lists(st.none() | values, max_size=60), st.booleans())
        def check(items, late):
            assert pool.call(0, probe_array(kind, [None if v is None else raw(v) for v in items], late)).outcome == "ok"
            assert reader.execute(f"SELECT v FROM queend.kept_{kind}").fetchone()[0] == items

        check()


def test_an_array_of_many_and_of_long_elements(cluster, keep, open_pool):
    pool = open_pool(statements=[("keep_bytea", "Y")])
    items = [bytes([i % 256]) * (i % 977) for i in range(20_000)]
    assert pool.call(0, probe_array("bytea", items)).outcome == "ok"
    assert cluster.execute("SELECT v FROM queend.kept_bytea")[0][0] == items


def test_scalars_empty_and_null_are_three_things(cluster, open_pool):
    cluster.execute("""CREATE FUNCTION queend.scalars(a bigint, b int, c bytea, d text, e uuid)
        RETURNS TABLE(t text) LANGUAGE sql AS $$ SELECT concat_ws('|', a, b, encode(c, 'hex'), d = '', e IS NULL) $$""")
    pool = open_pool(statements=[("scalars", "qiytu")])
    answer = pool.call(0, *probe_scalars(-2**63, 2**31 - 1, b"\0\xff"))
    assert answer.rows == [[b"-9223372036854775808|2147483647|00ff|t|t"]]


def test_results_are_read_as_psycopg_reads_them(cluster, open_pool):
    query = """SELECT i::smallint, i, i::bigint * 3000000000, i % 2 = 0, decode(repeat('ab', i + 3), 'hex'),
                      ARRAY[i, NULL, 2^62]::bigint[], ARRAY[repeat('x', i + 3), '', NULL]::bytea[], '{}'::bigint[],
                      'é ' || i, NULL::int, NULL::bigint, NULL::boolean, NULL::bigint[], NULL::bytea, NULL::bytea[]
               FROM generate_series(-3, 40) i"""
    rows = open_pool().call(query, decode=True).rows
    assert len(rows) == 44
    with cluster.connect() as c:
        for mine, theirs in zip(rows, c.execute(query).fetchall()):
            theirs = list(theirs)
            theirs[5] = [0 if v is None else v for v in theirs[5]]         # a NULL bigint reads as 0
            theirs[8] = theirs[8].encode()
            assert mine == theirs[:9] + [-1, -1, False, [], None, []]


def test_a_list_of_lists_is_not_taken_for_a_list(open_pool):
    assert open_pool().call("SELECT ARRAY[[1,2],[3,4]]::bigint[], ARRAY[1]::bigint[]",
                            decode=True).rows == [["not a list", [1]]]


def test_uuid_keeps_its_bytes(open_pool):
    one = uuid.uuid4()
    assert open_pool().call(f"SELECT '{one}'::uuid", decode=True).rows == [[one.bytes]]
