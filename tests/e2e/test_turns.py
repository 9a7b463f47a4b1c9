"""Thousands of requests that arrive at once do not come before the one of somebody else: each connection has its
turn."""
from __future__ import annotations

import contextlib
import json
import os
import signal
import uuid
from collections.abc import Callable

import psycopg
import pyarrow as pa
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.http import Wire, request
from support.postgres import stand
from support.wait import until

MANY, EACH = 200, 60


def push(queue: str, text: str) -> bytes:
    return request("POST", "/api/v1/push",
                   json.dumps({"items": [{"queue": queue, "partition": "p", "payload": text}]}).encode())


def test_a_connection_waits_for_one_request_of_each_other(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1)
    wires = [Wire(daemon.address) for _ in range(MANY + 1)]
    for wire in wires:
        wire.send(push(queue, "first"))
        assert wire.receive().status == 201
    stand(daemon.pid)
    *crowd, other = wires
    for wire in crowd:
        wire.send(push(queue, "crowd") * EACH)
    other.send(push(queue, "other"))
    os.kill(daemon.pid, signal.SIGCONT)
    for wire in wires:
        for _ in range(1 if wire is other else EACH):
            assert wire.receive().status == 201
        wire.close()
    with daemon.client() as client:
        messages: list[dict] = []
        while some := client.pop(queue, "p", batch=1000, autoAck=True):
            messages += some
    texts = [one["data"] for one in messages[MANY + 1:]]
    assert len(texts) == MANY * EACH + 1
    assert texts.index("other") < len(texts) / 2, "its push was stored with the first of the others"


def test_those_that_wait_for_their_turn_may_leave(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """What was sent by those that are gone is done or not, nothing leaks (the daemon is asked when it stops), and
    others are served."""
    daemon = start_daemon(NUM_WORKERS=1)
    with daemon.client() as client:
        client.push(queue, "first", partition="p")
        wires = [Wire(daemon.address) for _ in range(MANY)]
        stand(daemon.pid)
        for number, wire in enumerate(wires):
            wire.send(push(queue, "crowd") * EACH)
            if number % 2:
                wire.close()
        os.kill(daemon.pid, signal.SIGCONT)
        client.push(queue, "last", partition="p")
        for wire in wires[::2]:
            for _ in range(EACH):
                assert wire.receive().status == 201
            wire.close()
        until(lambda: Client(daemon.address).get("/livez").status == 200, "it serves")


WIDE, PIPELINED = 2000, 2      # items of a push, each for a partition of its own, and such pushes one after the other
LOCKED = ("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
          " AND application_name = 'queend'")
STORED_BEFORE = ("SELECT count(*) FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id"
                 " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s AND l.created_at < ("
                 "SELECT max(o.created_at) FROM queend.log o JOIN queend.partitions r ON r.id = o.partition_id"
                 " JOIN queend.queues s ON s.id = r.queue_id WHERE s.name = %s)")
ROWS = ("SELECT count(*) FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id"
        " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s")
MADE = ("SELECT count(*) FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
        " WHERE q.name = %s AND p.name = 'p-0'")


def wide(queue: str, made: str) -> bytes:
    return request("POST", "/api/v1/push", json.dumps({"items": [
        {"queue": queue, "partition": f"{made}-{i}", "payload": made} for i in range(WIDE)]}).encode())


def jobs(client: Client) -> int:
    """Requests that are not answered yet."""
    return sum(int(float(line.split()[-1])) for line in client.get("/metrics/prometheus").body.decode().splitlines()
               if line.startswith("queend_worker_jobs{"))


def locked(database: psycopg.Connection) -> int:
    """Sessions that wait for a lock."""
    return database.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                            " AND datname = current_database()").fetchone()[0]


