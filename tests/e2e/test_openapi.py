"""/openapi.json: it has every route, its examples fit its schemas, and what it gives as examples is really asked of a
daemon."""
import json
import re
from types import SimpleNamespace

import jsonschema_rs
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.client import pop_target
from support.daemon import ROOT
from support.postgres import running

from queend import _core as core
from queend.control.app import application
from queend.control.http.hot_routes import OWN
from queend.control.http.operations import OPERATIONS as NAMES
from queend.control.http.route import ROUTES
from queend.control.http.schema import MESSAGE
from queend.control.routes.migration import TARGET
from queend.control.routes.openapi import whole_document
from queend.control.routes.streams import QUERY

# as /openapi.json has it: a test says so
BARE = SimpleNamespace(settings=SimpleNamespace(webapp_root="", queend_dashboard=False))
DOCUMENT = whole_document(application(BARE).openapi())
OPERATIONS = [(method.upper(), path, operation) for path, methods in DOCUMENT["paths"].items()
              for method, operation in methods.items()]
IDS = [f"{method} {path}" for method, path, _ in OPERATIONS]
# One after the other on the same queue: what takes things away comes last.
LAST = ("POST /api/v1/migration/start", "DELETE /api/v1/messages", "POST /api/v1/messages", "DELETE")


def check(schema, value, what):
    errors = [str(error) for error in jsonschema_rs.Draft202012Validator({
        **schema, "components": DOCUMENT["components"]}, validate_formats=True).iter_errors(value)]
    assert not errors, (what, errors[:3], value)


def test_the_daemon_serves_it(client):
    answer = client.get("/openapi.json")
    assert answer.status == 200 and answer.json == json.loads(json.dumps(DOCUMENT))
    assert answer.json["openapi"].startswith("3.1")


def inner(schema):
    """The schema and all that are inside of it, without those that it refers to."""
    yield schema
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from inner(schema[key])
    for one in [*schema.get("properties", {}).values(), *schema.get("oneOf", []), *schema.get("anyOf", [])]:
        yield from inner(one)


def test_every_object_has_a_name_that_a_generator_can_use():
    models = DOCUMENT["components"]["schemas"]
    for name, model in models.items():
        assert re.fullmatch("[A-Z][A-Za-z0-9]+", name) and "allOf" not in model
        assert not [one for one in list(inner(model))[1:] if "properties" in one], name
    for _, path, operation in OPERATIONS:
        for part in [operation.get("requestBody", {}), *operation["responses"].values()]:
            for content in part.get("content", {}).values():
                assert not [one for one in inner(content["schema"]) if "properties" in one], path
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(DOCUMENT)))
    assert set(models) - used == set()
    assert {"Queue", "QueueOptions", "QueuePartition", "ConfigureQueueRequest", "ListQueuesResponse"} <= used


def test_generators_find_a_type_everywhere_and_no_class_twice():
    """openapi-generator names the choice in a property by object and property: no object may have that name."""
    models = DOCUMENT["components"]["schemas"]
    parameters = [one["schema"] for _, _, operation in OPERATIONS for one in operation.get("parameters", [])]
    for schema in (part for whole in [*models.values(), *parameters] for part in inner(whole)):
        assert "type" in schema or not {"const", "enum"} & set(schema), schema
        assert schema.get("type") != "object" or {"properties", "additionalProperties"} & set(schema), schema
    choices = {name + key[:1].upper() + key[1:] for name, model in models.items()
               for key, one in model.get("properties", {}).items()
               if len([part for part in one.get("oneOf", []) if part != {"type": "null"}]) > 1}
    assert not choices & set(models)
    links = [link for _, _, operation in OPERATIONS for answer in operation["responses"].values()
             for link in answer.get("links", {}).values()]
    assert all(isinstance(link.get("requestBody", ""), str) for link in links) and "Error" not in models


