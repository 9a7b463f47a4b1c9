"""schemathesis asks a daemon everything /openapi.json says may be asked, and more: no answer is a 5xx, none has a
status, type or body that the document does not know. A few hundred calls here; `make test-schema` makes 20 000 of them
along its links (`--schema-calls`)."""
import os
import subprocess
import sys
import time
from pathlib import Path

import jsonschema_rs

HERE = Path(__file__).resolve().parent
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,"
          "response_headers_conformance,response_schema_conformance")
ROUND_S = 60
PARALLEL = 2      # of a long run: most of the time is schemathesis' own


def started(daemon, folder, seed, *words):
    folder.mkdir()
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{daemon.url}/openapi.json", "--checks", CHECKS,
               "--exclude-path-regex", "^/api/v1/stream/",      # whose answers have no end
               "--suppress-health-check", "all", "--warnings", "off", "--continue-on-failure",
               "--seed", str(seed), *words]
    with open(folder / "told", "w") as told:
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=told, stderr=subprocess.STDOUT)


def calls(daemon):
    with daemon.client() as client:
        return client.get("/metrics").json["requests"]["total"]


def finished(runs):
    for folder, run in runs:
        assert run.wait() == 0, (folder / "told").read_text()[-20000:]


def test_answers_that_a_long_run_found(daemon, queue):
    """A record of a redriven message, and a transaction with an unknown operation."""
    with daemon.client() as client:
        document = client.get("/openapi.json").json
        client.push(queue, 1)
        client.ack(client.pop(queue)[0], "dlq")
        assert client.post("/api/v1/dlq/redrive", {"queue": queue}).json["redriven"] == 1
        found = client.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": "Default", "offset": 0}]})
        assert "originTransactionId" in found.json["entries"][0]["records"][-1]
        for path, answer in (("/api/v1/fetch", found), *(
                ("/api/v1/transaction", client.post("/api/v1/transaction", {"operations": [{"type": kind}]}))
                for kind in ("AAA", {}))):
            described = document["paths"][path]["post"]["responses"][str(answer.status)]["content"]
            schema = {**described["application/json"]["schema"], "components": document["components"]}
            jsonschema_rs.validate(schema, answer.json)


def test_every_answer_is_as_described(start_daemon, request, tmp_path):
    wanted, began = request.config.getoption("--schema-calls"), time.monotonic()
    daemon = start_daemon(QUEEND_ENCRYPTION_KEYS=f"a:{'5a' * 32}")     # it may be asked for encrypted queues
    seed = int(time.time()) if wanted else 1
    phases, examples = ("examples,coverage,fuzzing", "20") if wanted else ("examples,fuzzing,stateful", "3")
    finished([(tmp_path / "single",
               started(daemon, tmp_path / "single", seed, "--phases", phases, "--max-examples", examples))])
    first = done = calls(daemon)
    while wanted and done - first < wanted:
        seed += PARALLEL
        folders = [tmp_path / str(seed + i) for i in range(PARALLEL)]
        finished([(folder, started(daemon, folder, int(folder.name), "--phases", "stateful", "--max-time",
                                   str(ROUND_S))) for folder in folders])
        done = calls(daemon)
    assert done > 150, "it asked little"
    print(f"\n{first} calls one by one, {done - first} along links, seed {seed}, {time.monotonic() - began:.0f} s")
