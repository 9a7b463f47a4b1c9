"""queend push, pop, ack, tail and dlq, against one daemon."""
import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import closing

import pytest
from support.cli import Cli
from support.client import ack_of, data
from support.faults import Faults
from support.proxy import CUT, Proxy
from support.wait import PATIENCE, until

from queend.cli.tail import Reader

# What a process that was forked from a large one has used counts from that one's size on.
MEASURED = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")


def test_push_from_arguments_input_and_files(cli, client, queue, tmp_path):
    assert cli.ok("push", queue, '{"n":1}', "2", '"three"').out == "3 stored\n"
    assert cli.ok("push", queue, input='{"n":4}\r\n\n[5]\nnull').out == "3 stored\n"
    assert cli.ok("push", queue, "--text", input="six \"quoted\"\n漢\n").out == "2 stored\n"
    (tmp_path / "one.json").write_text('{\n "n":\n 8 }\n')
    (tmp_path / "two.ndjson").write_text("9\n10\n")
    assert cli.ok("push", queue, "-f", str(tmp_path / "one.json")).out == "1 stored\n"
    two = str(tmp_path / "two.ndjson")
    assert cli.ok("push", queue, "--lines", "-f", two, "-f", "-", input="11").out == "3 stored\n"
    assert data(client.pop(queue, batch=100)) == [{"n": 1}, 2, "three", {"n": 4}, [5], None, 'six "quoted"', "漢",
                                                  {"n": 8}, 9, 10, 11]


def test_what_a_push_carries(cli, client, queue):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    first = cli.ok("push", queue, "1", "-p", "p 1", "--transaction-id", "t/1", "-H", f"traceparent: {trace}", "-o",
                   "json").json
    assert [row["transaction_id"] for row in first] == ["t/1"]
    assert cli.ok("push", queue, "1", "-p", "p 1", "--transaction-id", "t/1").out == "0 stored, 1 duplicate\n"
    cli.ok("message", "delete", f"{first[0]['partition_id']}/t/1", "--yes")
    assert cli.ok("push", queue, "1", "-p", "p 1", "--transaction-id", "t/1").out == (
        "0 stored, 1 not stored: they repeat deleted messages\n")
    cli.ok("push", queue, "1", "-p", "p 1", "--transaction-id", "t/2", "-H", f"traceparent: {trace}")
    (message,) = client.pop(queue)
    assert (message["partition"], message["transactionId"], message["traceparent"]) == ("p 1", "t/2", trace)
    cli.ok("push", queue, '{"who":{"id":7}}', '{"who":{"id":8}}', "--partition-field", "who.id")
    assert {one["partition"] for one in client.pop(queue, batch=10, partitions=10)} == {"7", "8"}
    cli.ok("push", queue, "--items", input='{"payload":1,"partition":"own","transactionId":"x"}\n{"payload":2}\n')
    assert {one["partition"] for one in client.pop(queue, batch=10, partitions=10)} == {"own", "Default"}
    cli.ok("push", queue, "1", "2", "-p", "h", "-H", "x-tenant=7", "-H", "a=b:c=d", "-H", f"traceparent:{trace}")
    assert [(one["headers"], one["traceparent"]) for one in client.pop(queue, "h", batch=9)] == [
        ({"x-tenant": "7", "a": "b:c=d"}, trace)] * 2
    cli.ok("push", queue, "1", "-p", "shown", "--header", "x-tenant=7", "--transaction-id", "shown")
    assert '{"x-tenant":"7"}' in cli.ok("pop", queue, "-p", "shown", "-n", "1").out
    (row,) = [one for one in client.get(f"/api/v1/messages?queue={queue}&partition=shown").json["messages"]]
    assert "headers" in cli.ok("message", "show", f"{row['partitionId']}/shown").out
    for wrong in (("-H", "=x"), ("-H", "a=1", "-H", "a=2"), ("-H", "a=1", "-H", "ce-id: 1")):
        assert cli("push", queue, "1", *wrong).status == 2
    cli.ok("push", queue, "3", "-p", "later", "--delay", "1h")
    assert client.pop(queue, "later") == []
    headers = ("ce-specversion: 1.0", "ce-id: 1", "ce-source: /s", "ce-type: t")
    cli.ok("push", queue, '{"n":1}', "-p", "event", *(word for one in headers for word in ("-H", one)))
    (event,) = client.pop_answer(queue, "event", format="cloudevents").json
    assert (event["type"], event["source"], event["data"]) == ("t", "/s", {"n": 1})


