"""An answer says success exactly where the database has changed: every route that changes anything, every status."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from support.client import Client, ack_of
from support.daemon import Daemon
from support.http import Answer

from queend.control import app  # noqa: F401 - it declares the routes
from queend.control.http.hot_routes import HOT
from queend.control.http.route import ROUTES

# What a change is seen by. Moments, versions and hints are no change.
SHOWN = {
    "queues": "to_jsonb(t) - 'epoch' - 'updated_at'", "partitions": "to_jsonb(t)", "holes": "to_jsonb(t)",
    "log": "jsonb_build_array(partition_id, base, n)", "floors": "to_jsonb(t)", "dead_letters": "to_jsonb(t)",
    "cursors": "to_jsonb(t) - 'consumed_at' - 'row_base'", "consumer_groups": "to_jsonb(t)", "traces": "to_jsonb(t)",
    "paused": "to_jsonb(t)", "schedule": "to_jsonb(t)", "stream_queries": "to_jsonb(t) - 'updated_at'",
    "stream_state": "to_jsonb(t)",
    "system_state": "CASE WHEN key LIKE '%maintenance_mode' THEN to_jsonb(t) - 'changed_at' END",
}
STATE = " UNION ALL ".join(f"SELECT '{table}', array_agg(({one})::text ORDER BY ({one})::text) FROM queend.{table} t"
                           for table, one in SHOWN.items())
# Numbers and flags that say how much was done, beside a `success`.
EXTENT = ("changed", "moved", "updated", "fresh", "count", "deleted", "redriven", "rowsUpdated",
          "partitionsUpdated", "erased")
NOWHERE = "00000000-0000-0000-0000-000000000000"


@dataclass
class Stage:
    """Two queues that a case may do anything with. Group g holds the first of three messages, group given gave its
    lease back, group fresh was made and given nothing, and nobody knows the group nobody."""

    client: Client
    db: psycopg.Connection
    queue: str
    held: dict = field(default_factory=dict)         # what g holds
    rest: list[dict] = field(default_factory=list)   # the others, as another group was given them
    query: str = NOWHERE                             # of a stream

    def __post_init__(self) -> None:
        self.client.configure(self.queue, retryLimit=5)
        self.client.push(self.queue, 1, 2, 3)
        (self.held,) = self.client.pop(self.queue, consumerGroup="g")
        given = self.client.pop(self.queue, consumerGroup="given", batch=3)
        self.client.ack(given[0], "retry", "given")
        self.rest = given[1:]
        assert self.client.pop(self.queue, consumerGroup="fresh", subscriptionMode="new") == []

    def post(self, target: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        return self.client.request("POST", target.replace("QUEUE", quote(self.queue)), body, headers)

    def delete(self, target: str) -> Answer:
        return self.client.request("DELETE", target.replace("QUEUE", quote(self.queue)))

    def get(self, target: str) -> Answer:
        return self.client.get(target.replace("QUEUE", quote(self.queue)))

    def at(self, message: dict) -> str:
        return f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}"

    def named(self, message: dict) -> str:
        return (f"/api/v1/queues/{quote(self.queue)}/partitions/{quote(message['partition'])}/messages/"
                f"{message['transactionId']}")

    def push(self, *items: dict) -> Answer:
        return self.post("/api/v1/push", {"items": [{"queue": self.queue, **one} for one in items]})

    def transaction(self, *operations: dict, **more: object) -> Answer:
        push = {"type": "push", "items": [{"queue": self.queue, "payload": 1}]}
        return self.post("/api/v1/transaction", {"operations": [push, *operations], **more})

    def state(self) -> dict[str, Any]:
        return dict(self.db.execute(STATE).fetchall())


def said(answer: Answer) -> bool:
    """Whether an answer claims that something was done."""
    if answer.status >= 400:
        return False
    told = answer.json
    if isinstance(told, list):
        return any(one.get("success", one.get("status") == "queued") and not one.get("noop") for one in told)
    if told.get("success") is False or told.get("existed") is False or told.get("messages") == []:
        return False
    if "entries" in told:
        return all("error" not in one for one in told["entries"])
    extent = [told[key] for key in EXTENT if key in told]
    return any(extent) if extent else True


@dataclass
class Case:
    name: str
    route: str
    ask: Callable[[Stage], Answer]
    done: bool
    before: Callable[[Stage], object] = lambda stage: None


def acknowledged(stage: Stage, message: dict, status: str, group: str, named: bool, **more: object) -> dict:
    return ack_of({**stage.held, **message}, status, named, consumerGroup=group, **more)


# The standing of a group: its name, the message, what was done before, and whether there is a lease on the message.
STANDINGS: dict[str, tuple[str, Callable[[Stage], dict], Callable[[Stage], object], bool]] = {
    "held": ("g", lambda s: s.held, lambda s: None, True),
    "done": ("g", lambda s: s.held, lambda s: s.client.ack(s.held, group="g"), False),
    "not delivered yet": ("g", lambda s: s.rest[0], lambda s: None, False),
    "lease given back": ("given", lambda s: s.rest[0], lambda s: None, False),
    "group given nothing": ("fresh", lambda s: s.held, lambda s: None, False),
    "unknown group": ("nobody", lambda s: s.held, lambda s: None, False),
    "queue mode": ("__QUEUE_MODE__", lambda s: s.held, lambda s: None, False),
    "unknown message": ("g", lambda s: {**s.held, "transactionId": "nope"}, lambda s: None, False),
    "unknown partition": ("g", lambda s: {**s.held, "partitionId": NOWHERE}, lambda s: None, False),
}


def acks() -> Iterator[Case]:
    """Every status of an acknowledgment, of every standing of its group, alone, in a batch and in a transaction."""
    for (word, (group, message, before, held)), named, status in itertools.product(
            STANDINGS.items(), (True, False), ("completed", "success", "failed", "dlq", "retry", "cumulative")):
        text = "completed" if status == "cumulative" else status
        more = {"cumulative": True} if status == "cumulative" else {}

        def one(s: Stage, message=message, text=text, group=group, named=named, more=more) -> dict:
            return ack_of({**s.held, **message(s)}, text, named, consumerGroup=group, **more)

        def alone(s: Stage, one=one) -> Answer:
            return s.post("/api/v1/ack", one(s))

        def batch(s: Stage, one=one, group=group) -> Answer:
            return s.post("/api/v1/ack/batch", {"consumerGroup": group, "acknowledgments": [one(s)]})

        def transaction(s: Stage, one=one) -> Answer:
            return s.post("/api/v1/transaction", {"operations": [
                {"type": "push", "items": [{"queue": f"{s.queue}-out", "payload": 1}]}, {"type": "ack", **one(s)}]})
        name = f"{status} {word}{'' if named else ', no lease named'}"
        yield Case(name, "POST /api/v1/ack", alone, held, before)
        yield Case(f"{name}, batch", "POST /api/v1/ack/batch", batch, held, before)
        # What is done needs no lease unless one is named: the push is what changes then.
        done = word == "done" and not named and text in ("completed", "success")
        yield Case(f"{name}, transaction", "POST /api/v1/transaction", transaction,
                   held and status != "retry" or done, before)


def dead(stage: Stage) -> None:
    stage.client.ack(stage.held, "dlq", "g")


def twice(stage: Stage, target: str, body: Any = None) -> None:
    assert stage.post(target, body).status < 300


def query(stage: Stage) -> None:
    made = stage.post("/streams/v1/queries", {"name": stage.queue, "source_queue": stage.queue, "config_hash": "1"})
    stage.query = made.json["query_id"]


def cycle(stage: Stage, group: str = "g", **ack: object) -> Answer:
    return stage.post("/streams/v1/cycle", {
        "query_id": stage.query, "partition_id": stage.held["partitionId"], "consumer_group": group,
        "state_ops": [{"type": "upsert", "key": "k", "value": 1}],
        "push_items": [{"queue": stage.queue, "payload": 1}],
        "ack": {"transactionId": stage.held["transactionId"], "status": "completed", **ack}})


def others() -> Iterator[Case]:
    configure = {"queue": "QUEUE", "options": {"retryLimit": 7}}
    seek = "/api/v1/consumer-groups/{}/queues/QUEUE"
    wanted = {"name": "QUEUE", "source_queue": "QUEUE", "config_hash": "1"}

    def case(name: str, route: str, done: bool, ask: Callable[[Stage], Answer],
             before: Callable[[Stage], object] = lambda stage: None) -> Case:
        return Case(name, route, ask, done, before)

    def named(body: dict) -> Callable[[Stage], dict]:
        return lambda s: {key: s.queue if value == "QUEUE" else value for key, value in body.items()}

    push, pop = "POST /api/v1/push", "GET /api/v1/pop/queue/{queue}"
    item = {"payload": 1, "transactionId": "t"}
    yield case("configure", "POST /api/v1/configure", True, lambda s: s.post("/api/v1/configure", named(configure)(s)))
    yield case("configure, bad", "POST /api/v1/configure", False, lambda s: s.post(
        "/api/v1/configure", {"queue": s.queue, "options": {"leaseTime": "x"}}))
    yield case("push", push, True, lambda s: s.push(item))
    yield case("push again", push, False, lambda s: s.push(item),
               lambda s: s.client.push(s.queue, 1, transactionId="t"))
    yield case("push, one bad", push, False, lambda s: s.push(item, {"queue": 5}))
    yield case("push, full", push, False, lambda s: s.push(item),
               lambda s: s.client.configure(s.queue, maxSize=1))
    yield case("push in maintenance", push, False, lambda s: s.push(item),
               lambda s: twice(s, "/api/v1/system/maintenance", {"enabled": True}))
    for event, done in (({"specversion": "1.0", "id": "1", "source": "s", "type": "t"}, True), ({"id": "1"}, False)):
        yield case(f"events, {done}", "POST /api/v1/events/{queue}", done, lambda s, event=event: s.post(
            "/api/v1/events/QUEUE", event, {"content-type": "application/cloudevents+json"}))
    yield case("pop", pop, True, lambda s: s.get("/api/v1/pop/queue/QUEUE?consumerGroup=given"))
    yield case("pop autoAck", pop, True, lambda s: s.get("/api/v1/pop/queue/QUEUE?consumerGroup=given&autoAck=true"))
    yield case("pop, leased", pop, False, lambda s: s.get("/api/v1/pop/queue/QUEUE?consumerGroup=g&autoAck=true"))
    yield case("pop, nothing", pop, False, lambda s: s.get("/api/v1/pop/queue/QUEUE?consumerGroup=fresh"))
    yield case("pop of a partition", pop + "/partition/{partition}", True, lambda s: s.get(
        "/api/v1/pop/queue/QUEUE/partition/Default?consumerGroup=given"))
    yield case("pop of no partition", pop + "/partition/{partition}", False, lambda s: s.get(
        "/api/v1/pop/queue/QUEUE/partition/none?consumerGroup=given"))
    yield case("pop by namespace", "GET /api/v1/pop", False, lambda s: s.get("/api/v1/pop?namespace=QUEUE-none"))
    yield case("push twice in a transaction", "POST /api/v1/transaction", False, lambda s: s.post(
        "/api/v1/transaction", {"operations": [{"type": "push", "items": [{"queue": s.queue, **item}] * 2}]}))
    yield case("unknown operation", "POST /api/v1/transaction", False, lambda s: s.transaction(
        {"type": "x"}))
    for lease, done in (("leaseId", True), (None, False)):
        yield case(f"required lease, {done}", "POST /api/v1/transaction", done, lambda s, lease=lease: s.transaction(
            requiredLeases=[s.held[lease] if lease else NOWHERE]))
        yield case(f"extend, {done}", "POST /api/v1/lease/{leaseId}/extend", done, lambda s, lease=lease: s.post(
            f"/api/v1/lease/{s.held[lease] if lease else NOWHERE}/extend", {"seconds": 3600}))
    yield case("extend what is done", "POST /api/v1/lease/{leaseId}/extend", False, lambda s: s.post(
        f"/api/v1/lease/{s.held['leaseId']}/extend", {"seconds": 3600}), lambda s: s.client.ack(s.held, group="g"))
    yield case("cycle", "POST /streams/v1/cycle", True, lambda s: cycle(s, leaseId=s.held["leaseId"]),
               query)
    yield case("cycle for whoever holds it", "POST /streams/v1/cycle", True, cycle, query)
    yield case("cycle, another lease", "POST /streams/v1/cycle", False, lambda s: cycle(s, leaseId=NOWHERE), query)
    yield case("cycle, unknown query", "POST /streams/v1/cycle", False, cycle)
    yield case("cycle, unknown message", "POST /streams/v1/cycle", False, lambda s: cycle(s, transactionId="nope"),
               query)
    for group in ("given", "fresh", "nobody"):
        yield case(f"cycle of {group}", "POST /streams/v1/cycle", False, lambda s, group=group: cycle(s, group),
                   query)
    register = "POST /streams/v1/queries"
    yield case("register", register, True, lambda s: s.post("/streams/v1/queries", named(wanted)(s)))
    yield case("register again", register, False, lambda s: s.post("/streams/v1/queries", named(wanted)(s)),
               lambda s: twice(s, "/streams/v1/queries", named(wanted)(s)))
    yield case("register otherwise", register, False, lambda s: s.post(
        "/streams/v1/queries", {**named(wanted)(s), "config_hash": "2"}),
        lambda s: twice(s, "/streams/v1/queries", named(wanted)(s)))
    for group, of, done in (("given", "QUEUE", True), ("nobody", "QUEUE", False)):
        for place in ("", "/partitions/Default"):
            path = seek.format(group) + place + "/seek"
            route = "POST /api/v1/consumer-groups/{group}/queues/{queue}" + place.replace("Default", "{partition}")
            yield case(f"seek{place} of {group}", route + "/seek", done, lambda s, path=path: s.post(
                path, {"offset": 2}))
        for word in ("pause", "resume"):
            yield case(f"{word} {group}", f"POST /api/v1/consumer-groups/{{group}}/queues/{{queue}}/{word}",
                       done and word == "pause", lambda s, word=word, group=group: s.post(
                           f"{seek.format(group)}/{word}"))
        yield case(f"delete {group}", "DELETE /api/v1/consumer-groups/{group}", done, lambda s, group=group: s.delete(
            f"/api/v1/consumer-groups/{group}"))
        yield case(f"delete {group} of a queue", "DELETE /api/v1/consumer-groups/{group}/queues/{queue}", done,
                   lambda s, group=group: s.delete(seek.format(group)))
    for name in ("QUEUE", "QUEUE-none"):
        yield case(f"offsets of {name}", "POST /api/v1/consumer-groups/{group}/offsets", name == "QUEUE",
                   lambda s, name=name: s.post("/api/v1/consumer-groups/reader/offsets", {
                       "entries": [{"queue": name.replace("QUEUE", s.queue), "offset": 1}]}))
    yield case("subscription", "POST /api/v1/consumer-groups/{group}/subscription", True, lambda s: s.post(
        "/api/v1/consumer-groups/fresh/subscription", {"subscriptionTimestamp": "2024-01-01T00:00:00Z"}))
    yield case("no subscription", "POST /api/v1/consumer-groups/{group}/subscription", False, lambda s: s.post(
        "/api/v1/consumer-groups/nobody/subscription", {"subscriptionTimestamp": "2024-01-01T00:00:00Z"}))
    yield case("resume a queue that was paused", "POST /api/v1/queues/{queue}/resume", True, lambda s: s.post(
        "/api/v1/queues/QUEUE/resume"), lambda s: twice(s, "/api/v1/queues/QUEUE/pause"))
    yield case("pause again", "POST /api/v1/queues/{queue}/pause", False, lambda s: s.post(
        "/api/v1/queues/QUEUE/pause"), lambda s: twice(s, "/api/v1/queues/QUEUE/pause"))
    for word, verb in (("clear", "/api/v1/queues/QUEUE/clear"), ("delete", "/api/v1/resources/queues/QUEUE")):
        route = f"DELETE {verb.replace('QUEUE', '{queue}')}"
        yield case(word, route, True, lambda s, verb=verb: s.delete(verb))
        yield case(f"{word} none", route, False, lambda s, verb=verb: s.delete(verb.replace("QUEUE", "QUEUE-none")))
    yield case("clear again", "DELETE /api/v1/queues/{queue}/clear", False, lambda s: s.delete(
        "/api/v1/queues/QUEUE/clear"), lambda s: s.delete("/api/v1/queues/QUEUE/clear"))
    route = "DELETE /api/v1/queues/{queue}/partitions/{partition}"
    for word, changes, name in (("", True, "Default"), (" none", False, "none")):
        yield case(f"delete a partition{word}", route, changes,
                   lambda s, name=name: s.delete(f"/api/v1/queues/QUEUE/partitions/{name}"))
    route, erase = "POST /api/v1/queues/{queue}/erase", "/api/v1/queues/QUEUE/erase"
    for word, changes, body in (("", True, {"text": "2"}), (" nothing", False, {"text": "none"}),
                                (" in a dry run", False, {"text": "1", "dryRun": True}), (" all", False, {})):
        yield case(f"erase{word}", route, changes, lambda s, body=body: s.post(erase, body))
    by_id = "/api/v1/messages/{partition}/{transaction_id}"
    by_names = "/api/v1/queues/{queue}/partitions/{partition}/messages/{transaction_id}"
    for form, message, at in (("", by_id, Stage.at), (" by names", by_names, Stage.named)):
        yield case(f"delete a message{form}", f"DELETE {message}", True, lambda s, at=at: s.delete(at(s, s.held)))
        yield case(f"delete it again{form}", f"DELETE {message}", False, lambda s, at=at: s.delete(at(s, s.held)),
                   lambda s, at=at: s.delete(at(s, s.held)))
        yield case(f"delete no message{form}", f"DELETE {message}", False,
                   lambda s, at=at: s.delete(at(s, {**s.held, "transactionId": "no"})))
        yield case(f"retry{form}", f"POST {message}/retry", True,
                   lambda s, at=at: s.post(at(s, s.held) + "/retry"), dead)
        yield case(f"retry what is no dead letter{form}", f"POST {message}/retry", False,
                   lambda s, at=at: s.post(at(s, s.held) + "/retry"))
        yield case(f"bury{form}", f"POST {message}/dlq", True, lambda s, at=at: s.post(at(s, s.held) + "/dlq"))
        yield case(f"bury again{form}", f"POST {message}/dlq", False, lambda s, at=at: s.post(at(s, s.held) + "/dlq"),
                   lambda s, at=at: twice(s, at(s, s.held) + "/dlq"))
    for before, done in ((dead, True), (lambda s: None, False)):
        yield case(f"redrive, {done}", "POST /api/v1/dlq/redrive", done, lambda s: s.post(
            "/api/v1/dlq/redrive", {"queue": s.queue}), before)
        yield case(f"purge, {done}", "DELETE /api/v1/dlq", done, lambda s: s.delete("/api/v1/dlq?queue=QUEUE"), before)
    for name, done in (("held", True), ("none", False)):
        yield case(f"trace, {name}", "POST /api/v1/traces", done, lambda s, done=done: s.post("/api/v1/traces", {
            "transactionId": s.held["transactionId"] if done else "none", "partitionId": s.held["partitionId"],
            "data": 1}))
    for switch in ("", "/pop"):
        yield case(f"maintenance{switch}", f"POST /api/v1/system/maintenance{switch}", True, lambda s, switch=switch:
                   s.post(f"/api/v1/system/maintenance{switch}", {"enabled": True}))
    yield case("maintenance, bad", "POST /api/v1/system/maintenance", False, lambda s: s.post(
        "/api/v1/system/maintenance", {"enabled": "x"}))


CASES = [*acks(), *others()]


# What changes nothing that is kept, or is another database's.
LEFT = {"POST /api/v1/stats/refresh", "POST /internal/api/notify", "POST /streams/v1/state/get", "POST /api/v1/fetch",
        "POST /api/v1/fetch/offsets", "POST /api/v1/offsets", "POST /api/v1/partitions/changed",
        "POST /api/v1/kv", "POST /api/v1/locks",      # faults/test_key_history.py
        "POST /api/v1/resources/kv/list",
        "POST /api/v1/ephemeral/push", "POST /api/v1/ephemeral/ack", "POST /api/v1/ephemeral/configure",
        "POST /api/v1/ephemeral/reset", "DELETE /api/v1/ephemeral/queue/{queue}",      # test_ephemeral.py
        "POST /api/v1/timers", "DELETE /api/v1/timers/{queue}/{key}",      # faults/test_timer_history.py
        "POST /api/v1/stream/{queue}/ticket", "POST /api/v1/stream/{queue}/partition/{partition}/ticket"}


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon], tmp_path_factory: pytest.TempPathFactory) -> Daemon:
    """One with a failover buffer, as maintenance needs it."""
    return start_daemon(QUEEND_BUFFER_BYTES=1 << 24, FILE_BUFFER_DIR=tmp_path_factory.mktemp("buffer"))


@pytest.fixture
def stages(daemon: Daemon, client: Client, queue: str) -> Iterator[Callable[[], Stage]]:
    names = itertools.count()
    with psycopg.connect(daemon.conninfo, autocommit=True) as db:
        yield lambda: Stage(client, db, f"{queue}-{next(names)}")
    for switch in ("", "/pop"):
        assert client.post(f"/api/v1/system/maintenance{switch}", {"enabled": False}).status == 200


def test_every_changing_route_is_here() -> None:
    control = {route for route in ROUTES if not route.startswith("GET") and "/migration/" not in route}
    hot = {f"POST {path}" for path in HOT if "post" in HOT[path]}
    assert {case.route for case in CASES} >= (control | hot) - LEFT, (control | hot) - LEFT


def judge(stage: Stage, case: Case) -> None:
    before = stage.state()
    answer = case.ask(stage)
    after = stage.state()
    changed = [table for table in before if before[table] != after[table]]
    assert said(answer) is bool(changed) is case.done, (case.name, answer.status, answer.body, changed)
    if not said(answer) and isinstance(answer.json, list) and answer.json[0].get("success") is False:
        assert answer.json[0]["error"], (case.name, "the reason is told")


@pytest.mark.parametrize("word", STANDINGS)
def test_an_acknowledgment_says_what_was_done(stages: Callable[[], Stage], word: str) -> None:
    """What changes nothing is asked of one stage, one after the other."""
    group, message, before, held = STANDINGS[word]
    shared = stages()
    before(shared)
    for case in (case for case in acks() if case.before is before):
        stage = shared
        if case.done:
            stage = stages()
            before(stage)
        judge(stage, case)


@pytest.mark.parametrize("case", list(others()), ids=lambda case: case.name)
def test_an_answer_says_what_was_done(stages: Callable[[], Stage], case: Case) -> None:
    stage = stages()
    case.before(stage)
    judge(stage, case)
