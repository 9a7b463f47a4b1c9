"""How pytest-xdist deals the tests to its workers: whole files, those that take long first, those that measure last and
alone."""
from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# In this order, before all others: what begins late keeps one worker busy when the others have nothing left to do.
LONG = ("tests/e2e/test_sdk.py::test_load", "tests/fuzz/", "tests/schema/", "tests/e2e/test_sdk_own.py",
        "tests/e2e/test_model.py", "tests/e2e/test_sdk.py",
        "tests/e2e/test_streams_sdk.py", "tests/e2e/test_remembered_ids.py", "tests/platform/test_serve.py",
        "tests/e2e/test_failover.py", "tests/platform/test_import_queen.py")
# Every test of these is dealt alone: they share nothing.
SPLIT = ("tests/e2e/test_sdk.py", "tests/e2e/test_streams_sdk.py")
ALONE = "tests/bench/"
# One session of Spark serves all of these.
TOGETHER = "tests/spark/"


class Scheduler(LoadScopeScheduling):
    """A scope is a file, a test of one in SPLIT, or all of TOGETHER. When nothing but files of ALONE is left, one
    worker gets them, and only when the others have ended."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return nodeid if file in SPLIT else TOGETHER if file.startswith(TOGETHER) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._ordinary() and not self._is_alone(node):
            return
        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if not self.workqueue or self._ordinary():
            super()._reschedule(node)
            return
        staying = [one for one in self.nodes if not one.shutting_down]
        for other in staying[1:]:
            other.shutdown()
        if staying and self._is_alone(staying[0]):
            super()._reschedule(staying[0])

    def _ordinary(self) -> bool:
        """Whether a file is left that may run beside others."""
        return not all(scope.startswith(ALONE) for scope in self.workqueue)

    def _is_alone(self, node: WorkerController) -> bool:
        return all(other is node or (other.shutting_down and not self._pending_of(self.assigned_work[other]))
                   for other in self.nodes)


def rank(scope: str) -> int:
    if scope.startswith(ALONE):
        return len(LONG) + 1
    return next((place for place, beginning in enumerate(LONG) if scope.startswith(beginning)), len(LONG))