def lines_of(number: int) -> str:
    return "".join(f'{{"n":{n}}}\n' for n in range(number))


@pytest.mark.parametrize("key", ["job 7", '"job 7"', "k" * 255], ids=["bare", "quoted", "long"])
def test_a_key_holds_for_all_requests_of_a_push(cli, client, queue, key):
    """The ids of messages follow from the key and the place in a request: each request needs a key of its own."""
    for name in ("Idempotency-Key", "idempotency-key"):
        assert cli.ok("push", queue, "-H", f"{name}: {key}", input=lines_of(2500)).out == "2500 stored\n"
        assert client.show(queue).json["totals"]["total"] == 2500
    assert [one["data"]["n"] for one in client.pop(queue, batch=3000)] == list(range(2500))


def test_an_event_with_its_id_is_a_single_payload(cli, client, queue):
    event = [word for one in ("ce-specversion: 1.0", "CE-ID: 1", "ce-source: /s", "ce-type: t") for word in ("-H", one)]
    for words in (("1", "2"), ()):
        done = cli("push", queue, *words, *event, input="1\n2\n")
        assert (done.status, done.out) == (2, "") and "-H ce-id" in done.err and "requires a single payload" in done.err
    assert cli.ok("push", queue, "-f", "-", *event, input="1\n").out == "1 stored\n"


def answered_503(text: bytes) -> bytes:
    return b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


def test_a_push_that_is_repeated_after_503_stores_nothing_twice(daemon, client, queue, tmp_path):
    """A proxy passed the request on, and did not wait for the answer."""
    proxy, answers = Proxy(daemon.port), []

    def rule(to_server, data):
        if to_server or answers:
            return [data]
        answers.append(data)
        return [answered_503(b"the proxy has lost its patience")]

    proxy.rule = rule
    with closing(proxy):
        assert Cli(f"http://127.0.0.1:{proxy.port}", tmp_path).ok("push", queue, "1", "2").out == "2 stored\n"
    assert len(answers) == 1 and data(client.pop(queue, batch=9)) == [1, 2]


