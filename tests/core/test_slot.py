"""Slots against a real server: what a caller is told when connections are cut, killed, stalled, refused or
encrypted."""
import os
import random
import re
import signal
import socket
import ssl
import struct

import pytest
import trustme
from support.proxy import CUT, MUTE, PostgresTlsFront, one_by_one, pass_on, swallow

ECHO = ("echo", "qy")


def q(v):
    return struct.pack(">q", v)


@pytest.fixture(scope="module", autouse=True)
def functions(cluster):
    cluster.execute("""CREATE FUNCTION queend.echo(a bigint, b bytea) RETURNS TABLE(a1 bigint, b1 bytea)
                       LANGUAGE sql AS 'SELECT a, b'""")
    cluster.execute("CREATE TABLE queend.noted (n bigint, PRIMARY KEY (n) DEFERRABLE INITIALLY DEFERRED)")
    cluster.execute("""CREATE FUNCTION queend.note(v bigint) RETURNS TABLE(n bigint) LANGUAGE sql AS
                       'INSERT INTO queend.noted VALUES (v) RETURNING noted.n'""")
    cluster.execute("""CREATE FUNCTION queend.wait_and_note(v bigint) RETURNS TABLE(n bigint) LANGUAGE sql AS
                       'SELECT pg_advisory_xact_lock(77); INSERT INTO queend.noted VALUES (v) RETURNING noted.n'""")
    cluster.execute("""CREATE FUNCTION queend.note_late(v bigint) RETURNS TABLE(n bigint) LANGUAGE sql AS
                       'INSERT INTO queend.noted SELECT v FROM pg_sleep(0.002) RETURNING noted.n'""")


@pytest.fixture(autouse=True)
def nothing_noted(cluster, functions):
    cluster.execute("TRUNCATE queend.noted")


def noted(cluster):
    return [n for n, in cluster.execute("SELECT n FROM queend.noted ORDER BY n")]


def lines(capfd, event):
    """Details of the log lines of one event since the last look."""
    return re.findall(rf'"event":"{event}"(?:,"detail":"((?:[^"\\]|\\.)*)")?', capfd.readouterr().err)


class Held:
    """Holds the lock that wait_and_note waits for, and knows who waits."""

    def __init__(self, cluster):
        self.connection = cluster.connect()
        self.connection.execute("SELECT pg_advisory_lock(77)")

    def waiter(self):
        row = self.connection.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 77"
                                      " AND NOT granted").fetchone()
        return row and row[0]

    def release(self):
        self.connection.close()


@pytest.fixture
def held(cluster):
    held = Held(cluster)
    yield held
    held.release()


# -- statements -------------------------------------------------------------------------------------------------------

def test_each_call_gets_its_own_answer(open_pool):
    pool = open_pool(slots=3, statements=[ECHO])
    tickets = [pool.begin(0, q(i), bytes(i)) for i in range(500)]
    for i, ticket in enumerate(tickets):
        answer = pool.end(ticket)
        assert (answer.outcome, answer.rows, answer.callbacks, answer.statement) == ("ok", [[q(i), bytes(i)]], 1, 0)


def test_the_callback_can_send_the_next_statement_on_its_slot(open_pool):
    pool = open_pool(slots=2, statements=[ECHO])
    answer = pool.call(0, q(5), b"again", chain=200)
    assert (answer.outcome, answer.callbacks) == ("ok", 201)


def test_null_and_no_rows(open_pool):
    pool = open_pool(statements=[ECHO])
    assert pool.call(0, None, b"").rows == [[None, b""]]
    assert pool.call("SELECT 1 WHERE false").rows == []


def test_a_refused_statement_leaves_the_connection_in_service(open_pool):
    pool = open_pool(statements=[ECHO])
    before = pool.call("SELECT pg_backend_pid()").rows
    answer = pool.call("SELECT 1/0")
    assert (answer.outcome, answer.state, answer.message, answer.rows) == ("error", "22012", "division by zero", None)
    assert pool.call(0, q(1), b"").outcome == "ok"
    assert pool.call("SELECT pg_backend_pid()").rows == before
    assert pool.probe.counters()[2] == 1


