"""The request log: a line per answer, with ids and without payloads, written beside the workers."""
from __future__ import annotations

import json
import threading

from support.client import ack_of
from support.daemon import Daemon
from support.socket_feed import SocketFeed

TRACE = "0af7651916cd43dd8448eb211c80319c"
LONG = "/none/" + '"' * 400      # three bytes of the log each


def lines(daemon: Daemon) -> list[dict]:
    return [line for line in daemon.log if line["event"] == "request"]


def test_each_answer_has_its_line(start_daemon):
    daemon = start_daemon(QUEEND_REQUEST_LOG="all")
    with daemon.client() as client:
        client.request("POST", "/api/v1/push", {"items": [{"queue": "q", "payload": "a-secret"}]},
                       {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "X-Request-Id": 'mine "1"'})
        client.pop("q")
        client.get("/none?token=a-secret")
        client.get("/health")
        client.request("HEAD", "/livez")
        client.get(LONG)
    daemon.stop()
    found = lines(daemon)
    push, pop, none, health, head, long = found
    assert (push["method"], push["path"], push["status"]) == ("POST", "/api/v1/push", 201)
    assert push["trace"] == TRACE and push["request"] == "mine%20%221%22" and push["in"] > 20 < push["out"]
    assert (pop["method"], pop["path"], pop["status"]) == ("GET", "/api/v1/pop/queue/q", 200) and "trace" not in pop
    assert (none["path"], none["status"], health["status"]) == ("/none", 404, 200), "no query"
    assert (head["method"], head["out"]) == ("HEAD", 0)
    assert long["path"].startswith("/none/%22%22")
    assert len({one["id"] for one in found}) == 6 and all(one["us"] >= 0 for one in found)
    assert "a-secret" not in json.dumps(daemon.log), "no payload"


def test_each_command_on_a_websocket_has_its_line(start_daemon):
    daemon = start_daemon(QUEEND_REQUEST_LOG="all")
    with daemon.client() as client:
        client.push("orders", *range(5))
        client.push("orders", "a-secret", partition="p", transactionId="order \"ü\"")
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "X-Request-Id": "mine"}
    with SocketFeed(daemon.address, "orders", headers=headers, credit=50, partitions=2) as stream:
        messages = stream.messages(6)
        odd = next(one for one in messages if one["data"] == "a-secret")
        plain = [one for one in messages if one is not odd]
        stream.ask({"ack": ack_of(plain[0]), "ref": "a-secret"})
        stream.ask({"ack": {"acknowledgments": [ack_of(one) for one in plain[1:]]}})
        stream.ask({"extend": {"leaseId": odd["leaseId"], "seconds": 60}})
        stream.ask({"ack": {**ack_of(odd, "failed"), "error": "a-secret"}})
        again = stream.message()
        assert again["data"] == "a-secret"
        stream.ask({"credit": 3})
        stream.ask({"ack": {"partitionId": "x" * 5000}})
        stream.ask({"nonsense": "a-secret"})
        stream.ask(b"[1")
    daemon.stop()
    found = [line for line in daemon.log if line["event"] == "command"]
    assert [one["command"] for one in found] == ["ack", "ack", "extend", "ack", "credit", "ack", "refused", "refused"]
    assert [one["status"] for one in found] == [200] * 5 + [400] * 3
    for one in found:
        assert (one["method"], one["path"], one["trace"], one["request"]) == (
            "GET", "/api/v1/stream/orders", TRACE, "mine")
        assert one["us"] >= 0 and one["in"] > 0 < one["out"]
    first, many, extend, failed, credit, *_ = found
    assert (first["partition"], first["lease"]) == (plain[0]["partitionId"], plain[0]["leaseId"])
    assert (first["transaction"], first["verdict"]) == (plain[0]["transactionId"], "completed")
    assert (many["acks"], many["transaction"]) == (4, plain[1]["transactionId"])
    assert extend["lease"] == odd["leaseId"] and "partition" not in extend
    assert failed["verdict"] == "failed" and failed["transaction"].startswith("order%20%5C%22")
    assert credit["credit"] > 0
    assert len({one["id"] for one in found + lines(daemon)}) == len(found + lines(daemon))
    (stream_line,) = [line for line in lines(daemon) if line["path"] == "/api/v1/stream/orders"]
    assert stream_line["request"] == "mine"
    assert "a-secret" not in json.dumps(daemon.log), "no payload, error or ref"


def test_off_there_is_none_and_sampled_one_in_so_many(start_daemon):
    off, sampled = start_daemon(), start_daemon(QUEEND_REQUEST_LOG="sampled", QUEEND_REQUEST_LOG_SHARE=10,
                                                NUM_WORKERS=1)
    for daemon in (off, sampled):
        with daemon.client() as client:
            for _ in range(95):
                assert client.get("/livez").status == 200
        daemon.stop()
    assert lines(off) == [] and len(lines(sampled)) == 9


def test_many_threads_write_whole_lines(start_daemon):
    daemon = start_daemon(QUEEND_REQUEST_LOG="all", NUM_WORKERS=2)

    def work() -> None:
        with daemon.client() as client:
            for _ in range(300):
                client.get(LONG)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    daemon.stop()
    assert len(lines(daemon)) == 1200 and not daemon.other
