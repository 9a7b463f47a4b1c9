"""How tests are dealt when one of them ends its process."""
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
CONFTEST = """
def pytest_xdist_make_scheduler(config, log):
    from support.scheduler import Scheduler
    return Scheduler(config, log)
"""
QUICK = "def test_first(): pass\ndef test_second(): pass\ndef test_third(): pass\n"
DEADLY = QUICK + "def test_ends():\n    import os\n    os._exit(1)\n" + QUICK.replace("test_", "test_after_")
# As one that hangs where no signal reaches it.
STUCK = QUICK + "def test_hangs():\n    import threading\n    threading.Event().wait()\n"


def test_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for n in range(12):
        (tmp_path / f"test_{n}.py").write_text(QUICK)
    (tmp_path / "test_deadly.py").write_text(DEADLY)
    (tmp_path / "test_stuck.py").write_text(STUCK)
    watchdog = ["-o", "faulthandler_timeout=5", "-o", "faulthandler_exit_on_timeout=true"]
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist",
                          "loadscope", "-p", "xdist.plugin", *watchdog, tmp_path],
                         # no other plugin: every interpreter of the run would import them all
                         env={"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, cwd=tmp_path,
                         capture_output=True, text=True, timeout=300)
    assert "2 failed, 45 passed" in run.stdout, run.stdout + run.stderr
    assert "test_ends" in run.stdout and "test_hangs" in run.stdout
    assert "test_stuck.py\", line 6 in test_hangs" in run.stdout + run.stderr, "where it hangs"