def test_rows_do_not_count_until_the_transaction_has_committed(cluster, open_pool):
    pool = open_pool(statements=[("note", "q")])
    assert pool.call(0, q(1)).outcome == "ok"
    answer = pool.call(0, q(1))           # the key is checked at commit, after the rows were sent
    assert (answer.outcome, answer.state, answer.rows) == ("error", "23505", None)
    assert noted(cluster) == [1]


def test_megabytes_in_both_directions_on_every_slot(open_pool):
    pool = open_pool(slots=2, statements=[ECHO])
    blobs = [os.urandom(1 << 20) * 12 for _ in range(4)]
    tickets = [pool.begin(0, q(i), blob) for i, blob in enumerate(blobs)]
    for ticket, blob in zip(tickets, blobs):
        assert pool.end(ticket, 60).rows[0][1] == blob


def test_notices_do_not_reach_standard_error(open_pool, capfd):
    pool = open_pool()
    assert pool.call("DO $$ BEGIN RAISE WARNING 'private'; END $$").outcome == "ok"
    assert "private" not in capfd.readouterr().err


# -- connections that end ---------------------------------------------------------------------------------------------

def test_a_terminated_backend_was_not_committed_and_is_replaced(cluster, open_pool, held, capfd):
    pool = open_pool(slots=2, statements=[("wait_and_note", "q"), ECHO])
    ticket = pool.begin(0, q(1))
    pool.until(held.waiter)
    held.connection.execute("SELECT pg_terminate_backend(%s)", [held.waiter()])
    answer = pool.end(ticket)
    assert (answer.outcome, answer.state, answer.callbacks) == ("lost", "57P01", 1)
    pool.until_ready()
    held.release()
    assert pool.call(0, q(2)).outcome == "ok"
    assert noted(cluster) == [2]
    told = capfd.readouterr().err
    assert told.count("postgres_lost") == told.count("postgres_back") == 1
    assert "terminating connection due to administrator command" in told


def test_an_idle_connection_that_dies_is_replaced_before_it_is_needed(cluster, open_pool):
    pool = open_pool(slots=2, statements=[ECHO])
    pids = [pid for pid, in cluster.execute("SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_control_system%'"
                                            " AND pid <> pg_backend_pid()")]
    assert len(pids) == 2
    for pid in pids:
        cluster.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    pool.until(lambda: pool.probe.ready() == 2 and not set(pids) & backends(cluster))
    assert pool.call(0, q(1), b"x").outcome == "ok"