def test_a_wide_push_is_stored_in_turns(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """One connection sends 4 000 items while the lane of a partition is held; a push that comes after them all is
    stored with the first of them."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1)
    other = queue + "-other"
    with (daemon.client() as client, Wire(daemon.address) as one, Wire(daemon.address) as another,
          psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder):
        client.push(other, "first", partition="p")
        one.send(wide(queue, "p"))
        assert one.receive().status == 201
        before, = database.execute(STORED_BEFORE, (queue, queue)).fetchone()
        assert before < WIDE
        (number,) = database.execute("SELECT min(p.id) FROM queend.partitions p JOIN queend.queues q"
                                     " ON q.id = p.queue_id WHERE q.name = %s", (queue,)).fetchone()
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, %s)", (number & 63,))
        one.send(wide(queue, "p") * PIPELINED)
        until(lambda: database.execute(LOCKED).fetchone()[0], "a push waits for the lane")
        until(lambda: jobs(client) == PIPELINED, "all have arrived")
        another.send(push(other, "late"))
        until(lambda: jobs(client) == PIPELINED + 1, "and the other one")
        holder.rollback()
        assert another.receive().status == 201
        for _ in range(PIPELINED):
            assert one.receive().status == 201
        stored, = database.execute(STORED_BEFORE, (queue, other)).fetchone()
        assert stored - WIDE < WIDE, "no more than the batch in flight and the next one"
        rows, = database.execute(ROWS, (queue,)).fetchone()
        assert rows - WIDE < PIPELINED * WIDE, "a row takes what a later push brings for its partition"


def test_names_are_made_in_turns_and_pushes_keep_their_order(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """One connection makes 2 000 partitions, then pushes to one of these again; another one that needs a new partition
    has it after a round. The pushes of the first connection stand in their order."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1)
    other = queue + "-other"
    with (daemon.client() as client, Wire(daemon.address) as one, Wire(daemon.address) as another,
          psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, "first", partition="p")
        client.push(other, "first", partition="p")
        holder.execute("LOCK TABLE queend.partitions IN SHARE ROW EXCLUSIVE MODE")
        one.send(wide(queue, "a") + push_to(queue, "a-0", "again"))
        until(lambda: database.execute(LOCKED).fetchone()[0], "a partition cannot be made")
        until(lambda: jobs(client) == 2, "all have arrived")
        another.send(push_to(other, "new", "late"))
        until(lambda: jobs(client) == 3, "and the other one")
        holder.rollback()
        assert another.receive().status == 201
        for _ in range(2):
            assert one.receive().status == 201
        stored, = database.execute(STORED_BEFORE, (queue, other)).fetchone()
        assert stored < WIDE, "the wide push still waits for names"
        assert [each["data"] for each in client.pop(queue, "a-0", batch=10)] == ["a", "again"]


def push_to(queue: str, partition: str, text: str) -> bytes:
    return request("POST", "/api/v1/push", json.dumps(
        {"items": [{"queue": queue, "partition": partition, "payload": text}]}).encode())


def test_pushes_that_fit_into_a_batch_are_not_cut(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Four connections push to the same partitions at once. None of them reaches a partition after newer ids of
    another: PostgreSQL would have to look up each of its ids."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1)
    fits = request("POST", "/api/v1/push", json.dumps({"items": [
        {"queue": queue, "partition": f"p-{i}", "payload": i} for i in range(WIDE // 2)]}).encode())
    other = queue + "-other"
    with (daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder):
        wires = [Wire(daemon.address) for _ in range(5)]
        *four, another = wires
        another.send(fits)
        assert another.receive().status == 201
        client.push(other, "first", partition="p")
        (number,) = database.execute("SELECT min(p.id) FROM queend.partitions p JOIN queend.queues q"
                                     " ON q.id = p.queue_id WHERE q.name = %s", (other,)).fetchone()
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, %s)", (number & 63,))
        another.send(push(other, "held"))
        until(lambda: database.execute(LOCKED).fetchone()[0], "a push waits for the lane")
        for wire in four:
            wire.send(fits)
        until(lambda: jobs(client) == 5, "all have arrived")
        holder.rollback()
        for wire in wires:
            assert wire.receive().status == 201
            wire.close()
        rows, = database.execute(ROWS, (queue,)).fetchone()
        assert rows == WIDE, "one batch: a row for each partition with records of all four"


def test_a_push_does_not_overtake_one_that_waits_for_names(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """One of the partitions that a push needs cannot be made yet, while another one is there already. The push that
    follows on its connection needs only that one."""
    daemon = start_daemon(NUM_WORKERS=1)
    other = queue + "-other"
    with (daemon.client() as client, Wire(daemon.address) as one,
          psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder):
        client.push(other, "first", partition="p")
        client.push(queue, "first", partition="first")
        holder.execute("INSERT INTO queend.partitions (queue_id, name) SELECT q.id, %s FROM queend.queues q"
                       " WHERE q.name = %s", (f"p-{WIDE - 1}", queue))
        one.send(wide(queue, "p"))
        until(lambda: database.execute(LOCKED).fetchone()[0], "a partition cannot be made")
        until(lambda: database.execute(MADE, (queue,)).fetchone()[0], "another one is made")
        client.push(other, "meanwhile", partition="p")
        one.send(push_to(queue, "p-0", "later"))
        until(lambda: jobs(client) == 2, "both have arrived")
        client.push(other, "after both", partition="p")
        holder.rollback()
        for _ in range(2):
            assert one.receive().status == 201
        assert [each["data"] for each in client.pop(queue, "p-0", batch=10)] == ["p", "later"]


def test_acknowledgments_of_one_cursor_leave_connections_to_others(start_daemon: Callable[..., Daemon],
                                                                   queue: str) -> None:
    """The cursor of one queue is locked while more acknowledgments for it arrive than the daemon has connections: that
    of another queue is answered."""
    daemon = start_daemon(NUM_WORKERS=1)
    other = queue + "-other"
    with (daemon.client() as client, Wire(daemon.address) as another,
          psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, "first", partition="p")
        client.push(other, "first", partition="p")
        (held,), (free,) = client.pop(queue, "p"), client.pop(other, "p")
        holder.execute("SELECT 1 FROM queend.cursors c JOIN queend.partitions p ON p.id = c.partition_id"
                       " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s FOR UPDATE OF c", (queue,))
        wires = [Wire(daemon.address) for _ in range(MANY)]
        for wire in wires:
            wire.send(request("POST", "/api/v1/ack", json.dumps(ack_of(held, "retry")).encode()))
        until(lambda: jobs(client) == MANY, "all have arrived")
        another.send(request("POST", "/api/v1/ack", json.dumps(ack_of(free, "retry")).encode()))
        assert another.receive().status == 200
        holder.rollback()
        for wire in wires:
            assert wire.receive().status == 200
            wire.close()


def test_new_groups_leave_connections_to_others(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """A queue is locked while more new groups of it are asked for than the daemon has connections: messages of another
    queue are pushed, popped and acknowledged."""
    daemon = start_daemon(NUM_WORKERS=1)
    other = queue + "-other"
    with (daemon.client() as client, Wire(daemon.address) as another,
          psycopg.connect(daemon.conninfo, autocommit=True) as database, psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, "first", partition="p")
        client.push(other, "first", partition="p")
        assert data(client.pop(other, "p", autoAck=True)) == ["first"]
        holder.execute("SELECT 1 FROM queend.queues q WHERE q.name = %s FOR UPDATE", (queue,))
        wires = [Wire(daemon.address) for _ in range(MANY)]
        for wire in wires:
            wire.send(request("GET", "/livez"))
            assert wire.receive().status == 200
        stand(daemon.pid)
        for number, wire in enumerate(wires):
            wire.send(request("GET", f"/api/v1/pop/queue/{queue}?consumerGroup=g{number}"))
        os.kill(daemon.pid, signal.SIGCONT)
        until(lambda: jobs(client) == MANY, "all have arrived")
        until(lambda: locked(database) > 1, "groups wait for the lock")
        another.send(push(other, "second"))
        assert another.receive().status == 201
        (message,) = client.pop(other, "p")
        assert message["data"] == "second" and client.ack(message)["success"]
        holder.rollback()
        for wire in wires:
            assert wire.receive().status == 200
            wire.close()


LANES = 1903519076      # class of the advisory locks of lanes


def test_pushes_that_wait_leave_connections_to_others(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Each push stream waits for a lane that another session has locked, and one connection is left: it is not kept for
    pushes, and messages of another queue are popped."""
    streams = 3
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_SLOTS=streams + 1, QUEEND_PUSH_STREAMS=streams)
    other = queue + "-other"
    with (daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder):
        client.push(other, "first", "second", partition="p")
        assert data(client.pop(other, "p", autoAck=True)) == ["first"]
        client.push_items([{"queue": queue, "partition": str(n), "payload": n} for n in range(30)])
        partitions = database.execute("SELECT p.id, p.name FROM queend.partitions p JOIN queend.queues q"
                                      " ON q.id = p.queue_id WHERE q.name = %s", (queue,)).fetchall()
        wires = []
        for number, name in {number % 64 % streams: (number, name) for number, name in partitions}.values():
            holder.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LANES, number % 64))
            wires.append(Wire(daemon.address))
            wires[-1].send(request("POST", "/api/v1/push", json.dumps(
                {"items": [{"queue": queue, "partition": name, "payload": "waits"}]}).encode()))
        assert len(wires) == streams
        until(lambda: locked(database) == streams, "the pushes wait for their lanes")
        assert data(client.pop(other, "p")) == ["second"]
        holder.rollback()
        for wire in wires:
            assert wire.receive().status == 201
            wire.close()


def test_pages_of_one_connection_leave_pages_to_others(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """A connection asks for more pages than the control plane has connections to the database, and each waits for a
    lock. The page of another connection, which needs no lock, is answered."""
    daemon = start_daemon()
    with (daemon.client() as client, Wire(daemon.address) as one,
          psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, "first")
        holder.execute("LOCK TABLE queend.trace_names IN ACCESS EXCLUSIVE MODE")
        one.send(request("GET", "/api/v1/traces/names") * 20)
        until(lambda: locked(database), "a page waits for the lock")
        assert client.get("/api/v1/dlq").status == 200
        holder.rollback()
        for _ in range(20):
            assert one.receive().status == 200


CROWD = 100


def test_pages_of_one_address_leave_pages_to_others(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Of many connections of one address that ask for pages, some wait in the control plane: the page of another
    address is answered before the last of them. Metrics are answered meanwhile, to that address as well."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_REQUEST_LOG="all", DB_CONNECTION_TIMEOUT=60_000)
    with (daemon.client() as client, Wire(daemon.address, source="127.0.0.2") as other,
          contextlib.ExitStack() as opened, psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, "first")
        holder.execute("LOCK TABLE queend.trace_names IN ACCESS EXCLUSIVE MODE")
        crowd = [opened.enter_context(Wire(daemon.address)) for _ in range(CROWD)]
        for one in crowd:
            one.send(request("GET", "/api/v1/traces/names"))
        until(lambda: client.metric("queend_worker_requests") > CROWD, "all have arrived")
        other.send(request("GET", "/api/v1/traces/names", headers={"X-Request-Id": "other"}))
        until(lambda: client.metric("queend_worker_requests") > CROWD + 1, "the other's has arrived")
        holder.rollback()
        assert [one.receive().status for one in (*crowd, other)] == [200] * (CROWD + 1)

    def answered() -> list[str]:
        return [line.get("request", "") for line in list(daemon.log)
                if line["event"] == "request" and line["path"] == "/api/v1/traces/names"]
    until(lambda: len(answered()) == CROWD + 1, "the log has them all")
    assert answered().index("other") < CROWD * 0.9


def test_pages_of_one_address_leave_connections_to_others(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Of many pages of one address, each waits for a lock. The page of another address, which needs no lock, is
    answered meanwhile."""
    daemon = start_daemon(NUM_WORKERS=1, DB_CONNECTION_TIMEOUT=60_000)
    with (daemon.client() as client, Wire(daemon.address, source="127.0.0.2") as other,
          contextlib.ExitStack() as opened, psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, "first")
        holder.execute("LOCK TABLE queend.trace_names IN ACCESS EXCLUSIVE MODE")
        crowd = [opened.enter_context(Wire(daemon.address)) for _ in range(CROWD)]
        for one in crowd:
            one.send(request("GET", "/api/v1/traces/names"))
        until(lambda: client.metric("queend_worker_requests") > CROWD, "all have arrived")
        until(lambda: locked(database) > 2, "pages wait for the lock")
        other.send(request("GET", "/api/v1/dlq"))
        assert other.receive().status == 200
        holder.rollback()
        assert [one.receive().status for one in crowd] == [200] * CROWD


LEFT = 20


def test_pages_of_clients_that_left_are_not_begun(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Connections that have sent many requests for pages are cut. What the control plane had not begun, it leaves
    out: a queue that the last of them configures is not made."""
    daemon = start_daemon(NUM_WORKERS=1, DB_CONNECTION_TIMEOUT=60_000)
    with (daemon.client() as client, contextlib.ExitStack() as opened,
          psycopg.connect(daemon.conninfo, autocommit=True) as database, psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, "first")
        holder.execute("LOCK TABLE queend.trace_names IN ACCESS EXCLUSIVE MODE")
        crowd = [opened.enter_context(Wire(daemon.address)) for _ in range(LEFT)]
        for one in crowd:
            one.send(request("GET", "/api/v1/traces/names") * LEFT
                     + request("POST", "/api/v1/configure", json.dumps({"queue": queue + "-never"}).encode()))
        until(lambda: client.metric("queend_worker_requests") > LEFT * (LEFT + 1), "all have arrived")
        for one in crowd:
            one.abort()
        until(lambda: client.metric("queend_worker_connections") == 1, "the daemon knows that they left")
        holder.rollback()
        until(lambda: client.metric("queend_worker_requests") == 1, "no request of theirs is left")
        assert not database.execute("SELECT FROM queend.queues WHERE name = %s", (queue + "-never",)).rowcount


LARGE, LARGE_MOST = 12, 1      # requests of nearly 1 MiB, and how many of them the control plane works on (1 MiB)


def test_large_requests_to_the_control_plane_wait_before_they_are_parsed(start_daemon: Callable[..., Daemon],
                                                                         queue: str) -> None:
    """Parsed, a body takes several times its size. A large request of another address is answered meanwhile."""
    daemon = start_daemon()
    text = "x" * 1_000_000
    with (daemon.client() as client, contextlib.ExitStack() as stack,
          psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder):
        client.push(queue, "first")
        message, = client.pop(queue)
        trace = json.dumps({"transactionId": message["transactionId"], "partitionId": message["partitionId"],
                            "traceNames": ["n"], "data": {"text": text}}).encode()
        holder.execute("LOCK TABLE queend.trace_names IN ACCESS EXCLUSIVE MODE")
        wires = [stack.enter_context(Wire(daemon.address)) for _ in range(LARGE)]
        for wire in wires:
            wire.send(request("POST", "/api/v1/traces", trace))
        waiting = ("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                   " AND wait_event_type = 'Lock'")
        until(lambda: database.execute(waiting).fetchone()[0] >= LARGE_MOST, "traces wait for the lock")
        other = stack.enter_context(Wire(daemon.address, source="127.0.0.2"))
        other.send(request("POST", "/api/v1/configure",
                           json.dumps({"queue": f"{queue}-other", "options": {}, "note": text}).encode()))
        assert other.receive().status == 200
        assert database.execute(waiting).fetchone()[0] == LARGE_MOST
        holder.rollback()
        for wire in wires:
            assert wire.receive().status == 201


POLLS, POLLED = 3840, 300      # long polls of a namespace, and its queues


def test_polls_that_are_woken_together_take_turns(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Each looks at all queues of its namespace. A request that comes after they were woken is answered before most of
    them have looked."""
    daemon = start_daemon(NUM_WORKERS=1)
    poll = request("GET", pop_target(None, namespace=queue, consumerGroup="g", wait=True, timeout=100_000))
    with daemon.client() as client, daemon.client() as other, contextlib.ExitStack() as stack:
        for number in range(POLLED):
            client.send("POST", "/api/v1/configure", json.dumps({"queue": f"{queue}-{number}",
                                                                 "namespace": queue}).encode())
        for _ in range(POLLED):
            assert client.receive().status == 200
        wires = [stack.enter_context(Wire(daemon.address)) for _ in range(60)]
        for wire in wires:
            wire.send(poll * (POLLS // len(wires)))
        until(lambda: client.parked() == POLLS, "all wait")
        waiting = []
        for number in range(1, 6):
            client.push(f"{queue}-{number}", 1)               # wakes all of them
            other.send("GET", "/livez")
            other.send("GET", "/api/v1/system/live")          # counted at once, however late the test reads the answers
            assert other.receive().status == 200
            waiting.append(other.receive().json["parked"])
            until(lambda number=number: client.parked() == POLLS - number, "all but one wait again")
        assert sorted(waiting)[2] < POLLS // 2, waiting


def test_a_partition_whose_lane_is_held_gives_way_to_others(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Each statement for it takes as long as a statement may. Its items are not all tried one by one."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1, DB_STATEMENT_TIMEOUT=1500, QUEEND_PATIENCE_MS=500)
    items = json.dumps({"items": [{"queue": queue, "partition": "p0", "payload": n} for n in range(1000)]}).encode()
    with (daemon.client() as client, Wire(daemon.address) as wire, psycopg.connect(daemon.conninfo) as holder,
          psycopg.connect(daemon.conninfo, autocommit=True) as database):
        client.push_items([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(2)])
        (number,) = database.execute("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                                     " WHERE q.name = %s AND p.name = 'p0'", (queue,)).fetchone()
        holder.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LANES, number & 63))
        wire.send(request("POST", "/api/v1/push", items))
        until(lambda: locked(database), "the push waits for its lane")
        with daemon.client(20) as other:
            assert other.push(queue, "other", partition="p1")[0]["status"] == "queued"
        assert wire.receive().status == 503
        holder.rollback()
        wire.send(request("POST", "/api/v1/push", items))
        assert {one["status"] for one in wire.receive().json} == {"queued"}


def test_a_batch_with_many_duplicates_is_split(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Pushes that have the same 9000 ids arrive while a lane is held. An error of one item splits their batch again and
    again. Each duplicate stays with its first occurrence."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1)
    rows, pushes = 9000, 20
    names = {"queue": [queue] * rows, "partition": ["p"] * rows, "payload": ["1"] * rows}
    batch = pa.record_batch({**{name: pa.array(values).dictionary_encode() for name, values in names.items()},
                             "transactionId": [str(uuid.uuid4()) for _ in range(rows)]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    one = request("POST", "/api/v1/push?format=counts", sink.getvalue().to_pybytes(),
                  {"Content-Type": "application/vnd.apache.arrow.stream"})
    with (daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database,
          psycopg.connect(daemon.conninfo) as holder, contextlib.ExitStack() as stack):
        client.push(queue, "first", partition="p")
        database.execute("ALTER TABLE queend.log ADD CONSTRAINT small CHECK (n < 600) NOT VALID")
        holder.execute("SELECT pg_advisory_xact_lock(%s, lane) FROM generate_series(0, 63) AS lane", (LANES,))
        held = stack.enter_context(Wire(daemon.address))
        held.send(push(queue, "held"))
        until(lambda: locked(database), "a push waits for the lane")
        wires = [stack.enter_context(Wire(daemon.address)) for _ in range(pushes)]
        for wire in wires:
            wire.send(one)
        until(lambda: jobs(client) > 10, "as many have arrived as there is room for")
        holder.rollback()
        assert held.receive().status == 201
        told = [wire.receive().json for wire in wires]
        assert sum(answer["queued"] for answer in told) == rows
        assert sum(answer["duplicate"] for answer in told) == rows * (pushes - 1)