@pytest.mark.parametrize("answered", [False, True], ids=["request lost", "answer lost"])
def test_a_push_goes_on_where_its_idle_connection_was_closed(daemon, client, queue, tmp_path, answered):
    """The daemon closes connections without requests after 300 s: here the network does."""
    proxy, requests = Proxy(daemon.port), []

    def rule(to_server, data):
        if to_server and data.startswith(b"POST /api/v1/push"):
            requests.append(data)
        lost = len(requests) == 2 and to_server is not answered
        return [CUT] if lost else [data]

    proxy.rule = rule
    with closing(proxy):
        pushing = Cli(f"http://127.0.0.1:{proxy.port}", tmp_path).process(
            "push", queue, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        pushing.stdin.write(lines_of(1000))
        pushing.stdin.flush()
        until(lambda: client.show(queue).json.get("totals", {}).get("total") == 1000, "the first request is answered")
        told = pushing.communicate('"last"\n', timeout=PATIENCE)
    assert (pushing.returncode, *told) == (0, "1001 stored\n", "")
    assert len(requests) == 3 and [one["data"] for one in client.pop(queue, batch=3000)][999:] == [{"n": 999}, "last"]


def test_what_is_not_json_is_named_by_its_line(cli, client, queue, tmp_path):
    lines = "".join(f'{{"n":{i}}}\n' for i in range(1500)) + '\n{"n":\n{"n":3}\n'
    refused = cli("push", queue, input=lines)
    assert refused.status == 1 and "line 1502 is not valid JSON" in refused.err
    assert "1500 messages before it were stored" in refused.err
    assert client.show(queue).json["totals"]["total"] == 1500
    (tmp_path / "bad.json").write_bytes(b"\xff\x00")
    refused = cli("push", queue, "-f", str(tmp_path / "bad.json"))
    assert refused.status == 1 and "bad.json is not valid UTF-8" in refused.err
    assert "argument 2 is not valid JSON" in cli("push", queue, "1", "{").err
    assert "No such file" in cli("push", queue, "-f", str(tmp_path / "none")).err
    # what only the server refuses is named as well
    refused = cli("push", queue, "--items", input='{"payload":1}\n{"payload":1,"deliverAt":"soon"}\n')
    assert refused.status == 1 and "line 2: " in refused.err
    assert cli("push", queue, "1", "--delay", "1h", "--deliver-at", "2100-01-01T00:00:00Z").status == 2
    assert cli("push", queue, "1", "--delay", "soon").status == 2


def test_a_dash_is_standard_input(cli, client, queue):
    assert cli.ok("push", queue, "-", input="").out == "0 stored\n"
    assert cli.ok("push", queue, "-", input="1\n2\n").out == "2 stored\n"
    assert cli.ok("push", queue, "-", "--text").out == "1 stored\n"
    assert [one["data"] for one in client.pop(queue, batch=9)] == [1, 2, "-"]


def test_much_input_takes_little_memory(cli, client, queue):
    line = json.dumps({"text": "x" * 1000}).encode() + b"\n"
    with tempfile.TemporaryFile() as made:
        for _ in range(40):
            made.write(line * 1000)      # 40 MB
        made.seek(0)
        command = [sys.executable, "-c", MEASURED, sys.executable, "-m", "queend", "push", queue]
        pushing = subprocess.run(command, stdin=made, env=cli.clean(), stdout=subprocess.PIPE, text=True, check=True)
    told, used = pushing.stdout.splitlines()
    assert told == "40000 stored" and int(used) < 80 << 10      # KiB; with all of it there would be 120 MiB


def test_pop_the_newest(cli, client, queue):
    client.push(queue, 1, 2, 3)
    assert cli.ok("pop", queue, "--group", "latest", "--conflation", "--payload", "--ack").out == "3\n"
    assert cli("pop", queue, "--group", "latest", "--conflation").status == 5
    client.push(queue, 4, 5)
    assert "newest" in cli.ok("group", "show", "latest", "-o", "wide").out
    assert cli.ok("pop", queue, "--group", "latest", "--payload").out == "5\n"      # as the group is stored
    client.pop(queue, consumerGroup="plain", autoAck="true")
    told = cli.ok("pop", queue, "--group", "plain", "--conflation", "--payload")
    assert told.out == "2\n" and "does not conflate" in told.err
    assert "--conflation requires --group" in cli("pop", queue, "--conflation").err
    assert cli("pop", queue, "--group", "g", "--conflation", "--auto-ack").status == 2


def test_pop_and_acknowledge(cli, client, queue):
    nothing = cli("pop", queue)
    assert nothing.status == 5 and f"no message: there is no queue '{queue}'" in nothing.err
    client.push(queue, 1, 2, 3, 4)
    assert "no message: there is no partition 'p'" in cli("pop", queue, "--partition", "p").err
    (first,) = cli.ok("pop", queue, "-o", "json", "--ack").json
    assert first["data"] == 1
    assert cli.ok("pop", queue, "--auto-ack", "--payload").out == "2\n"
    third = cli.ok("pop", queue, "-n", "2", "-o", "ndjson").out
    assert cli.ok("ack", input=third).out == "2 completed\n"
    assert client.show(queue).json["totals"]["completed"] == 4
    client.push(queue, 5)
    (fifth,) = cli.ok("pop", queue, "-o", "json").json
    id_ = f"{fifth['partitionId']}/{fifth['transactionId']}"
    assert cli("ack", id_, "--lease", "3b1f8c52-6a3e-8d41-9c20-5d8e7f901234").status == 1
    assert cli.ok("ack", id_, "--lease", fifth["leaseId"], "--status", "failed", "--error", "no").out == "1 failed\n"
    (again,) = cli.ok("pop", queue, "-o", "json").json
    assert again["deliveryAttempt"] == 2
    assert cli("ack", "no-address").status == 2
    refused = cli("ack", input="{}\n")
    assert refused.status == 1 and "line 1 is not a message" in refused.err
    assert cli("pop").status == 2


def test_pop_waits_for_a_message(cli, client, queue):
    client.push(queue, 0)
    client.pop(queue, autoAck=True)
    waiting = cli.process("pop", queue, "--wait", "60", "--payload", "--auto-ack", stdout=subprocess.PIPE)
    until(lambda: client.parked() > 0, "the pop is parked")
    client.push(queue, "now")
    assert waiting.communicate(timeout=PATIENCE)[0] == b'"now"\n' and waiting.returncode == 0


def test_tail_shows_the_newest_and_takes_nothing(cli, client, queue):
    for i in range(12):
        client.push(queue, i, partition=str(i % 3))
    assert [one["payload"] for one in cli.ok("tail", queue, "-n", "5", "-o", "ndjson").lines] == [7, 8, 9, 10, 11]
    assert cli.ok("tail", queue, "--payload", "-p", "1").out == "1\n4\n7\n10\n"
    assert cli.ok("tail", queue, "-n", "1").out.endswith('2#3  11\n')
    assert len(client.pop(queue, batch=100, partitions=10)) == 12
    assert cli("tail", "no-such-queue").status == 4


def test_tail_shows_all_where_one_answer_has_no_room_for_it(cli, client, queue):
    """More of the newest messages of one partition than an answer of the log holds (8 MiB)."""
    for i in range(12):
        client.push(queue, {"n": i, "text": base64.b64encode(os.urandom(720_000)).decode()}, partition="p")
    lines = cli.ok("tail", queue, "-n", "12", "-o", "ndjson").lines
    assert [one["payload"]["n"] for one in lines] == list(range(12))


def test_tail_follows_until_ctrl_c(cli, client, queue):
    client.push(queue, "old", partition="a")
    tail = cli.process("tail", "-f", queue, "-n", "1", "--payload", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True)
    assert tail.stdout.readline() == '"old"\n'
    for i in range(300):
        client.push(queue, f"new {i}", partition=f"p{i % 7}")
    seen = [tail.stdout.readline() for _ in range(300)]
    assert sorted(seen) == sorted(f'"new {i}"\n' for i in range(300))
    tail.send_signal(signal.SIGINT)
    rest, told = tail.communicate(timeout=PATIENCE)
    assert rest == "" and tail.returncode == 130 and told == "queend: interrupted\n"


def test_tail_follows_a_queue_that_is_made_again(cli, client, queue):
    client.push(queue, *range(5), partition="a")
    tail = cli.process("tail", "-f", queue, "--payload", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert [tail.stdout.readline() for _ in range(5)] == [f"{n}\n" for n in range(5)]
    client.push(queue, 5, partition="a")
    assert tail.stdout.readline() == "5\n"
    client.delete(queue)
    client.push(queue, 100, 101, partition="a")
    client.push(queue, 102, partition="b")
    seen: list[str] = []
    reading = threading.Thread(target=lambda: seen.extend(tail.stdout.readline() for _ in range(3)), daemon=True)
    reading.start()
    reading.join(PATIENCE)
    tail.send_signal(signal.SIGINT)
    tail.communicate(timeout=PATIENCE)
    assert sorted(seen) == ["100\n", "101\n", "102\n"]


class Fetched:
    """Stands for a server whose fetches have these entries."""

    def __init__(self, *entries):
        self.entries, self.asked = list(entries), 0

    def post(self, path, body):
        self.asked += 1
        return {"entries": [self.entries.pop(0)]}


def test_tail_does_not_ask_again_for_what_another_partition_does_not_have(capfd):
    server = Fetched({"error": "OFFSET_OUT_OF_RANGE", "highWatermark": 2, "logStartOffset": 0})
    reader = Reader(server, "q", None)
    assert list(reader.read([("a", 5, 7)])) == [[]] and server.asked == 1


def test_tail_says_what_it_cannot_read(capfd):
    record = {"offset": 0, "transactionId": "t", "payload": 1, "ts": "2026-01-01T00:00:00Z"}
    reader = Reader(Fetched({"records": [record], "error": "UNREADABLE", "highWatermark": 9, "logStartOffset": 0}),
                    "q", None)
    assert [[one["offset"] for one in some] for some in reader.read([("a", 0, 9)])] == [[0]]
    assert capfd.readouterr().err == ("queend: queue q, partition a: messages 1 to 8 are left out, because the server "
                                      "cannot read one of them\n")


LISTS = ("tail {}", "tail {} -n 0", "message list {}", "message search {} x", "dlq list {}", "dlq redrive {} --yes",
         "dlq redrive {} --dry-run", "dlq purge {} --yes", "dlq purge {} --dry-run")


@pytest.mark.parametrize("words", LISTS)
def test_an_unknown_partition_is_refused(cli, client, queue, words):
    client.push(queue, 1, partition="known")
    more = () if "dlq" in words and "list" not in words else ("-o", "json")
    cli.ok(*(word.format(queue) for word in words.split()), "-p", "known", *more)
    done = cli(*(word.format(queue) for word in words.split()), "-p", "none", *more)
    assert (done.status, done.out, done.err) == (4, "", f"queend: there is no partition 'none' in {queue!r}\n")


@pytest.mark.parametrize("words", [words for words in LISTS if words.startswith("dlq")])
def test_an_unknown_group_is_refused(cli, client, queue, words):
    client.push(queue, 1)
    client.pop(queue, consumerGroup="known")
    more = ("-o", "json") if "list" in words else ()
    cli.ok(*(word.format(queue) for word in words.split()), "-g", "known", *more)
    done = cli(*(word.format(queue) for word in words.split()), "-g", "none", *more)
    assert (done.status, done.out, done.err) == (4, "", f"queend: there is no group 'none' of {queue!r}\n")


def test_an_unknown_group_of_any_queue_is_refused(cli, client):
    done = cli("dlq", "list", "-g", "no-such-group")
    assert (done.status, done.out, done.err) == (4, "", "queend: there is no group 'no-such-group'\n")


def test_dead_letters_of_a_deleted_group_are_listed(cli, client, queue):
    client.push(queue, 1)
    client.ack(*client.pop(queue, consumerGroup="gone"), "dlq", group="gone")
    cli.ok("group", "delete", "gone", "--queue", queue, "--yes")
    assert cli("group", "show", "gone", "--queue", queue).status == 4
    assert len(cli.ok("dlq", "list", queue, "-g", "gone", "-o", "json").json) == 1


def test_tail_follows_a_partition_that_is_yet_to_come(cli, client, queue):
    client.push(queue, "other", partition="a")
    tail = cli.process("tail", "-f", queue, "-p", "b", "--payload", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True)
    assert tail.stderr.readline() == f"queend: there is no partition 'b' in {queue!r}: waiting until it exists\n"
    client.push(queue, "first", partition="b")
    assert tail.stdout.readline() == '"first"\n'
    tail.send_signal(signal.SIGINT)
    rest, told = tail.communicate(timeout=PATIENCE)
    assert rest == "" and tail.returncode == 130 and told == "queend: interrupted\n"


def test_dead_letters(cli, client, queue):
    client.push(queue, *range(6), partition="p")
    client.push(queue, "q", partition="q")
    for one in client.pop(queue, batch=10, partitions=2):
        client.ack(one, "dlq", error=f"broken {one['data']}")
    rows = cli.ok("dlq", "list", queue, "-o", "json").json
    assert len(rows) == 7 and {row["errorMessage"] for row in rows} >= {"broken 0", "broken q"}
    assert len(cli.ok("dlq", "list", queue, "-p", "q", "-o", "names").out.split()) == 1
    assert len(cli.ok("dlq", "list", queue, "-n", "3").out.splitlines()) == 4
    (id_,) = cli.ok("dlq", "list", queue, "-p", "q", "-o", "names").out.split()
    shown = cli.ok("dlq", "show", id_).out
    assert "broken q" in shown and '"q"' in shown
    told = cli.ok("dlq", "redrive", queue, "-p", "q", "-n", "1", "--dry-run").out
    assert told == f"would redrive 1 dead letter of {queue} to queue '{queue}'\n"
    assert cli("dlq", "redrive", queue).status == 2
    assert len(cli.ok("dlq", "list", queue, "--error", "broken", "-o", "json").json) == 7
    assert cli.ok("dlq", "list", queue, "--error", "no", "-o", "json").json == []
    assert cli.ok("dlq", "redrive", queue, "--error", "no", "--yes").out == "0 redriven\n"
    assert cli.ok("dlq", "purge", queue, "--error", "no", "--yes").out == "0 deleted\n"
    assert cli.ok("dlq", "redrive", queue, "-p", "q", "--yes").out == "1 redriven\n"
    (one,) = client.pop(queue)
    assert one["data"] == "q"
    client.ack(one, "dlq")
    assert cli("dlq", "edit", id_, '{"n":').status == 2
    assert cli("dlq", "edit", f"{one['partitionId']}/{one['transactionId']}", "1", "-g", "none").status == 4
    (id_,) = cli.ok("dlq", "list", queue, "-p", "q", "-o", "names").out.split()
    assert cli.ok("dlq", "edit", id_, "-", input='{"big":12345678901234567890}').out == "1 redriven\n"
    (one,) = client.pop(queue)
    assert one["data"] == {"big": 12345678901234567890}
    client.ack(one)
    assert cli("dlq", "edit", id_, "1").status == 4, "it is none any more"
    assert cli.ok("dlq", "redrive", queue, "-n", "2", "--to-queue", f"{queue}-2", "--yes").out == "2 redriven\n"
    assert data(client.pop(f"{queue}-2", batch=10, wait=True)) == [4, 5]
    assert cli.ok("dlq", "purge", queue, "--dry-run").out == f"would delete 4 dead letters of {queue}\n"
    assert cli.ok("dlq", "purge", queue, "--yes").out == "4 deleted\n"
    assert cli.ok("dlq", "list", queue, "-o", "json").json == []


def test_dead_letters_keep_their_order_beyond_one_request(cli, client, queue):
    """A request redrives at most 10 000 of them."""
    number = 10_020
    for first in range(0, number, 1002):
        client.push(queue, *range(first, first + 1002))
    while some := client.pop(queue, batch=1000):
        client.ack_batch([{**ack_of(one), "status": "dlq"} for one in some])
    assert cli.ok("dlq", "redrive", queue, "--yes").out == f"{number} redriven\n"
    got = []
    while some := client.pop(queue, batch=1000, autoAck=True):
        got += data(some)
    assert got == list(range(number))


def test_a_redrive_that_fails_says_how_many_came_back(start_daemon, tmp_path, queue):
    daemon = start_daemon()
    with closing(Faults(daemon.conninfo, "dead_delete")) as faults, daemon.client() as client:
        client.push(queue, *range(205))
        client.ack_batch([{**ack_of(one), "status": "dlq"} for one in client.pop(queue, batch=205)])
        faults.plant("dead_delete", "57P01", 1, after=1)
        cli = Cli(daemon.url, tmp_path)
        failed = cli("dlq", "redrive", queue, "--yes")
        assert failed.status == 6 and "send it again for the rest (200 redriven)" in failed.err, failed
        assert cli.ok("dlq", "redrive", queue, "--yes").out == "5 redriven\n"


@pytest.mark.parametrize("words", [("\udcff", "1"), ("orders", "1", "-p", "\udcff")])
def test_a_name_that_is_not_utf_8(cli, words):
    done = cli("push", *words)
    assert done.status == 2 and done.err == "queend: the argument '\\udcff' is not UTF-8\n"


def test_a_payload_that_is_not_utf_8(cli, queue):
    done = cli("push", queue, input=b'{"n":1}\n"\xff"\n')
    assert (done.status, done.err) == (1, "queend: line 2 is not valid UTF-8; 1 message before it was stored\n")


def test_a_payload_in_the_place_of_the_queue(cli, queue):
    done = cli.ok("push", '{"n":1}', input="")
    assert (done.out, done.err) == ("0 stored\n", (
        "queend: standard input is empty, and '{\"n\":1}' is the name of a queue\n"
        "        the queue comes first, then the payloads\n"))
    assert cli.ok("push", queue, input="").err == ""


def test_a_payload_in_the_place_of_the_queue_at_a_terminal(cli):
    """Nothing is read from the terminal, where nobody types."""
    status, shown = cli.at_terminal("push", "-p", "p", '{"n":1}')
    assert status == 2, shown
    assert "a queue is required; '{\"n\":1}' looks like a payload" in shown, shown


def test_a_partition_without_a_queue(cli):
    done = cli("pop", "-p", "p", "--namespace", "n")
    assert (done.status, done.err) == (2, "queend: --partition requires a queue\n"
                                          "        pass the name of the queue as an argument\n")
    done = cli("pop", "q", "--namespace", "n")
    assert (done.status, done.err) == (2, "queend: a queue cannot be combined with --namespace or --task\n")


@pytest.mark.parametrize("command", ["queue clear", "queue delete", "group seek"])
def test_a_partition_has_the_same_letter_everywhere(cli, client, queue, command):
    client.push(queue, 1, partition="p")
    client.pop(queue, consumerGroup="g")
    names = ["g", queue, "--end"] if command == "group seek" else [queue]
    assert "'p'" in cli.ok(*command.split(), *names, "-p", "p", "--dry-run").out


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words, status, told", [
    ("push {} 1 2", 8, "2 stored"), ("push {} 1 2 -o ndjson", 8, "2 stored"), ("push {} 1 2 -o json", 8, "2 stored"),
    ("queue pause {}", 8, "the server had executed the command, or a part of it"),
    ("pop {} --auto-ack", 8, "the server had executed the command, or a part of it"),
    ("queue show {}", 1, ""), ("pop {}", 1, "")])
