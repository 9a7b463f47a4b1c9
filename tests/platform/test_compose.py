"""packaging/compose.yaml: what it mounts, publishes and probes, and its Prometheus with a real daemon."""
from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from support.daemon import ROOT
from support.prometheus import scraping

PACKAGING = ROOT / "packaging"
COMPOSE = yaml.safe_load((PACKAGING / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def mounts(service: str) -> dict[str, str]:
    """Returns the place in the container of each volume or file that the service mounts."""
    return {inside: source for source, inside, *_ in (one.split(":") for one in SERVICES[service].get("volumes", ()))}


def test_what_services_mount_exists():
    named = set(COMPOSE["volumes"])
    for service in SERVICES:
        for source in mounts(service).values():
            if source.startswith("."):
                assert (PACKAGING / source).is_file(), source
            else:
                named.discard(source)
                assert source in COMPOSE["volumes"], source
        assert set(SERVICES[service].get("secrets", ())) <= set(COMPOSE["secrets"])
    assert not named, "volumes that no service mounts"
    # Secrets are written by hand, so git ignores them.
    for secret in COMPOSE["secrets"].values():
        assert subprocess.run(["git", "check-ignore", "-q", PACKAGING / secret["file"]], cwd=ROOT).returncode == 0


def test_each_service_is_probed_and_waited_for():
    for name, service in SERVICES.items():
        assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL") and service["restart"] == "unless-stopped"
        for wanted, how in service.get("depends_on", {}).items():
            assert wanted in SERVICES and how == {"condition": "service_healthy"}, name
    assert SERVICES["queend"]["healthcheck"]["test"] == ["CMD", "python3", "-m", "queend.daemon.alive"]


def test_only_this_machine_reaches_the_ports_and_each_once():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert sorted(ports) == ["127.0.0.1:6632:6632", "127.0.0.1:9090:9090"]


def test_images_have_a_version():
    for name, service in SERVICES.items():
        assert name == "queend" or re.search(r":v?\d+", service["image"]), name


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Returns the configuration that Prometheus gets, with the files that it names as the service mounts them."""
    given = mounts("prometheus")
    option, = (word for word in SERVICES["prometheus"]["command"] if word.startswith("--config.file="))
    made = yaml.safe_load((PACKAGING / given[option.partition("=")[2]]).read_text())
    made["rule_files"] = [str(Path(PACKAGING / given[file]).resolve()) for file in made["rule_files"]]
    return made


def test_prometheus_accepts_the_configuration(config, tmp_path):
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    done = subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_the_service(config, start_daemon, tmp_path):
    job, = config["scrape_configs"]
    target, = job["static_configs"][0]["targets"]
    name, _, port = target.partition(":")
    assert name in SERVICES and f"127.0.0.1:{port}:{port}" in SERVICES[name]["ports"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{start_daemon().port}"]}]
    with scraping(tmp_path, config) as query:
        assert query("queend_database_doubts")[0]["value"][1] == "0"
