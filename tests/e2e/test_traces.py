"""What programs note about messages, found by message and by name."""
from __future__ import annotations

from urllib.parse import quote

import psycopg
import pytest
from support.client import Client
from support.daemon import Daemon


def noted(client: Client, message: dict, **more) -> str:
    answer = client.post("/api/v1/traces",
                         {"transactionId": message["transactionId"], "partitionId": message["partitionId"], **more})
    assert answer.status == 201 and answer.json["success"] is True, answer.body
    return answer.json["traceId"]


def of(client: Client, message: dict) -> list[dict]:
    return client.get(f"/api/v1/traces/{message['partitionId']}/{quote(message['transactionId'], safe='')}").json[
        "traces"]


def named(client: Client, name: str, query: str = "") -> dict:
    return client.get(f"/api/v1/traces/by-name/{quote(name, safe='')}{query}").json


def test_by_message_and_by_name(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": "p", "payload": {"n": n}, "transactionId": f"id {n}"}
                       for n in range(2)])
    one, two = client.pop(queue, batch=2)
    name = f"{queue}/ä +%"
    ids = [noted(client, one, data={"step": 1}, traceNames=[name, f"{queue}-other"],
                 consumerGroup="g", eventType="error"),
           noted(client, one, data=[1.50], traceNames=name), noted(client, two, data=None, traceNames=[name, name]),
           noted(client, two, data="x")]
    first, second = of(client, one)
    assert (first["id"], first["data"], first["event_type"], first["consumer_group"], first["trace_names"]) == (
        ids[0], {"step": 1}, "error", "g", [name, f"{queue}-other"])
    assert (second["id"], second["data"], second["event_type"],
            second["consumer_group"]) == (ids[1], [1.5], "info", "__QUEUE_MODE__")
    assert [trace["trace_names"] for trace in of(client, two)] == [[name], []], "each once"
    found = named(client, name)
    assert found["total"] == 3 and [t["id"] for t in found["traces"]] == ids[:3]
    assert found["pagination"] == {"limit": 100, "offset": 0}
    assert [(t["transaction_id"], t["queue_name"], t["partition_name"], t["message_payload"])
            for t in found["traces"]] == [
        ("id 0", queue, "p", {"n": 0}), ("id 0", queue, "p", {"n": 0}), ("id 1", queue, "p", {"n": 1})]
    page = named(client, name, "?limit=1&offset=1")
    assert [t["id"] for t in page["traces"]] == ids[1:2] and page["total"] == 3
    names = {one["trace_name"]: one for one in client.get("/api/v1/traces/names?limit=1000").json["trace_names"]}
    assert (names[name]["trace_count"], names[name]["message_count"]) == (3, 2)
    assert names[f"{queue}-other"]["trace_count"] == 1
    assert client.request("DELETE", f"/api/v1/messages/{one['partitionId']}/{quote('id 0')}").json["success"] is True
    assert of(client, one) == []
    assert named(client, f"{queue}-other") == {"traces": [], "total": 0, "pagination": {"limit": 100, "offset": 0}}
    assert [t["id"] for t in named(client, name)["traces"]] == ids[2:3]
    client.delete(queue)


@pytest.mark.parametrize("path", ["/api/v1/queues/{}/partitions/gone", "/api/v1/resources/queues/{}"])
def test_traces_are_gone_with_the_answer_to_a_deletion(daemon: Daemon, client: Client, queue: str, path: str) -> None:
    """Their rows may wait to be removed: here the partition's lane is busy."""
    client.push_items([{"queue": queue, "partition": "kept", "payload": 1}, {"queue": queue, "partition": "gone",
                                                                             "payload": 1}])
    messages = {one["partition"]: one for one in client.pop(queue, batch=2, partitions=2)}
    names = [f"{queue}-both", f"{queue}-gone"]
    ids = {partition: noted(client, one, data=1, traceNames=names if partition == "gone" else names[:1])
           for partition, one in messages.items()}
    kept = [ids["kept"]] if "partitions" in path else []
    with psycopg.connect(daemon.conninfo) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, p.id & 63) FROM queend.partitions p"
                       " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s AND p.name = 'gone'", (queue,))
        assert client.request("DELETE", path.format(queue)).json["deleted"] is True
        waits, = holder.execute("SELECT count(*) FROM queend.traces WHERE id = %s", (ids["gone"],)).fetchone()
        assert waits == 1
        for name, left in zip(names, (kept, [])):
            found = named(client, name)
            assert ([one["id"] for one in found["traces"]], found["total"]) == (left, len(left))
        assert of(client, messages["gone"]) == []
        shown = client.get("/api/v1/traces/names?limit=1000").json
        listed = {one["trace_name"]: one["trace_count"] for one in shown["trace_names"] if queue in one["trace_name"]}
        assert listed == ({names[0]: 1} if kept else {})
        assert shown["total"] == len(shown["trace_names"])
        sql, = holder.execute("SELECT queen.get_available_trace_names_v1(1000)").fetchone()
        assert sql["total"] == shown["total"]
        noted_left, = holder.execute("SELECT array_agg(trace_id::text) FROM queen.message_trace_names"
                                     " WHERE trace_name = ANY (%s)", (names,)).fetchone()
        assert (noted_left or []) == kept
        views, = holder.execute("SELECT count(*) FROM queen.message_traces WHERE id::text = ANY (%s)",
                                (list(ids.values()),)).fetchone()
        assert views == len(kept)
    client.delete(queue)


@pytest.mark.parametrize("body, status, error", [
    ({"data": {}}, 400, "transactionId and partitionId are required"),
    ({"transactionId": "x", "partitionId": "1"}, 400, "data is required"),
    ({"transactionId": "x", "partitionId": "zzz", "data": 1}, 404, "Message not found"),
    ({"transactionId": "x", "partitionId": "1", "data": 1}, 404, "Message not found"),
    ({"transactionId": "x", "partitionId": "1", "data": 1, "traceNames": 5}, 400, "traceNames must be"),
    ({"transactionId": "x", "partitionId": "1", "data": 1, "traceNames": [5]}, 400, "traceNames must be"),
    ({"transactionId": "x", "partitionId": "1", "data": 1, "traceNames": ""}, 400, "traceNames must not be empty"),
    ({"transactionId": "x", "partitionId": "1", "data": 1, "consumerGroup": 5}, 400, "consumerGroup must be"),
    ({"transactionId": "x", "partitionId": "1", "data": 1, "eventType": "e" * 101}, 400, "eventType must be"),
    (b"{", 400, "Invalid JSON"),
])
def test_bad_requests_name_what_is_wrong(client: Client, body: object, status: int, error: str) -> None:
    answer = client.post("/api/v1/traces", body)
    assert answer.status == status and answer.json["error"].startswith(error)
