"""A daemon goes on where the numbers of partitions, queues and groups begin anew."""
from __future__ import annotations

import psycopg


def test_pushes_and_pops_go_on_where_numbers_begin_anew(start_daemon):
    daemon = start_daemon()
    with daemon.client() as client:
        before = [client.push("orders", n, partition=f"before-{n}")[0]["partition_id"] for n in range(3)]
        with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
            for table in ("partitions", "queues", "consumer_groups"):
                connection.execute(f"SELECT setval('queend.{table}_id_seq', 2147483645)")
        after = [client.push("orders", n, partition=f"after-{n}")[0]["partition_id"] for n in range(3, 8)]
        assert len({*before, *after}) == 8
        for n in range(4):
            client.push(f"queue-{n}", n)
        for group in ("a", "b", "c", "d"):
            got = client.pop("orders", consumerGroup=group, batch=10, partitions=10, autoAck=True)
            assert sorted(message["data"] for message in got) == list(range(8))
        for n in range(4):
            assert [message["data"] for message in client.pop(f"queue-{n}", autoAck=True)] == [n]