def test_an_output_that_cannot_be_written_after_a_change(cli, client, queue, words, status, told, unbuffered):
    """A status of failure alone would have the messages pushed again."""
    client.push(queue, 0)
    words = [word.format(queue) for word in words.split()]
    with open("/dev/full", "w") as full, cli.process(*words, stdout=full, stderr=subprocess.PIPE, text=True,
                                                     environment={"PYTHONUNBUFFERED": unbuffered}) as done:
        first, *more = done.communicate(timeout=PATIENCE)[1].splitlines()
    assert (done.returncode, first) == (status, "queend: cannot write the output: No space left on device")
    assert [one.strip().removesuffix(" before that") for one in more] == ([told] if told else [])


@pytest.mark.parametrize("words", ["-o json", "-o ndjson", "--payload", "--payload -o json", "-o json --follow"],
                         ids=["json", "lines", "payloads", "payloads-json", "follow"])
def test_what_could_not_be_printed_is_not_acknowledged(cli, client, queue, words):
    client.push(queue, 1, 2)
    with open("/dev/full", "w") as full, cli.process("pop", queue, "-n", "9", "--ack", "--lease", "1", *words.split(),
                                                     stdout=full, stderr=subprocess.PIPE) as done:
        assert b"cannot write the output" in done.communicate(timeout=PATIENCE)[1]
    assert done.returncode == 1
    assert data(until(lambda: client.pop(queue, batch=9), "the lease ends")) == [1, 2]


