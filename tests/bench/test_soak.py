"""The soak ends by itself, agrees with the log it filled, and leaves its figures and drawings."""
import json
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).resolve().parents[2] / "bench" / "soak.py"


def test_a_short_soak(tmp_path):
    for minutes in (0.15, 0.6, 2.4):      # a busy machine takes samples rarely
        # at full speed it is `make bench-soak`: here it would take the samples their processor
        done = subprocess.run([sys.executable, SOAK, "--young", "--minutes", str(minutes), "--keep", "2", "--rate",
                               "20", "--out", tmp_path / "soak"], capture_output=True, text=True)
        if "too few samples" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "soak.jsonl").read_text().splitlines()]
    kinds = {line["kind"] for line in lines}
    assert kinds - {"vacuum"} == {"environment", "second", "sample", "event", "summary"}
    samples = [line for line in lines if line["kind"] == "sample"]
    summary = lines[-1]
    # retention removed something
    assert samples[-1]["live"] < samples[-1]["stored"] and samples[-1]["wal"] > samples[0]["wal"]
    assert summary["faults"] == [] and summary["pushed"] > 0 and summary["popped"] > 0
    assert set(summary["thirds"]) == {"before", "snapshot", "after"}
    assert summary["recovery"]["cancelled"] == 0
    assert sum(line["roles"]["push"]["messages"] for line in lines if line["kind"] == "second") <= summary["pushed"]
    assert any(line["kind"] == "event" and line["what"] == "snapshot held" for line in lines)
    for name in ("latency", "bytes", "dead", "rate"):
        assert (tmp_path / f"soak-{name}.svg").read_text().startswith("<svg")
