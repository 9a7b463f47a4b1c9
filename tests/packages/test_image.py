"""The image's recipe and the chart: looked at by hadolint and helm, the objects by the schemas of Kubernetes."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import helm_python
import kubernetes_validate
import pytest

from .chart import CHART, objects
from .conftest import ROOT

WAYS = {
    "defaults": {},
    "everything": {
        "buffer": {"storage": "10Gi", "storageClass": "fast"},
        "autoscaling": {"enabled": True, "metric": "queend_backlog_messages", "selector": {"a": "b"}},
        "metrics": {"serviceMonitor": True, "tokenSecret": "scrape"},
        "settings": {"JWT_ENABLED": "true", "JWT_JWKS_URL": "https://id.example/k"},
        "network": {"from": [{"namespaceSelector": {}}], "database": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        "image": {"pullSecrets": [{"name": "x"}]}, "service": {"annotations": {"a": "b"}},
        "podAnnotations": {"a": "b"}, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "ingress": {"enabled": True, "className": "nginx", "hosts": ["queue.example"], "annotations": {"a": "b"},
                    "tls": [{"secretName": "queue-tls", "hosts": ["queue.example"]}]}},
    "neither policy nor buffer": {"network": {"enabled": False}, "autoscaling": {"enabled": True, "cpu": 60}},
}


def test_hadolint_finds_nothing():
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert program
    done = subprocess.run([program, ROOT / "packaging/Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done


@pytest.mark.parametrize("way", WAYS)
def test_helm_finds_nothing(way):
    found = helm_python.lint(CHART, values=WAYS[way])
    assert "ERROR" not in str(found) and "WARNING" not in str(found), found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", ["1.29", "1.32", "1.36"])
def test_objects_are_ones_of_kubernetes(way, version):
    made = objects(WAYS[way])
    for one in made:
        if one["kind"] != "ServiceMonitor":      # of an operator
            kubernetes_validate.validate(one, version, strict=True)
    kinds = [one["kind"] for one in made]
    assert len(set(kinds)) == len(kinds) and {"Service", "PodDisruptionBudget"} <= set(kinds)
    assert ("StatefulSet" in kinds) == (way == "everything") and ("NetworkPolicy" in kinds) == (
        way != "neither policy nor buffer")


def test_every_selector_finds_the_pods():
    made = {one["kind"]: one for one in objects(WAYS["everything"])}
    labels = made["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    for kind, where in (("Service", ("selector",)), ("PodDisruptionBudget", ("selector", "matchLabels")),
                        ("NetworkPolicy", ("podSelector", "matchLabels")),
                        ("StatefulSet", ("selector", "matchLabels"))):
        found = made[kind]["spec"]
        for name in where:
            found = found[name]
        assert found.items() <= labels.items(), kind
    target = made["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("StatefulSet", made["StatefulSet"]["metadata"]["name"])
    assert made["StatefulSet"]["spec"]["serviceName"] == made["Service"]["metadata"]["name"]
    claim, = made["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"


def test_a_pod_may_do_nothing_it_need_not():
    pod, = (one["spec"]["template"]["spec"] for one in objects({}) if one["kind"] == "Deployment")
    container, = pod["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                            "capabilities": {"drop": ["ALL"]}}
    assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False
    assert {one["name"]: one.get("value") for one in container["env"]}["QUEEND_BUFFER_BYTES"] == "0"