def test_every_route_of_both_planes_is_there():
    # the control plane's come from its routers; of the compiled routes those of its own list
    known = {core.probe_route(method, f"/{path}".encode()) for _, method, path in core.hot_routes_of_core()}
    named = {core.probe_route(method, path.replace("{", "").replace("}", "").encode())
             for method, path, _ in OPERATIONS}
    assert len(known) > 8 and named == known | {None}
    described = {f"{method} {path}" for method, path, _ in OPERATIONS}
    assert set(ROUTES) <= described, "described, but no route"
    assert set(NAMES) == described, "named, but no route"
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)+", one) for one in ids)
    text = json.dumps(DOCUMENT)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in DOCUMENT["components"]["schemas"]
    for reference in re.findall(r'"operationRef": "#/paths/([^"]+)"', text):
        path, _, method = reference.rpartition("/")
        assert method in DOCUMENT["paths"][path.replace("~1", "/").replace("~0", "~")]


def test_the_comparison_with_the_reference_has_every_route_it_has():
    """Those that only queend has are in docs/api.md, which is made from the routes."""
    cells = "\n".join(line.split("|")[1] for line in (ROOT / "docs/compatibility.md").read_text().splitlines()
                      if line.startswith("| `"))
    told = {f"{method} {re.sub(r':[a-zA-Z]+', '{}', path)}"
            for method, path in re.findall(r"`([A-Z]+) (/[^?`]*)", cells)}
    every = {f"{method} {re.sub(r'{[a-z_A-Z]+}', '{}', path)}":
             path in OWN or (route := ROUTES.get(f"{method} {path}")) is not None and route.own
             for method, path, _ in OPERATIONS}
    assert {route for route, own in every.items() if not own} <= told <= every.keys()


@pytest.mark.parametrize("method, path, operation", OPERATIONS, ids=IDS)
def test_an_operation_is_whole(method, path, operation):
    assert operation["tags"] and operation["responses"], "what it is about, and what it answers"
    named = [one["name"] for one in operation.get("parameters", []) if one["in"] == "path"]
    assert named == re.findall(r"{(\w+)}", path)
    for one in operation.get("parameters", []):
        if one["in"] == "path":
            check(one["schema"], one["example"], one["name"])
    ours = f"{method} {path}" in ROUTES and ROUTES[f"{method} {path}"].answer
    for status, answer in operation["responses"].items():
        assert answer["description"] or status == "200"
        assert not ours or status[0] != "2" or "example" in answer["content"]["application/json"]
        for kind, content in answer.get("content", {}).items():
            for example in ([content["example"]] if "example" in content
                            else []) + content["schema"].get("examples", []):
                check(content["schema"], example, (status, kind))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        assert "example" in content or f"{method} {path}" not in ROUTES, "an example of the body"
        if "example" in content:
            check(content["schema"], content["example"], kind)


def order(operation):
    name = f"{operation[0]} {operation[1]}"
    return next((i for i, word in enumerate(reversed(LAST), 1) if name.startswith(word)), 0)


@pytest.fixture(scope="module")
def postgres(request):
    """One that can be copied to."""
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        yield server


@pytest.fixture(scope="module")
def daemon(start_daemon, postgres):
    return start_daemon(QUEEND_MIGRATION_TARGETS=f"127.0.0.1:{postgres.port}/*")


@pytest.fixture(scope="module")
def things(daemon, postgres):
    """A queue with a message that is under delivery and one that is dead, a query, and a database; what stands for
    those of the examples."""
    target = {**conninfo_to_dict(postgres.empty_database()), "host": "127.0.0.1", "port": str(postgres.port)}
    with daemon.client() as client:
        client.configure("orders", namespace="shop", task="billing")
        assert client.post("/api/v1/ephemeral/push", {"queue": "orders", "messages": [{"payload": 1}]}).status == 201
        query = client.post("/streams/v1/queries",
                            {"name": "totals", "source_queue": "orders", "config_hash": "c0ffee"}).json["query_id"]
        yield {QUERY: query, TARGET["host"]: target["host"], TARGET["port"]: target["port"],
               TARGET["database"]: target["dbname"], TARGET["user"]: target["user"]}


@pytest.mark.parametrize("method, path, operation", sorted(OPERATIONS, key=order),
                         ids=lambda value: value if isinstance(value, str) else "")
