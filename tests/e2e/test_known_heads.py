"""A daemon that wrote a partition last names its head to the next push, which does not look it up. Others write the
same partitions, retention takes their rows: offsets stay without gaps, nothing is lost or stored twice."""
from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
from support.client import Client, data
from support.crowd import Crowd
from support.daemon import Daemon
from support.postgres import Postgres
from support.wait import until

ALONE = 8       # pushes of one daemon in a row, until it names the head (HEAD_ALONE)


class Names:
    """How many heads were named to queend.push and queend.push_one in a database, also by calls that were undone."""

    def __init__(self, conninfo: str):
        self.conninfo = conninfo
        self.db = psycopg.connect(conninfo, autocommit=True)
        self.db.execute("CREATE SEQUENCE public.named MINVALUE 0")
        for name, hints in (("push", "unnest(p_hint) AS h"), ("push_one", "(SELECT p_hint) AS x (h)")):
            text, = self.db.execute(f"SELECT pg_get_functiondef('queend.{name}'::regproc)").fetchone()
            count = f"\nBEGIN\n    PERFORM nextval('public.named') FROM {hints} WHERE h = -1;\n"
            self.db.execute(text.replace("\nBEGIN\n", count, 1).encode())

    def take(self) -> int:
        """Since it was asked last."""
        (count,) = self.db.execute("SELECT last_value + is_called::int FROM public.named").fetchone()
        self.db.execute("ALTER SEQUENCE public.named RESTART")
        return count


@pytest.fixture(scope="module")
def names(postgres: Postgres) -> Iterator[Names]:
    names = Names(postgres.database())
    yield names
    names.db.close()


@pytest.fixture(scope="module")
def pair(names: Names, start_daemon: Callable[..., Daemon]) -> tuple[Daemon, Daemon]:
    return start_daemon(names.conninfo, NUM_WORKERS=1), start_daemon(names.conninfo, NUM_WORKERS=2)


@pytest.fixture
def clients(pair: tuple[Daemon, Daemon]) -> Iterator[tuple[Client, Client]]:
    with pair[0].client() as one, pair[1].client() as other:
        yield one, other


def everything(client: Client, queue: str, partition: str = "p") -> list:
    """Payloads of a partition by offset, which have no gap."""
    messages = client.pop(queue, partition, batch=10000, autoAck=True)
    assert [one["offset"] for one in messages] == list(range(len(messages)))
    return data(messages)


def alone(client: Client, queue: str, *payloads: object, partition: str = "p", **more: object) -> None:
    """One after the other."""
    for payload in payloads:
        (one,) = client.push(queue, payload, partition=partition, **more)
        assert one["status"] == "queued"


def test_who_writes_alone_names_the_head(names, clients, queue):
    names.take()
    alone(clients[0], queue, *range(40))
    assert names.take() == 40 - ALONE
    assert everything(clients[0], queue) == list(range(40))


def test_two_take_turns(names, clients, queue):
    """Each names what is true no longer once; after that it asks for long."""
    names.take()
    for turn in range(6):
        alone(clients[turn % 2], queue, *range(20 * turn, 20 * turn + 20))
    assert 0 < names.take() < 60
    assert everything(clients[0], queue) == list(range(120))


def test_two_at_once_over_many_partitions(clients, pair, queue):
    def push(number: int) -> None:
        with pair[number % 2].client() as own:
            for n in range(40):
                items = [{"queue": queue, "partition": f"p{p}", "payload": [number, n]} for p in range(30)
                         if (p + n // 10) % 4 == number or n % 10 == number]
                assert {one["status"] for one in own.push_items(items)} == {"queued"}

    with Crowd() as crowd:
        crowd.all(push, range(4))
    for p in range(30):
        got = everything(clients[0], queue, f"p{p}")
        for number in range(4):
            mine = [n for who, n in got if who == number]
            assert mine == [n for n in range(40) if (p + n // 10) % 4 == number or n % 10 == number]


def test_transactions_beside_pushes(clients, queue):
    for turn in range(4):
        alone(clients[0], queue, *range(13 * turn, 13 * turn + 12))
        out = {"type": "push", "items": [{"queue": queue, "partition": "p", "payload": 13 * turn + 12}]}
        assert clients[0].transaction(out)["success"] is True
    assert everything(clients[0], queue) == list(range(52))


@pytest.mark.parametrize("behind", [0, 3], ids=["all of it", "but the newest"])
def test_retention_took_what_another_wrote(names, clients, queue, behind):
    """There is no row left that could refuse the head that is named."""
    one, other = clients
    alone(one, queue, *range(20))
    alone(other, queue, *range(20, 30))
    (part, queue_id), = names.db.execute("SELECT p.id, q.id FROM queend.partitions p JOIN queend.queues q"
                                         " ON q.id = p.queue_id WHERE q.name = %s", (queue,)).fetchall()
    (cut,) = names.db.execute("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = %s",
                              (part, 29 - behind)).fetchone()
    names.db.execute("SELECT * FROM queend.retain(%s, 0, 100, 1000, %s, 0, 0)", (queue_id, cut + 1)).fetchall()
    names.take()
    alone(one, queue, 30)
    assert names.take() == 1
    messages = one.pop(queue, "p", batch=100, autoAck=True)
    assert [(m["offset"], m["data"]) for m in messages] == [(n, n) for n in range(30 - behind, 31)]


def test_a_head_is_named_to_backends_that_are_older(names, clients, queue):
    """A server that lost the newest rows has other backends."""
    alone(clients[0], queue, *range(20))
    names.db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                     " WHERE datname = current_database() AND pid <> pg_backend_pid()")
    names.take()
    alone(clients[0], queue, 20)
    assert names.take() == 0
    numbers = iter(range(21, 1000))
    until(lambda: alone(clients[0], queue, next(numbers)) or names.take(), "heads are named again")
    assert everything(clients[0], queue) == list(range(next(numbers)))


@pytest.mark.parametrize("make", [uuid.uuid4, lambda: "text"], ids=["version 4", "text"])
def test_a_retry_is_found_all_the_same(names, clients, queue, make):
    ids = [str(make()) + ("" if make is uuid.uuid4 else str(n)) for n in range(30)]
    for n, one in enumerate(ids):
        alone(clients[0], queue, n, transactionId=one)
    names.take()
    for n in (0, 15, 29):
        (again,) = clients[0].push(queue, "again", partition="p", transactionId=ids[n])
        assert again["status"] == "duplicate"
    alone(clients[0], queue, *range(30, 50))
    assert names.take() > 0
    assert everything(clients[0], queue) == list(range(50))


def test_ids_of_a_client_in_their_order_and_out_of_it(names, clients, queue):
    stamp = uuid.UUID(clients[0].push(queue, "first", partition="other")[0]["transaction_id"]).int >> 80

    def id7(n: int) -> str:
        return str(uuid.UUID(int=stamp << 80 | 7 << 76 | 1 << 63 | n))

    names.take()
    for n in range(30):
        alone(clients[0], queue, n, transactionId=id7(10 + n))
    assert names.take() == 30 - ALONE
    alone(clients[0], queue, 30, transactionId=id7(1))
    (again,) = clients[0].push(queue, "again", partition="p", transactionId=id7(20))
    assert again["status"] == "duplicate"
    alone(clients[0], queue, *range(31, 50))
    assert everything(clients[0], queue) == list(range(50))
