"""Where the time goes: perf samples of the daemon and of PostgreSQL's processes during a measured window."""

import shutil
import signal
import subprocess

from generator import OUT
from process import descendants


class Profile:
    """One perf per side; `stop` leaves bench/out/SCENARIO.{daemon,postgres}.txt, symbols by share of that side's own
    time."""

    def __init__(self, scenario: str, daemon: int, postgres: int):
        if not shutil.which("perf"):
            raise SystemExit("bench: --profile needs perf (package linux-perf)")
        OUT.mkdir(exist_ok=True)
        self.paths = {side: OUT / f"{scenario}.{side}.data" for side in ("daemon", "postgres")}
        self.runs = [
            subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-g", "-o", self.paths[side],
                              "-p", ",".join(map(str, descendants(root)))], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
            for side, root in (("daemon", daemon), ("postgres", postgres))]

    def stop(self) -> None:
        for run in self.runs:
            run.send_signal(signal.SIGINT)
            run.wait()
        for side, path in self.paths.items():
            text = ""
            for title, options in (("by symbol", ["--no-children", "-g", "none"]),
                                   ("by symbol with what it calls", ["--children", "-g", "none"])):
                text += f"# {title}\n" + subprocess.run(
                    ["perf", "report", "-i", path, "--stdio", "--percent-limit", "0.5", "-s", "dso,symbol", *options],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            path.with_suffix(".txt").write_text(text)