def test_examples_are_answered_as_described(client, things, method, path, operation):
    # its own message each time: "order-17" of this test, delivered to the group
    text = f"order-17-{method}-{re.sub(r'[^a-z]+', '-', path)}"
    (stored,) = client.push_items([{"queue": "orders", "partition": "customer-7", "transactionId": text,
                                    "payload": {"n": 1}}])
    lease = ""
    if not path.startswith("/api/v1/pop"):
        # a cursor per test, so that nobody's lease is another's
        (taken, *_) = client.pop("orders", "customer-7", consumerGroup=text, subscriptionMode="all", batch=1000)
        lease = taken["leaseId"]
    if path.endswith("/retry"):
        assert client.post(f"/api/v1/messages/{stored['partition_id']}/{text}/dlq").status == 200
    live = {"order-17": text, MESSAGE["partitionId"]: stored["partition_id"], **things,
            **({MESSAGE["leaseId"]: lease} if lease else {}),
            **({"billing": text} if path.startswith(("/api/v1/ack", "/api/v1/transaction"))
               or path.endswith(("/seek", "/dlq")) else {})}

    def ours(value):
        value = json.dumps(value)
        for example, real in live.items():
            value = value.replace(f'"{example}"', f'"{real}"')
        return json.loads(value)

    target = re.sub(r"{(\w+)}", lambda found: ours(
        next(one["example"] for one in operation["parameters"] if one["name"] == found[1])), path)
    if path == "/api/v1/pop":
        target += "?namespace=shop"
    if path == "/api/v1/ephemeral/pop":
        target += "?queue=orders"
    if f"{method} {path}" == "DELETE /api/v1/dlq":
        target += "?queue=orders"
    if path == "/api/v1/messages/search":
        target += "?queue=orders&text=n"
    bodies = {kind: ours(content["example"]) for kind, content in operation.get("requestBody", {}).get("content", {})
              .items() if "example" in content} or {None: None}
    for kind, body in bodies.items():
        if kind == "application/cloudevents-batch+json":
            body[0]["id"] += "-batch"
        answer = client.request(method, target, body, {"Content-Type": kind} if kind else {})
        wanted = next(iter(operation["responses"]))
        assert str(answer.status) == wanted, (target, body, answer)
        content = operation["responses"][wanted]["content"]
        assert answer.headers["content-type"].partition(";")[0] in content
        if answer.headers["content-type"].startswith("application/json"):
            check(content["application/json"]["schema"], answer.json, target)
    if path.endswith("/pause"):      # the others pop
        assert client.post(target.removesuffix("pause") + "resume").status == 200


def test_every_parameter_of_a_push_is_described(client):
    """What docs/push-formats.md and docs/delays.md have in its query. Told to refuse what it does not know, the daemon
    knows them all, and no other."""
    (push,) = (operation for method, path, operation in OPERATIONS if (method, path) == ("POST", "/api/v1/push"))
    described = [one["name"] for one in push["parameters"] if one["in"] == "query"]
    assert sorted(described) == ["delayMs", "deliverAt", "format", "partition", "payload", "queue"]
    for name in (*described, "colour"):
        answer = client.request("POST", f"/api/v1/push?{name}=", {"items": []}, {"Prefer": "handling=strict"})
        assert (answer.json == {"error": f"{name} is no parameter"}) == (name == "colour"), answer


def test_pops_as_events_are_as_described(client):
    client.push("events-described", {"n": 1}, partition="p")
    answer = client.get(pop_target("events-described", format="cloudevents"))
    check(DOCUMENT["paths"]["/api/v1/pop"]["get"]["responses"]["200"]["content"]["application/cloudevents-batch+json"][
        "schema"], answer.json, "events")


@pytest.mark.parametrize("accept", ["application/json", "application/problem+json"])
def test_errors_are_as_described(client, accept):
    for method, target in (("GET", "/api/v1/pop"), ("GET", "/api/v1/resources/queues/nobody"),
                           ("POST", "/api/v1/push")):
        answer = client.request(method, target, b"[", {"Accept": accept})
        check(DOCUMENT["paths"]["/api/v1/pop"]["get"]["responses"]["400"]["content"][accept]["schema"],
              answer.json, target)
