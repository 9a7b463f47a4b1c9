"""How pytest-xdist deals the tests to its workers: whole files; first those that failed most often, then long ones."""
from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# Files that failed by chance on busy machines before, or fail first after a change: a failure is seen within minutes.
OFTEN = ("tests/e2e/test_shared_rates.py", "tests/e2e/test_leaving.py", "tests/platform/test_unread_log.py",
         "tests/e2e/test_database_doubts.py", "tests/e2e/test_late_answers.py", "tests/e2e/test_peers.py",
         "tests/e2e/test_verdict.py", "tests/e2e/test_streams_sdk.py", "tests/core/test_edge.py",
         "tests/e2e/test_document_examples.py", "tests/golden/", "tests/sql/test_sql_instructions.py")
# In this order, before all others: what begins late keeps one worker busy when the others have nothing left to do.
LONG = ("tests/e2e/test_sdk.py::test_load", "tests/fuzz/", "tests/cli/test_cli_backup.py",
        "tests/cli/test_cli_restore.py", "tests/e2e/test_silent_database.py",
        "tests/e2e/test_database_doubts.py", "tests/e2e/test_verdict.py", "tests/platform/test_serve.py",
        "tests/e2e/test_sdk_own.py", "tests/schema/", "tests/platform/test_settings.py",
        "tests/platform/test_embedded.py", "tests/platform/test_watch.py", "tests/e2e/test_fence.py",
        "tests/bench/test_bench.py", "tests/faults/", "tests/e2e/test_sdk.py", "tests/e2e/test_given_back",
        "tests/e2e/test_frozen_server.py", "tests/e2e/test_model.py", "tests/e2e/test_streams_sdk.py",
        "tests/core/test_no_memory.py", "tests/sql/test_push_one.py", "tests/e2e/test_peers.py",
        "tests/e2e/test_late_answers.py", "tests/cli/test_cli_completion.py", "tests/e2e/test_failover",
        "tests/e2e/test_editions.py", "tests/e2e/test_history.py", "tests/platform/test_migration.py",
        "tests/e2e/test_strangers.py", "tests/sql/test_dedupe.py", "tests/cli/test_cli_queues.py",
        "tests/core/test_edge.py", "tests/e2e/test_remembered_ids.py", "tests/platform/test_import_queen.py",
        "tests/sql/test_plans.py", "tests/platform/test_activation.py", "tests/platform/test_double_kill.py",
        "tests/bench/test_soak.py", "tests/platform/test_metrics_history.py", "tests/e2e/test_commits_hang.py",
        "tests/e2e/test_foreign_locks.py", "tests/platform/test_starts.py", "tests/cli/test_cli_doctor.py",
        "tests/e2e/test_unused_groups.py", "tests/e2e/test_guides.py", "tests/e2e/test_stream_socket.py",
        "tests/truth/", "tests/client/test_worker_", "tests/e2e/test_leases_elsewhere.py",
        "tests/e2e/test_workers.py", "tests/client/test_client_document.py", "tests/platform/test_many_queues.py",
        "tests/sql/test_message_list.py", "tests/sql/test_payload_size.py", "tests/sql/test_search_rows.py",
        "tests/sql/test_gaps.py", "tests/sql/test_retain.py")
# After all others: these read what scripts of other tests have told, and run the scripts again that did not run yet.
LAST = ("tests/e2e/test_streams_sdk.py::test_every_public_method_was_called",)
# Every test of these is dealt alone: they share nothing.
SPLIT = ("tests/e2e/test_sdk.py", "tests/e2e/test_streams_sdk.py")
# One session of Spark serves all of these.
TOGETHER = "tests/spark/"


class Scheduler(LoadScopeScheduling):
    """A scope is a file, a test of one in SPLIT, or all of TOGETHER."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return nodeid if file in SPLIT else TOGETHER if file.startswith(TOGETHER) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """The test it ended with, if it ended in one. What it had not begun is dealt anew, and nothing else: xdist
        deals that test as well, and whole files that are done, for which a worker then waits for ever."""
        units = self.assigned_work[node]
        ended = next((name for unit in units.values() for name, done in unit.items() if not done), None)
        if ended is None:
            return super().remove_node(node)
        del self.assigned_work[node]
        for scope, unit in units.items():
            left = {name: False for name, done in unit.items() if not done and name != ended}
            if left:
                self.workqueue[scope] = left
        for other in self.assigned_work:
            self._reschedule(other)
        return ended


def rank(scope: str) -> int:
    first = OFTEN + LONG
    if scope.startswith(LAST):
        return len(first) + 1
    return next((place for place, beginning in enumerate(first) if scope.startswith(beginning)), len(first))
