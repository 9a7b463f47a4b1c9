"""What was let in before keys, roles or queues of tokens changed, and still waits: streams, parked pops, held reads,
tickets. Tokens are verified again; who is still let in notices nothing."""
from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.callers import Caller
from support.client import ack_of, pop_target
from support.daemon import Daemon
from support.feed import Feed, stream_target
from support.socket_feed import SocketFeed
from support.tokens import SECRET, bearer, token
from support.wait import until

OTHER = "another secret of tests, which is long enough, too"
BAD = "Token verification failed: Invalid token signature"


class Site:
    """A daemon whose settings of tokens are in a file."""

    def __init__(self, daemon: Daemon, file: Path):
        self.daemon, self.file = daemon, file
        self.settings = {"jwt_enabled": "true", "jwt_secret": SECRET, "jwt_issuer": "", "jwt_role_read_write": "rw",
                         "queend_jwt_queues_claim": ""}

    def change(self, **settings: str) -> None:
        before = len([line for line in self.daemon.log if line["event"] == "reloaded"])
        self.settings |= settings
        self.file.write_text(text_of(self.settings))
        self.daemon.process.send_signal(1)
        until(lambda: len([line for line in self.daemon.log if line["event"] == "reloaded"]) > before, "reloaded")


def text_of(settings: dict[str, str]) -> str:
    return "".join(f"{name} = {value if value == 'true' else json.dumps(value)}\n" for name, value in settings.items())


@pytest.fixture
def site(start_daemon, tmp_path) -> Iterator[Site]:
    file = tmp_path / "queend.toml"
    start = Site(None, file)
    file.write_text(text_of(start.settings))
    start.daemon = start_daemon(QUEEND_CONFIG=file)
    yield start
    start.daemon.stop()


def member(**claims: object) -> str:
    return token(sub="svc", role="rw", **claims)


CHANGES = {     # what changes, and what the tokens of before are told then
    "key": ({"jwt_secret": OTHER}, 401, BAD),
    "queues": ({"queend_jwt_queues_claim": "queues"}, 403, "Insufficient permissions"),
    "role": ({"jwt_role_read_write": "other"}, 403, "Insufficient permissions"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_who_waits_with_a_token_that_is_good_no_more(site: Site, queue: str, change: str) -> None:
    old = member(queues={"elsewhere": "*"})
    settings, status, why = CHANGES[change]
    with ExitStack() as opened:
        owner = opened.enter_context(Caller(site.daemon, token(role="admin")))
        assert owner.post("/api/v1/configure", {"queue": queue, "namespace": "shop", "task": "t"}).status < 300
        owner.push(queue, 0)
        taken = owner.pop(queue, consumerGroup="socket")[0]
        polls = [opened.enter_context(Caller(site.daemon, old)) for _ in range(6)]
        wait = {"wait": True, "timeout": 60_000, "subscriptionMode": "new"}
        polls[0].send("GET", pop_target(queue, consumerGroup="a", **wait))
        polls[1].send("GET", pop_target(queue, "none", consumerGroup="b", **wait))
        polls[2].send("GET", pop_target(None, namespace="shop", consumerGroup="c", **wait))
        polls[3].send("GET", pop_target(None, task="t", consumerGroup="d", **wait))
        polls[4].send("GET", pop_target(f"{queue}-none", consumerGroup="e", **wait))
        polls[5].send("POST", "/api/v1/fetch", json.dumps(
            {"entries": [{"queue": queue, "partition": "Default", "offset": 1}], "maxWaitMs": 25_000}).encode())
        events = opened.enter_context(Feed(site.daemon.address, queue, headers=bearer(old), consumerGroup="feed",
                                           subscriptionMode="new"))
        socket = opened.enter_context(SocketFeed(site.daemon.address, queue, headers=bearer(old),
                                                 consumerGroup="socket"))
        asked = opened.enter_context(Caller(site.daemon, old))
        path = asked.post(f"{stream_target(queue)}/ticket", None).json["path"]
        ticketed = opened.enter_context(Feed(site.daemon.address, queue, ticket=path.partition("=")[2],
                                             consumerGroup="page", subscriptionMode="new"))
        unused = asked.post(f"{stream_target(queue)}/ticket", None).json["path"].partition("=")[2]
        until(lambda: owner.parked() == 8, "they wait")
        site.change(**settings)
        socket.say({"ack": ack_of(taken, consumerGroup="socket")})
        by_name = [] if change == "queues" else polls[2:4]      # these wait on for queues that the token may still use
        for poll in (*polls[:2], *by_name, polls[4]):
            answer = poll.receive()
            assert answer.status == status and answer.json["error"].startswith(why), answer.body
        read = polls[5].receive()
        assert read.status == 200 and read.json["entries"][0]["records"] == []
        last = events.event()
        assert last.name == "end" and last.json["reason"] == "refused" and last.json["error"].startswith(why)
        code, told = socket.closed()
        assert code == 1008 and told.startswith(why)
        assert ticketed.event().json["error"].startswith("Keys or settings of tokens changed")
        again = opened.enter_context(Feed(site.daemon.address, queue, ticket=unused))
        assert again.status == 401
        with Caller(site.daemon, token(key=site.settings["jwt_secret"], role="admin")) as new:
            assert new.get(f"/api/v1/messages?queue={queue}").status == 200
            answer = new.post("/api/v1/ack", ack_of(taken, consumerGroup="socket"))
            assert answer.json[0]["success"], "the stream did not acknowledge"


def test_who_is_still_let_in_waits_on(site: Site, queue: str) -> None:
    """Streams and pops with tokens that are good under the new settings: each gets what comes, at the deadline it
    asked for, and acknowledges."""
    good = member(iss="shop", queues={queue: "pop"})
    with ExitStack() as opened:
        owner = opened.enter_context(Caller(site.daemon, token(role="admin", iss="shop", queues={"*": "*"})))
        owner.push(queue, 0)
        poll = opened.enter_context(Caller(site.daemon, good))
        events = opened.enter_context(Feed(site.daemon.address, queue, headers=bearer(good), consumerGroup="feed",
                                           autoAck=True))
        socket = opened.enter_context(SocketFeed(site.daemon.address, queue, headers=bearer(good),
                                                 consumerGroup="socket"))
        first = socket.message()
        assert events.message()["data"] == 0
        poll.send("GET", pop_target(queue, consumerGroup="poll", subscriptionMode="new", wait=True, timeout=60_000))
        until(lambda: owner.parked() == 3, "they wait")
        site.change(jwt_issuer="shop", queend_jwt_queues_claim="queues")
        assert socket.ack(first, consumerGroup="socket")["success"]
        until(lambda: owner.parked() == 3, "they wait again")
        owner.push(queue, 1)
        assert [m["data"] for m in poll.receive().json["messages"]] == [1]
        assert events.message()["data"] == 1 and socket.message()["data"] == 1


def test_a_token_that_expires_while_the_credit_is_used_up(site: Site, queue: str) -> None:
    """Nothing is asked of the queue then, and the next sign of life is ten minutes away."""
    site.change()
    with Caller(site.daemon, token(role="admin")) as owner:
        owner.push(queue, 0, 1)
        short = member(exp=-25)      # the skew is 30 s
        with SocketFeed(site.daemon.address, queue, headers=bearer(short), credit=1, heartbeat=600) as socket:
            socket.message()
            assert socket.closed() == (1008, "token expired")
