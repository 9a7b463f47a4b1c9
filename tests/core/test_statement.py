"""The statement table and the functions in sql/ are one contract: every statement prepares, with the columns the core
reads."""
import psycopg
import pytest

from queend._core import probe_columns, probe_statements
from queend.postgres.migrate import migrate

KEYS = "ord int4, outcome int2, version int8, expires_at int8, updated_at int8, value text, key text"
RESULTS = {
    "push": "ord int4, status int2, base int8, created_at int8, dup_offset _int8, dup_at _int8, seen bytea",
    "push_due": "ord int4, status int2, base int8, created_at int8, dup_offset _int8, dup_at _int8, seen bytea",
    "push_one": "ord int4, status int2, base int8, created_at int8, dup_offset _int8, dup_at _int8, seen bytea",
    "pop": "ord int4, status int2, attempt int4, first int8, take int4, base int8, n int4, created_at int8, ids bytea, "
           "body bytea, meta bytea, head int8, until int8, buried int4",
    "pop_newest": "ord int4, status int2, attempt int4, first int8, take int4, base int8, n int4, created_at int8, "
                  "ids bytea, body bytea, meta bytea, head int8, until int8, buried int4, since int8",
    "ack": "ord int4, status int2, codes bytea, released bool, committed int8, head int8, retry_until int8",
    "transaction": "ord int4, kind int2, status int2, base int8, created_at int8, codes bytea, released bool, "
                   "committed int8, head int8, dup_index int4, seen bytea",
    "transaction_due": "ord int4, kind int2, status int2, base int8, created_at int8, codes bytea, released bool, "
                       "committed int8, head int8, dup_index int4, seen bytea",
    "transaction_bundle": "ord int4, kind int2, status int2, base int8, created_at int8, codes bytea, released bool, "
                          "committed int8, head int8, dup_index int4, seen bytea",
    **dict.fromkeys(["kv_get", "kv_write", "kv_bundle"], KEYS),
    "timers_write": "ord int4, outcome int2, due int8, message_id uuid, txn text",
    "locks": "ord int4, outcome int2, slot int4, token int8, owner text, since int8, expires_at int8, renewed_at int8",
    "renew": "ord int4, status int2, expires_at int8, renewed int4",
    "release": "ord int4, released bool",
    "resolve_within": "ord int4, queue_id int4, partition_id int4, refused int4",
    "catalog_load": "version int8, seed bytea, queue_id int4, epoch int4, name text, namespace text, task text, "
                    "lease_time int4, retry_limit int4, retry_delay int4, delayed int4,"
                    " window_buffer int4, max_size int4, "
                    "encryption bool, priority int4, ttl int4, cleaned int8, cleaned_last bytea, paused bytea, "
                    "rate_us int8, rate_burst int4, shared int8, spread int4",
    "group_within": "group_id int4, start_at int8, fresh bool, conflates bool",
    "groups_find": "ord int4, group_id int4, conflates bool",
    "partitions_find": "id int4, queue_id int4, name text",
    "partition_find": "ord int4, partition_id int4",
    "pop_scan": "partition_id int4, next int8, head int8, lease_until int8",
    "recent": "partition_id int4, queue_id int4, head int8",
    "turn": "part int4, grp int4, at tid, released bool, head int8",
    "claim": "part int4, grp int4, at tid",
    "ack_leased": "part int4, grp int4, at tid, released bool, head int8",
    "ids_learn": "ids_learn bytea",
    "waking": "partition_id int4, queue_id int4, group_id int4, at int8",
    "leases_ended": "ord int4",
    "rates_take": "ord int4, granted int4, next_at int8",
    "queue_sizes": "queue_id int4, size int8, max_size int4",
    "take_back": "ord int4, taken bool",
    "pushed": "ord int4, base int8, created_at int8",
    "lease_queues": "ord int4, queue text, grp text",
    "stream_sources": "query text, partition text",
    "queues_make": "queues_make void",
    "ids_stored": "ord int4, found int8, stored_at int8, deleted bool",
    "stream_cycle": "error text, stale int8, queue text, base _int8, created_at _int8, dups json, group_id int4,"
                    " committed int8, head int8, released bool, waits bool, gone bool",
    "look": "pg_current_snapshot text, version int8, now_us int8",
}


@pytest.fixture(scope="module")
def migrated(cluster):
    cluster.execute("CREATE DATABASE migrated")
    dsn = cluster.dsn(dbname="migrated")
    migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection
    cluster.execute("DROP DATABASE migrated")


def test_no_statement_is_without_a_contract():
    assert {name for name, _, _ in probe_statements()} == RESULTS.keys()


def test_what_notes_delivery_moments_takes_what_the_plain_one_takes():
    types = {name: types for name, _, types in probe_statements()}
    assert types["push_due"] == types["push"] and types["transaction_due"] == types["transaction"]


def test_what_writes_keys_too_takes_what_both_take():
    types = {name: types for name, _, types in probe_statements()}
    assert types["transaction_bundle"] == types["transaction"][:-1] + types["kv_bundle"][:-1] + types["timers_write"]
    assert types["kv_bundle"][:10] == types["kv_write"][:10]


def test_the_push_of_one_row_takes_the_elements_of_what_push_takes(migrated):
    element = dict(migrated.execute("SELECT oid::int, typelem::int FROM pg_type WHERE typcategory = 'A'").fetchall())
    types = {name: types for name, _, types in probe_statements()}
    assert types["push_one"] == [element.get(one, one) for one in types["push"][:21]] + types["push"][-1:]


@pytest.mark.parametrize("name,text,types", probe_statements(), ids=[name for name, _, _ in probe_statements()])
def test_it_prepares_and_returns_the_columns_the_core_reads(migrated, name, text, types):
    prepared = migrated.pgconn.prepare(name.encode(), text.encode(), types)
    assert not prepared.error_message, prepared.error_message.decode()
    told = migrated.pgconn.describe_prepared(name.encode())
    assert [told.param_type(i) for i in range(told.nparams)] == types
    type_name = dict(migrated.execute("SELECT oid, typname FROM pg_type").fetchall())
    columns = [(told.fname(i).decode(), type_name[told.ftype(i)]) for i in range(told.nfields)]
    assert ", ".join(f"{column} {kind}" for column, kind in columns) == RESULTS[name]
    if name in probe_columns():
        assert {column: i for i, (column, _) in enumerate(columns)} == probe_columns()[name]


def test_a_pool_with_the_real_table_comes_into_service(cluster, migrated, open_pool):
    pool = open_pool(cluster.dsn(dbname="migrated"), slots=2, statements=None)
    catalog = [name for name, _, _ in probe_statements()].index("catalog_load")
    rows = pool.call(catalog, decode=True).rows
    assert len(rows) == 1 and len(rows[0][1]) == 16
