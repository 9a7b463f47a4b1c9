"""The chart: values that its schema refuses, and what the ingress, the autoscaler and the settings become."""
from __future__ import annotations

import helm_python
import kubernetes_validate
import pytest

from .chart import CHART, objects

OUTSIDE = {"enabled": True, "hosts": ["queue.example"]}
NGINX, HAPROXY, ALB = "nginx.ingress.kubernetes.io/", "haproxy.org/", "alb.ingress.kubernetes.io/"


def one_of(kind: str, values: dict) -> dict:
    found, = (one for one in objects(values) if one["kind"] == kind)
    return found


@pytest.mark.parametrize("values", [
    {"settings": {"NO_SUCH": "1"}}, {"replica": 2}, {"autoscaling": {"scaleDown": "no"}}])
def test_helm_refuses_values_by_the_schema(values):
    with pytest.raises(helm_python.HelmError, match="schema|allowed|enum|must be one of|propert"):
        objects(values)


@pytest.mark.parametrize(("values", "said"), [
    ({"autoscaling": {"enabled": True, "cpu": 0}}, "autoscaling.cpu or autoscaling.metric"),
    ({"autoscaling": {"enabled": True, "min": 9}}, "autoscaling.min is 9, autoscaling.max is 8")])
def test_values_that_contradict_each_other(values, said):
    with pytest.raises(helm_python.HelmError, match=said):
        objects(values)


@pytest.mark.parametrize(("controller", "wanted"), [
    ("nginx", {NGINX + "proxy-read-timeout": "180", NGINX + "proxy-buffering": "off"}),
    ("haproxy", {HAPROXY + "timeout-server": "180s", HAPROXY + "check-http": "/readyz",
                 HAPROXY + "timeout-tunnel": "1h"}),
    ("alb", {ALB + "healthcheck-path": "/readyz",
             ALB + "load-balancer-attributes": "idle_timeout.timeout_seconds=180"}),
    ("none", {})])
def test_an_ingress_lets_long_polls_wait_and_asks_the_probe_of_balancers(controller, wanted):
    made = one_of("Ingress", {"ingress": {**OUTSIDE, "controller": controller}})
    kubernetes_validate.validate(made, "1.32", strict=True)
    given = made["metadata"].get("annotations", {})
    assert wanted.items() <= given.items() and bool(given) == (controller != "none")
    backend = made["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    service = one_of("Service", {})
    assert backend == {"name": service["metadata"]["name"], "port": {"name": service["spec"]["ports"][0]["name"]}}


def test_own_annotations_of_the_ingress_win():
    name = NGINX + "proxy-read-timeout"
    made = one_of("Ingress", {"ingress": {**OUTSIDE, "annotations": {name: "600"}}})
    assert made["metadata"]["annotations"][name] == "600"


def test_the_controller_of_the_ingress_passes_the_network_policy():
    controller = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}
    assert controller in one_of("NetworkPolicy", {"ingress": OUTSIDE})["spec"]["ingress"][0]["from"]
    assert controller not in one_of("NetworkPolicy", {})["spec"]["ingress"][0]["from"]


@pytest.mark.parametrize(("storage", "down", "removes"), [
    ("", "WithoutBuffer", True), ("1Gi", "WithoutBuffer", False), ("1Gi", "Always", True), ("", "Never", False)])
def test_no_daemon_is_removed_whose_disk_may_hold_messages(storage, down, removes):
    made = one_of("HorizontalPodAutoscaler", {"buffer": {"storage": storage},
                                              "autoscaling": {"enabled": True, "scaleDown": down}})
    assert ("selectPolicy" not in made["spec"]["behavior"]["scaleDown"]) == removes


def test_the_disk_of_a_removed_pod_stays():
    spec = one_of("StatefulSet", {"buffer": {"storage": "1Gi"}})["spec"]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_settings_reach_the_daemon_as_they_were_written():
    given = {"QUEEND_BUFFER_BYTES": 4294967296, "JWT_ENABLED": True, "PG_HOST": "db.example", "NUM_WORKERS": "2"}
    container = one_of("Deployment", {"settings": given})["spec"]["template"]["spec"]["containers"][0]
    env = [(one["name"], one["value"]) for one in container["env"]]
    assert len(dict(env)) == len(env)
    assert {name: dict(env)[name] for name in given} == {
        "QUEEND_BUFFER_BYTES": "4294967296", "JWT_ENABLED": "true", "PG_HOST": "db.example", "NUM_WORKERS": "2"}


@pytest.mark.parametrize(("secret", "scheme"), [("", "HTTP"), ("queue-tls", "HTTPS")])
def test_pods_with_a_certificate_speak_tls_to_the_probes_and_the_monitor(secret, scheme):
    values = {"tls": {"secret": secret}, "metrics": {"serviceMonitor": True}}
    pod = one_of("Deployment", values)["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert {container[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")} == {scheme}
    env = {one["name"]: one["value"] for one in container["env"]}
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert ("QUEEND_TLS_CERT" in env) == ("/run/certificates" in mounted) == bool(secret)
    if secret:
        assert env["QUEEND_TLS_CERT"] == "/run/certificates/tls.crt" and env["QUEEND_TLS_KEY"].endswith("/tls.key")
        assert [one["secret"]["secretName"] for one in pod["volumes"] if one["name"] == "certificates"] == [secret]
    (endpoint,) = one_of("ServiceMonitor", values)["spec"]["endpoints"]
    assert endpoint["scheme"] == scheme.lower()


def test_a_certificate_of_the_settings_is_known_to_the_probes_and_the_monitor():
    values = {"settings": {"QUEEND_TLS_CERT": "/certificates/a", "QUEEND_TLS_KEY": "/certificates/b"},
              "metrics": {"serviceMonitor": True}}
    container = one_of("Deployment", values)["spec"]["template"]["spec"]["containers"][0]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http", "scheme": "HTTPS"}
    (endpoint,) = one_of("ServiceMonitor", values)["spec"]["endpoints"]
    assert endpoint["scheme"] == "https" and endpoint["tlsConfig"] == {"insecureSkipVerify": True}


def test_where_clients_need_a_certificate_the_probes_show_that_of_the_daemon():
    container = one_of("Deployment", {"tls": {"secret": "queue-tls"}, "settings": {
        "QUEEND_TLS_CLIENT_CA": "/run/credentials/queend/ca", "QUEEND_TLS_CLIENT_REQUIRED": True}},
        )["spec"]["template"]["spec"]["containers"][0]
    assert {kind: container[f"{kind}Probe"]["exec"]["command"][3] for kind in ("startup", "liveness", "readiness")} == {
        "startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}


def test_the_schema_belongs_to_the_chart():
    assert helm_python.Chart.load(CHART).schema