def backends(cluster):
    return {pid for pid, in cluster.execute("SELECT pid FROM pg_stat_activity")}


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGINT])
def test_a_restarted_server_gets_all_slots_back(cluster, open_pool, number):
    pool = open_pool(slots=4, statements=[("note", "q")])
    ticket = pool.begin("SELECT pg_sleep(60)")
    pool.until(lambda: cluster.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
    cluster.halt(number)
    try:
        assert pool.end(ticket).outcome == "lost"
        pool.until(lambda: pool.probe.ready() == 0)
        waiting = pool.begin(0, q(2))     # sent as soon as one slot is back
    finally:
        cluster.resume()
    assert pool.end(waiting).outcome == "ok"
    pool.until_ready()
    assert noted(cluster) == [2]


def answer_length(proxy, pool):
    """Bytes of the server's answer to note()."""
    seen = []
    proxy.rule = lambda to_server, data: seen.append(b"" if to_server else data) or [data]
    assert pool.call(0, q(-1)).outcome == "ok"
    proxy.rule = pass_on
    answer = b"".join(seen)
    assert answer[-6:] == b"Z\0\0\0\5I"
    return len(answer)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_an_answer_cut_anywhere_is_never_a_success(cluster, open_pool, proxy, reset):
    pool = open_pool(cluster.dsn(port=proxy.port), statements=[("note", "q")])
    length = answer_length(proxy, pool)
    proxy.reset = reset
    points = sorted({*range(0, length, 4 + reset), *range(length - 8, length)})
    for n, at in enumerate(points):
        pool.until_ready()
        left = [at]

        def rule(to_server, data):
            if to_server:
                return [data]
            now, left[0] = data[:left[0]], left[0] - len(data)
            return [now, CUT] if left[0] < 0 else [now]

        proxy.rule = rule
        answer = pool.call(0, q(n))
        proxy.rule = pass_on
        assert (answer.outcome, answer.state, answer.rows, answer.callbacks) == ("lost", None, None, 1), at
    assert noted(cluster) == [-1, *range(len(points))]       # all of them had committed: that is what unknown means
    pool.until_ready()
    assert pool.call(0, q(10_000)).outcome == "ok"


def test_a_statement_cut_on_its_way_out_did_not_happen(cluster, open_pool, proxy):
    pool = open_pool(cluster.dsn(port=proxy.port), statements=[("note", "q")])
    for at in (0, 1, 7, 30):
        pool.until_ready()
        proxy.rule = lambda to_server, data: [data[:at], CUT] if to_server else [data]
        answer = pool.call(0, q(at))
        proxy.rule = pass_on
        assert (answer.outcome, answer.callbacks) == ("lost", 1)
    pool.until_ready()
    assert noted(cluster) == []


def test_bytes_may_come_one_at_a_time(cluster, open_pool, proxy):
    proxy.rule = one_by_one
    pool = open_pool(cluster.dsn(port=proxy.port), slots=2, statements=[ECHO, ("note", "q")])
    for i in range(20):
        assert pool.call(0, q(i), bytes(i)).rows == [[q(i), bytes(i)]]
    assert pool.call("SELECT 1/0").state == "22012"


def test_cut_in_the_middle_of_connecting(cluster, open_pool, proxy):
    for at in (0, 1, 20, 200):
        cuts = []
        left = [at]

        def rule(to_server, data):
            if to_server or cuts:
                return [data]
            now, left[0] = data[:left[0]], left[0] - len(data)
            if left[0] < 0:
                cuts.append(at)
                return [now, CUT]
            return [now]

        proxy.rule = rule
        pool = open_pool(cluster.dsn(port=proxy.port), statements=[ECHO])
        assert cuts == [at]
        assert pool.call(0, q(1), b"").outcome == "ok"


# -- time -------------------------------------------------------------------------------------------------------------

def test_no_answer_before_the_deadline(open_pool, cluster, held):
    pool = open_pool(slots=1, statements=[("wait_and_note", "q"), ECHO])
    answer = pool.call(0, q(1), deadline_ms=150)
    assert (answer.outcome, answer.state, answer.rows, answer.callbacks) == ("deadline", None, None, 1)
    pool.until_ready()
    assert pool.call(1, q(1), b"").outcome == "ok"


def test_a_short_deadline_behind_a_long_one_is_kept(open_pool, held):
    pool = open_pool(slots=1, statements=[("wait_and_note", "q"), ECHO])
    # its timer is still set when the next is sent
    assert pool.call(1, q(1), b"", deadline_ms=60_000).outcome == "ok"
    assert pool.call(0, q(1), deadline_ms=150).outcome == "deadline"


def test_a_server_that_falls_silent(cluster, open_pool, proxy, capfd):
    pool = open_pool(cluster.dsn(port=proxy.port), slots=2, statements=[ECHO])
    pool.probe.connect_within(100)
    proxy.rule = swallow
    tickets = [pool.begin(0, q(i), b"", deadline_ms=100) for i in range(2)]
    assert {pool.end(t).outcome for t in tickets} == {"deadline"}
    seen = []                             # new connections are accepted, but nobody answers
    pool.until(lambda: seen.extend(lines(capfd, "postgres_lost")) or "connecting takes too long" in seen)
    proxy.rule = pass_on
    pool.until_ready()
    assert pool.call(0, q(3), b"").outcome == "ok"


def test_the_time_to_connect_is_the_connection_string_s(cluster, open_pool):
    assert open_pool(cluster.dsn(connect_timeout=7)).probe.connect_within() == 7000
    assert open_pool(cluster.dsn()).probe.connect_within() == 10_000


# -- connections that are refused -------------------------------------------------------------------------------------

def test_nobody_listens(cluster, open_pool, proxy, capfd):
    port = proxy.port
    proxy.close()
    pool = open_pool(cluster.dsn(port=port), slots=3, statements=[ECHO], ready=False)
    pool.until(lambda: pool.probe.states() == ["broken"] * 3)
    ticket = pool.begin(0, q(1), b"")
    assert pool.probe.ready() == 0
    told = lines(capfd, "postgres_lost")
    assert len(told) == 1 and "Connection refused" in told[0]
    pool.stop()
    with pytest.raises(TimeoutError):
        pool.end(ticket, 0)               # never sent, so never answered


def test_a_wrong_password_is_told_once_and_a_right_one_is_noticed(cluster, open_pool, capfd):
    dsn = cluster.dsn(user="keeper", password="later")
    pool = open_pool(dsn, slots=3, statements=[ECHO], ready=False)
    with open(cluster.log) as log:
        pool.until(lambda: log.seek(0) == 0 and log.read().count('failed for user "keeper"') >= 9)
    told = capfd.readouterr().err
    assert told.count("postgres_lost") == 1 and "password authentication failed" in told
    assert "later" not in told
    cluster.execute("ALTER ROLE keeper PASSWORD 'later'")
    pool.until_ready()
    assert pool.call("SELECT current_user").rows == [[b"keeper"]]
    assert len(lines(capfd, "postgres_back")) == 1
    cluster.execute("ALTER ROLE keeper PASSWORD 'right'")


def test_a_schema_that_is_not_there_yet(cluster, open_pool, capfd):
    pool = open_pool(slots=2, statements=[ECHO, ("comes_later", "I")], ready=False)
    seen = []
    pool.until(lambda: seen.extend(lines(capfd, "postgres_lost")) or seen)
    assert "function queend.comes_later(integer[]) does not exist" in seen[0]
    assert pool.probe.ready() == 0
    cluster.execute("CREATE FUNCTION queend.comes_later(a int[]) RETURNS TABLE(n int) LANGUAGE sql"
                    " AS 'SELECT cardinality(a)'")
    pool.until_ready()
    cluster.execute("DROP FUNCTION queend.comes_later")


def test_a_function_that_returns_other_columns_after_a_migration(cluster, open_pool):
    cluster.execute("CREATE FUNCTION queend.grows() RETURNS TABLE(n int) LANGUAGE sql AS 'SELECT 1'")
    pool = open_pool(statements=[("grows", "")])
    assert pool.call(0).rows == [[struct.pack(">i", 1)]]
    with cluster.connect() as c, c.transaction():
        c.execute("DROP FUNCTION queend.grows()")
        c.execute("CREATE FUNCTION queend.grows() RETURNS TABLE(n int, m int) LANGUAGE sql AS 'SELECT 1, 2'")
    assert pool.call(0).state == "0A000"
    pool.until_ready()
    assert pool.call(0).rows == [[struct.pack(">i", 1), struct.pack(">i", 2)]]
    cluster.execute("DROP FUNCTION queend.grows()")


def test_too_many_connections_is_waited_out(cluster, open_pool, capfd):
    with cluster.connect() as c:
        c.execute("ALTER ROLE keeper CONNECTION LIMIT 1")
    pool = open_pool(cluster.dsn(user="keeper", password="right"), slots=2, statements=[ECHO], ready=False)
    seen = []
    pool.until(lambda: seen.extend(lines(capfd, "postgres_lost")) or seen)
    assert "too many connections" in seen[0]
    pool.until_ready(1)
    assert pool.call(0, q(1), b"").outcome == "ok"      # the one that got through serves
    cluster.execute("ALTER ROLE keeper CONNECTION LIMIT -1")
    pool.until_ready(2)


# -- names ------------------------------------------------------------------------------------------------------------

def test_a_host_name_is_looked_up_and_each_of_its_addresses_tried(cluster, open_pool):
    pool = open_pool(cluster.dsn(host="localhost"), slots=3, statements=[ECHO])
    assert pool.call(0, q(1), b"").outcome == "ok"
    assert pool.call("SELECT host(inet_server_addr())").rows == [[b"127.0.0.1"]]
    pool.call("SELECT pg_terminate_backend(pg_backend_pid())")
    pool.until_ready()                    # looked up anew
    assert pool.call(0, q(2), b"").outcome == "ok"


def test_hosts_are_tried_in_order_with_their_own_ports(cluster, open_pool, proxy):
    proxy.close()
    for host, port in [("localhost,localhost", f"{proxy.port},{cluster.port}"),
                       ("no-such-host.invalid,127.0.0.1", f"1,{cluster.port}"),
                       ("127.0.0.1,no-such-host.invalid,localhost", cluster.port),
                       (f"{cluster.data},localhost", cluster.port)]:
        pool = open_pool(cluster.dsn(host=host, port=port), slots=2, statements=[ECHO])
        assert pool.call(0, q(1), b"").outcome == "ok"


def test_a_name_nobody_knows_is_told(cluster, open_pool, capfd):
    pool = open_pool(cluster.dsn(host="no-such-host.invalid"), slots=2, ready=False)
    seen = []
    pool.until(lambda: seen.extend(lines(capfd, "postgres_lost")) or seen)
    assert "the name no-such-host.invalid cannot be looked up" in seen[0]


def test_tls_checks_the_name_not_the_address(cluster, authority, open_pool, capfd):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    front = PostgresTlsFront(cluster.port, context)
    try:
        demand = {"port": front.port, "sslmode": "verify-full", "sslrootcert": authority.file}
        assert open_pool(cluster.dsn(host="localhost", **demand), statements=[ECHO]).call(0, q(1), b"").outcome == "ok"
        open_pool(cluster.dsn(**demand), ready=False)
        seen = []
        open_pool().until(lambda: seen.extend(lines(capfd, "postgres_lost"))
                          or any("does not match host name" in s for s in seen))
    finally:
        front.close()


# -- TLS --------------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = trustme.CA()
    authority.file = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(authority.file)
    return authority


@pytest.fixture
def tls(cluster, authority):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    front = PostgresTlsFront(cluster.port, context)
    yield front
    front.close()


def test_tls_with_a_verified_server(cluster, authority, tls, open_pool):
    pool = open_pool(cluster.dsn(port=tls.port, sslmode="verify-full", sslrootcert=authority.file),
                     slots=2, statements=[ECHO])
    blob = os.urandom(3 << 20)
    tickets = [pool.begin(0, q(i), blob) for i in range(6)]
    assert all(pool.end(t).rows[0][1] == blob for t in tickets)
    assert pool.call("SELECT 1/0").state == "22012"
    assert tls.versions == ["TLSv1.3"] * 2


def test_tls_connections_come_back(cluster, authority, tls, open_pool):
    pool = open_pool(cluster.dsn(port=tls.port, sslmode="verify-full", sslrootcert=authority.file), statements=[ECHO])
    assert pool.call("SELECT pg_terminate_backend(pg_backend_pid())").state == "57P01"
    assert pool.call(0, q(1), b"").outcome == "ok"
    assert len(tls.versions) == 2


def test_a_server_with_a_certificate_of_somebody_else_is_refused(cluster, tls, open_pool, tmp_path, capfd):
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    pool = open_pool(cluster.dsn(port=tls.port, sslmode="verify-full", sslrootcert=tmp_path / "other.pem"), ready=False)
    seen = []
    pool.until(lambda: seen.extend(lines(capfd, "postgres_lost")) or seen)
    assert "certificate verify failed" in seen[0]
    assert pool.probe.ready() == 0


def test_a_server_without_tls_is_refused_when_tls_is_required(cluster, open_pool, capfd):
    pool = open_pool(cluster.dsn(sslmode="require"), ready=False)
    seen = []
    pool.until(lambda: seen.extend(lines(capfd, "postgres_lost")) or seen)
    assert "server does not support SSL" in seen[0]


# -- the end ----------------------------------------------------------------------------------------------------------

def test_closing_tells_every_statement_in_flight_once(open_pool, held, cluster):
    pool = open_pool(slots=3, statements=[("wait_and_note", "q")])
    tickets = [pool.begin(0, q(i)) for i in range(5)]
    pool.until(lambda: pool.probe.states() == ["busy"] * 3)
    pool.stop()
    answers = [pool.end(t) for t in tickets[:3]]
    assert [(a.outcome, a.state, a.callbacks) for a in answers] == [("lost", None, 1)] * 3
    for ticket in tickets[3:]:
        with pytest.raises(TimeoutError):
            pool.end(ticket, 0)


def test_closing_in_every_state(cluster, open_pool, proxy):
    for rule in (swallow, one_by_one, pass_on):
        proxy.rule = rule
        pool = open_pool(cluster.dsn(port=proxy.port), slots=3, statements=[ECHO], ready=False)
        pool.until(lambda: pool.probe.states())
        pool.stop()                       # asserts that no handle and no connection is left


def test_connections_are_closed_at_the_server_too(cluster, open_pool):
    pool = open_pool(slots=3, statements=[ECHO])
    mine = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_control_system%' AND pid <> pg_backend_pid()"
    assert len(cluster.execute(mine)) == 3
    pool.stop()
    pool.until(lambda: not cluster.execute(mine))


# -- everything at once -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(3))
def test_a_storm_of_cuts_kills_and_deadlines(cluster, open_pool, proxy, seed):
    """Each call is answered exactly once; a success is stored, a failure with a reason is not, the rest is unknown."""
    dice = random.Random(seed)
    pool = open_pool(cluster.dsn(port=proxy.port), slots=8, statements=[("note", "q"), ("note_late", "q")])
    pool.probe.connect_within(300)
    calls = 400
    pieces = [0]

    def rule(to_server, data):
        pieces[0] += 1
        fate = dice.random()
        at = dice.randrange(len(data) + 1)
        if fate < 0.02:
            return [data[:at], CUT]
        if fate < 0.03:
            return [MUTE]                 # only the deadline can tell
        return [data] if fate < 0.9 else one_by_one(to_server, data)

    proxy.rule = rule
    tickets = {n: pool.begin(dice.randrange(2), q(n), deadline_ms=dice.choice([200, 600]))
               for n in range(calls)}
    with cluster.connect() as killer:
        for _ in range(6):
            killer.execute("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                              WHERE query LIKE '%%queend.note%%' AND pid <> pg_backend_pid() ORDER BY random()
                               LIMIT 1""")
            before = pieces[0]
            pool.until(lambda: pieces[0] > before + 40 or pool.probe.waiting() == 0)
    pool.until(lambda: pool.probe.waiting() == 0)
    answers = {n: pool.end(ticket) for n, ticket in tickets.items()}
    proxy.rule = pass_on
    pool.until_ready()
    assert {a.callbacks for a in answers.values()} == {1}
    stored = set(noted(cluster))
    outcomes = {n: a.outcome for n, a in answers.items()}
    assert {n for n, o in outcomes.items() if o == "ok"} <= stored
    assert not {n: a for n, a in answers.items() if a.state and n in stored}
    assert "lost" in outcomes.values()
    assert list(outcomes.values()).count("ok") > calls // 2


def test_a_host_that_is_silent_keeps_no_other_waiting(cluster, open_pool):
    """It takes connections and says nothing: libpq would wait for it without end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        pool = open_pool(cluster.dsn(host="127.0.0.1,127.0.0.1,127.0.0.1", port=f"{port},{port},{cluster.port}",
                                     connect_timeout=2), slots=2, statements=[ECHO])
        assert pool.call(0, q(1), b"there").outcome == "ok"
