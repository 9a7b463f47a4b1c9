"""Every example of docs/sql.md runs, in order, and the roles it grants can do what it says."""
from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text()
EXAMPLES = re.findall(r"^```sql\n(.*?)^```", TEXT, re.M | re.S)


def test_the_examples(sql, connect, alone) -> None:
    sql.rows("CREATE TABLE orders (id int, amount numeric); CREATE ROLE shop; CREATE ROLE clerk")
    try:
        assert len(EXAMPLES) == 6
        for example in EXAMPLES:
            sql.rows(example)
            sql.rows("SELECT * FROM queend.relay()")
        assert sql.rows("SELECT * FROM orders") and sql.rows("SELECT payload FROM queen.messages WHERE queue = 'orders'"
                                                             " ORDER BY payload") == [({"order": 7},), ({"order": 8},)]
        for name in re.findall(
                r"`((?:push|pop|ack|renew|has|execute|configure|delete|get|update|seek|list|record)_\w+)`", TEXT):
            assert sql.value("SELECT count(*) FROM pg_proc WHERE pronamespace = 'queen'::regnamespace AND proname = %s",
                             name) == 1, name
        shop = connect(alone)
        shop.rows("SET ROLE shop")
        assert shop.value("SELECT queen.push('orders', NULL, '1')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shop.rows("SELECT * FROM queen.messages")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shop.rows("SELECT queen.push_messages_v3('[{\"queue\": \"orders\"}]')")
        clerk = connect(alone)
        clerk.rows("SET ROLE clerk")
        assert clerk.value("SELECT queen.push('orders', NULL, '2')")
        assert clerk.rows("SELECT * FROM queend.relay()") == [("orders", 2)]
        messages = clerk.value("SELECT queen.pop_unified_batch_v4('[{\"queue_name\": \"orders\", \"partition_name\":"
                               " \"Default\"}]')")[0]["result"]["messages"]
        assert [one["data"] for one in messages] == [1, 2]
        assert clerk.value("SELECT queen.push_messages_v3('[{\"queue\": \"bills\", \"partition\": \"p\"}]')")["items"]
        (answer,) = clerk.value("SELECT queen.pop_unified_batch_v4('[{\"queue_name\": \"bills\", \"consumer_group\":"
                                " \"books\"}]')")
        assert len(answer["result"]["messages"]) == 1, "it makes queues, partitions and groups"
        for queue in ("orders", "bills"):
            assert clerk.value("SELECT queen.delete_queue_v1(%s)", queue)["existed"] is True
    finally:
        sql.rows("DROP OWNED BY shop, clerk; DROP ROLE shop, clerk; DROP TABLE orders")


def test_a_role_that_looks_sees_all_views(sql, connect, alone) -> None:
    """What it may read in the schema queend decides: the views of queen_streams need no grant."""
    sql.rows("CREATE ROLE looker; CREATE ROLE stranger; GRANT USAGE ON SCHEMA queen, queend TO looker;"
             " GRANT SELECT ON ALL TABLES IN SCHEMA queend, queen TO looker")
    try:
        looker, stranger = connect(alone), connect(alone)
        looker.rows("SET ROLE looker")
        stranger.rows("SET ROLE stranger")
        views = [row.name for row in sql.rows(
            "SELECT n.nspname || '.' || c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'v' AND n.nspname IN ('queen', 'queen_streams') ORDER BY 1")]
        assert "queen_streams.queries" in views and "queen_streams.state" in views
        for view in views:
            looker.rows(f"SELECT * FROM {view}")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                stranger.rows(f"SELECT * FROM {view}")
    finally:
        sql.rows("DROP OWNED BY looker, stranger; DROP ROLE looker, stranger")
