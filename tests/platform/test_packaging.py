"""What is packaged names what is there: versions, settings, accounts, routes. What is made of it: tests/packages."""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

import queend
from queend.cli import SECTIONS, app
from queend.settings.model import Settings

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
CHART = PACKAGING / "helm/queend"
NAMES = {name.upper() for name in Settings.model_fields} | {"CREDENTIALS_DIRECTORY"}


def test_one_version_everywhere():
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", queend.__version__)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == queend.__version__
    assert re.search(rf"^## {re.escape(queend.__version__)} ", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_settings_that_are_named_exist():
    compose = yaml.safe_load((PACKAGING / "compose.yaml").read_text())
    values = (CHART / "values.yaml").read_text()
    recipe = (PACKAGING / "Dockerfile").read_text()
    named = set(compose["services"]["queend"]["environment"])
    named |= set(re.findall(r"- name: ([A-Z_]+)$", (CHART / "templates/workload.yaml").read_text(), re.M))
    named |= set(yaml.safe_load(values)["settings"]) | set(re.findall(r"^  # ([A-Z_]+): ", values, re.M))
    named |= {name for line in re.findall(r"^ENV (.*)$", recipe, re.M) for name in re.findall(r"\b([A-Z_]+)=", line)
              if name not in ("PATH", "PYTHONDONTWRITEBYTECODE")}
    assert named >= {"PG_HOST", "QUEEND_DATA_DIR", "HOST"} and not named - NAMES
    assert {name.upper() for name in compose["secrets"]} <= NAMES


def test_image_and_chart_agree():
    recipe, workload = (PACKAGING / "Dockerfile").read_text(), (CHART / "templates/workload.yaml").read_text()
    account, = re.findall(r"^USER (\d+):\1$", recipe, re.M)
    assert workload.count(f": {account}\n") == 3      # user, group, files
    port, = re.findall(r"^EXPOSE (\d+)$", recipe, re.M)
    assert f"containerPort: {port}\n" in workload and int(port) == Settings.model_fields["port"].default
    folder, = re.findall(r"^VOLUME (\S+)$", recipe, re.M)
    assert f"mountPath: {folder}\n" in workload
    assert {"/livez", "/readyz"} == set(re.findall(r'"path" "(/\w+)"', workload))


def test_the_metric_that_values_name_is_one_of_ours():
    metric, = re.findall(r"^# (queend_\w+), until each", (CHART / "values.yaml").read_text(), re.M)
    assert any(f'"{metric}"' in path.read_text() for path in (ROOT / "queend/control").rglob("*.py"))


def test_the_release_builds_what_can_be_built():
    text = (ROOT / ".github/workflows/release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    for job in jobs.values():
        assert job["timeout-minutes"] and set([job["needs"]] if isinstance(job.get("needs"), str)
                                              else job.get("needs", ())) <= set(jobs)
        for step in job["steps"]:
            action = step.get("uses", "").partition("@")[0]
            # Its interpreters are those of Ubuntu: a container of Debian has none of them.
            assert "container" not in job or action != "actions/setup-python"
    make = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", make, re.M) for target in re.findall(r"\bmake ([a-z-]+) ", text)
               if target != "ca-certificates")
    assert all((ROOT / path).exists() for path in re.findall(r"\b((?:tools|packaging)/[\w./]+\w)", text))


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").iterdir()), ids=lambda path: path.name)
def test_workflows_use_actions_by_commit_with_the_version_as_a_comment(path):
    lines = re.findall(r"^ *(?:- )?uses: *(.*)$", path.read_text(), re.M)
    steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    assert len(lines) == sum("uses" in step for step in steps)
    wrong = [line for line in lines if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)]
    assert not wrong
    assert len(set(lines)) == len({line.partition("@")[0] for line in lines})      # one version of each action


@pytest.mark.parametrize(("file", "least"), [("packaging/Dockerfile", 2), ("tools/image.py", 2), ("tools/deb.py", 1)])
def test_packages_get_distributions_by_locked_hashes(file, least):
    # Continued lines, and the words of a call in Python, become one command per line.
    text = re.sub(r'",\s*"|\\\n', " ", (ROOT / file).read_text())
    commands = re.findall(r'/pip"?,? "?((?:install|download) .*?)(?:&&|$)', text, re.M)
    assert len(commands) >= least and "locked/run.txt" in text
    for words in map(str.split, commands):
        locked = {"--require-hashes", "-r"} <= {word.strip('",') for word in words}
        assert locked or {"--no-deps", "--no-index"} <= set(words), words


def test_docker_is_given_the_files_that_the_recipe_copies():
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (PACKAGING / "Dockerfile").read_text(), re.M)
    ignored, *given = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied and ignored == "*" and sorted(given) == sorted(f"!{one}" for line in copied for one in line.split())


def test_the_release_records_the_digest_of_the_base_image():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    build, = (step["with"] for step in jobs["image"]["steps"] if "build-push-action" in step.get("uses", ""))
    name, digest = "${{ steps.base.outputs.name }}", "${{ steps.base.outputs.digest }}"
    assert build["build-args"] == f"BASE={name}@{digest}"
    assert build["labels"].splitlines() == [f"org.opencontainers.image.base.name={name}",
                                            f"org.opencontainers.image.base.digest={digest}"]
    assert len(re.findall(r"^ARG BASE=[a-z]+:\S+$", (PACKAGING / "Dockerfile").read_text(), re.M)) == 1


def test_the_manual_page_has_every_command(tmp_path):
    page = subprocess.run([sys.executable, ROOT / "tools/man.py"], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(ROOT), "SOURCE_DATE_EPOCH": "0"}).stdout
    assert page.startswith(f'.TH QUEEND 1 "1970-01-01" "queend {queend.__version__}"')
    root = get_command(app)
    for names in SECTIONS.values():
        for name in names:
            for child in getattr(root.commands[name], "commands", {"": None}):
                assert f".SS queend {name} {child}".rstrip().replace("-", "\\-") in page
    assert not [line for line in page.splitlines() if line.startswith("'")]


def test_the_debian_package_asks_for_what_the_units_use():
    control = (PACKAGING / "debian/control").read_text()
    assert set(re.findall(r"@(\w+)@", control)) == {"VERSION", "ARCHITECTURE", "PYTHON", "NEXT", "GLIBC", "SIZE"}
    for name in ("postinst", "prerm", "postrm"):
        script = PACKAGING / "debian" / name
        assert subprocess.run(["sh", "-n", script]).returncode == 0
        assert script.read_text().startswith("#!/bin/sh\nset -e\n")
    sources = json.dumps(sorted(path.name for path in (ROOT / "systemd").iterdir()))
    assert '"queend.sysusers"' in sources and '"queend.tmpfiles"' in sources
