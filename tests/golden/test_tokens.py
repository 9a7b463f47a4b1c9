"""The recorded conversation about tokens, replayed: their claims are the recorded ones, signed here, their times as far
from now as they were then. Deliberate differences: tokens.toml."""
from __future__ import annotations

import json
import re
import tomllib
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import compare
import pytest
from recording import read, recorded
from support.daemon import Daemon
from support.http import Wire
from support.tokens import SECRET, b64, token

TEXTS = recorded(Path(__file__).with_name("tokens.txt"))
DIFFERENCES = Path(__file__).with_name("tokens.toml")
TOKEN = re.compile(r"JWT\[header=(\{.*?\}) claims=(\{.*?\}) signature=(present|none)\]")
FORGED = {"014_push_bad_signature"}
MEASURED = {"001_health_no_token", "002_metrics_no_token", "003_prometheus_no_token"}


def signed(name: str, text: str) -> str:
    then = re.search(r"^Date: (.*)$", text, re.M)

    def one(found: re.Match[str]) -> str:
        header, claims = json.loads(found[1]), json.loads(found[2])
        if found[3] == "none":
            return f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}."
        at = datetime.strptime(then[1],
                               "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=timezone.utc).timestamp() if then else 0
        claims = {key: value - int(at) if key in ("exp", "nbf", "iat") else value for key, value in claims.items()}
        claims.setdefault("exp", None)
        return token(header["alg"], "another secret, which is long enough as well" if name in FORGED else SECRET,
                     header, **claims)

    return TOKEN.sub(one, text)


@pytest.fixture(scope="module")
def seen(start_daemon: Any) -> dict[str, list[str]]:
    """Plays the whole conversation; recording → differences."""
    daemon: Daemon = start_daemon(QUEEND_DASHBOARD="false", JWT_ENABLED="true", JWT_SECRET=SECRET,
                                  JWT_REQUIRE_EXP="false", JWT_SKIP_PATHS="/health,/metrics/prometheus,/metrics,/",
                                  QUEEND_STRICT="false", CORS_ORIGINS="*")
    pairs = compare.Pairs()
    result = {}
    for name, text in TEXTS.items():
        one = read(name, signed(name, text))      # now: some tokens end soon
        with Wire(daemon.address) as wire:
            wire.send(pairs.translate(one.sent))
            result[one.name] = list(compare.answers(one.answers, [wire.receive()], pairs, by_form=one.name in MEASURED))
    return result


def listed() -> dict[str, set[str]]:
    result: dict[str, set[str]] = {}
    for entry in tomllib.loads(DIFFERENCES.read_text())["difference"]:
        assert entry["reason"].strip(), entry
        for name in entry["recordings"]:
            result.setdefault(name, set()).update(entry["what"])
    return result


@pytest.mark.parametrize("name", TEXTS)
def test_recording(seen: dict[str, list[str]], name: str) -> None:
    deliberate, found = listed().get(name, set()), set(seen[name])
    assert not found - deliberate, f"not listed: {sorted(found - deliberate)}"
    assert not deliberate - found, f"listed but gone: {sorted(deliberate - found)}"