def test_one_document_whether_there_are_messages_or_not(cli, client, queue):
    client.push(queue, 1, 2)
    done = cli.ok("pop", queue, "-n", "9", "--ack", "--wait", "5s", "-o", "json")
    assert [one["data"] for one in done.json] == [1, 2]
    done = cli("pop", queue, "--wait", "200ms", "--ack", "-o", "json")
    assert (done.status, done.json) == (5, [])


def test_a_pop_that_consumes_and_gets_no_answer(daemon, client, queue, tmp_path):
    proxy = Proxy(daemon.port)
    proxy.rule = lambda to_server, data: [data] if to_server else [CUT]
    client.push(queue, 1)
    with closing(proxy):
        done = Cli(f"http://127.0.0.1:{proxy.port}", tmp_path)("pop", queue, "--auto-ack")
    assert done.status == 6 and "messages may have been consumed" in done.err


def test_dead_letters_by_error(cli, client, queue):
    client.configure(queue, retryLimit=0)
    client.push(queue, *range(5))
    for number, one in enumerate(client.pop(queue, consumerGroup="g", batch=5)):
        client.ack_batch([{**ack_of(one), "status": "dlq", "error": ("timeout", "no such customer")[number == 3]}],
                         group="g")
    rows = cli.ok("dlq", "errors", queue, "-o", "json").json
    assert [(row["errorMessage"], row["consumerGroup"], row["count"]) for row in rows] == [
        ("timeout", "g", 4), ("no such customer", "g", 1)]
    heads, first, second = cli.ok("dlq", "errors", queue).out.splitlines()
    assert heads.split() == ["count", "queue", "group", "error", "first", "last"]
    assert first.split()[:4] == ["4", queue, "g", "timeout"]
    assert cli.ok("dlq", "errors", queue, "-o", "names").out == "timeout\nno such customer\n"
    assert cli.ok("dlq", "errors", queue, "--error", "such", "-o", "ndjson").lines[0]["count"] == 1
    assert cli("dlq", "errors", queue, "-g", "none").status == 4 == cli("dlq", "errors", f"{queue}-none").status
    assert cli("dlq", "errors", "--limit", "1001").status == 2


def test_an_empty_pop_tells_pop_maintenance(cli, client, queue):
    client.push(queue, 1)
    client.post("/api/v1/system/maintenance/pop", {"enabled": True})
    try:
        done = cli("pop", queue)
    finally:
        client.post("/api/v1/system/maintenance/pop", {"enabled": False})
    assert (done.status, done.err) == (5, "queend: no message: pop maintenance is on\n")


def test_a_message_behind_leased_ones_may_have_another_cause(cli, client, queue):
    """The message of the second partition waits for its time: not all messages are leased."""
    client.push(queue, 1, partition="a")
    client.push(queue, 2, partition="b", delayMs=3_600_000)
    assert cli.ok("pop", queue).err == ""
    assert cli("pop", queue).err == "queend: no message: the next messages are leased\n"
