"""The schema of the chart's values, and the example that scales consumers."""
from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from support.guides import blocks

from queend.settings.model import Settings, is_secret

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "packaging/helm/queend"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


def errors(changed: dict) -> list[str]:
    """Returns what the schema says against the default values with these changes, as Helm merges them."""
    def merged(base: object, over: object) -> object:
        if not isinstance(base, dict) or not isinstance(over, dict):
            return over
        return {**base, **{name: merged(base.get(name), value) for name, value in over.items()}}
    validator = jsonschema_rs.Draft7Validator(SCHEMA)
    return [str(one) for one in validator.iter_errors(merged(copy.deepcopy(DEFAULTS), changed))]


def test_each_default_is_described_and_allowed():
    def described(values: dict, schema: dict, place: str) -> None:
        assert schema.get("additionalProperties") is False, place
        assert set(values) <= set(schema["properties"]), place
        for name, value in values.items():
            if isinstance(value, dict) and "properties" in schema["properties"][name]:
                described(value, schema["properties"][name], f"{place}.{name}")
    described(DEFAULTS, SCHEMA, "values")
    assert set(DEFAULTS) == set(SCHEMA["properties"]) - {"global"}
    assert not errors({})


def test_settings_are_those_of_the_daemon_that_are_no_secrets():
    named = SCHEMA["properties"]["settings"]["propertyNames"]["enum"]
    wanted = {name.upper() for name in Settings.model_fields if not is_secret(name)} - {"PORT", "QUEEND_DATA_DIR"}
    assert named == sorted(wanted), "make documents"
    assert "PG_PASSWORD" not in named and "JWT_SECRET" not in named


@pytest.mark.parametrize("good", [
    {"replicas": 3, "image": {"repository": "example/queend", "tag": "0.1.0", "pullSecrets": [{"name": "registry"}]}},
    {"settings": {"PG_HOST": "db.example", "JWT_ENABLED": True, "NUM_WORKERS": 2, "QUEEND_BUFFER_BYTES": "4294967296"}},
    {"buffer": {"storage": "10Gi", "storageClass": "fast"}},
    {"ingress": {"enabled": True, "hosts": ["queue.example", "*.queue.example"], "controller": "alb",
                 "tls": [{"secretName": "queue-tls"}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}},
    {"autoscaling": {"enabled": True, "metric": "queend_backlog_messages", "scaleDown": "Never"}},
    {"disruption": {"maxUnavailable": "25%"}, "resources": {"limits": {"cpu": 2, "memory": "2Gi"}}},
    {"network": {"from": [{"podSelector": {}}], "database": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}},
    {"global": {"anything": 1}, "metrics": {"serviceMonitor": True, "interval": "1m30s"}}])
def test_good_values(good):
    assert not errors(good)


def test_values_of_the_page():
    """The commands of docs/install.md: the chart and its files exist, and the schema allows what `--set` sets."""
    commands = [shlex.split(block.replace("\\\n", "").splitlines()[-1]) for block in blocks("install.md")
                if "helm install" in block]
    assert len(commands) == 2 and all(ROOT / words[3] == CHART for words in commands)
    for words in commands:
        changed: dict = {}
        for place, value in (one.split("=", 1) for flag, one in zip(words, words[1:], strict=False) if flag == "--set"):
            *folders, name = place.split(".")
            inside = changed
            for folder in folders:
                inside = inside.setdefault(folder, {})
            inside[name] = value.strip("{}").split(",") if value.startswith("{") else yaml.safe_load(value)
        assert changed and not errors(changed)


@pytest.mark.parametrize("bad", [
    {"replica": 2}, {"replicas": "2"}, {"replicas": -1}, {"image": {"pullPolicy": "always"}}, {"image": {"name": "x"}},
    {"image": {"pullSecrets": ["registry"]}}, {"credentials": ""}, {"credentials": "Queend_1"},
    {"settings": {"PG_HOSTS": "x"}}, {"settings": {"pg_host": "x"}}, {"settings": {"PG_PASSWORD": "x"}},
    {"settings": {"PORT": "7000"}}, {"settings": {"PG_HOST": ["x"]}}, {"buffer": {"storage": "ten"}},
    {"buffer": {"size": "10Gi"}}, {"service": {"type": "Public"}}, {"service": {"port": 0}},
    {"ingress": {"enabled": True}}, {"ingress": {"controller": "apache"}}, {"ingress": {"host": "x"}},
    {"ingress": {"timeoutSeconds": 60}}, {"ingress": {"hosts": ["https://queue.example"]}},
    {"ingress": {"annotations": {"a": 180}}}, {"ingress": {"from": [{"namespace": "x"}]}},
    {"autoscaling": {"backlog": 50000}}, {"autoscaling": {"cpu": "75%"}}, {"autoscaling": {"scaleDown": "no"}},
    {"autoscaling": {"min": 0}}, {"disruption": {"maxUnavailable": "1"}}, {"network": {"databasePort": "5432"}},
    {"metrics": {"interval": "often"}}, {"preStopSeconds": -1}, {"nodeSelector": {"a": True}}])
def test_bad_values(bad):
    assert errors(bad)


def test_the_consumers_are_scaled_by_metrics_that_exist(tmp_path):
    made = yaml.safe_load((ROOT / "packaging/keda/consumers.yaml").read_text())
    assert (made["apiVersion"], made["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    trigger, = made["spec"]["triggers"]
    assert trigger["type"] == "prometheus" and made["spec"]["minReplicaCount"] >= 1
    query = trigger["metadata"]["query"]
    listed = (ROOT / "docs/metrics.md").read_text()
    assert all(f"| `{name}` |" in listed for name in re.findall(r"\bqueend_\w+", query))

    def series(name: str, values: str) -> dict:
        return {"series": f'{name}{{queue="orders", group="billing", instance="a"}}', "values": values}

    def wanted(when: str, pods: int) -> dict:
        return {"expr": query, "eval_time": when, "exp_samples": [{"labels": "{}", "value": pods}]}

    (tmp_path / "rules.yml").write_text("groups: []\n")
    (tmp_path / "test.yml").write_text(yaml.safe_dump({
        "rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [{
            "interval": "1m",
            "input_series": [series("queend_group_lag_messages", "0 3000 50000 2000"),
                             series("queend_group_lagging_partitions", "0 8 8 1")],
            "promql_expr_test": [wanted("0m", 0), wanted("1m", 3), wanted("2m", 8), wanted("3m", 1)]}]}))
    done = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
