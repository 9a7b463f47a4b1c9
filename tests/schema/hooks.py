"""What schemathesis must not do with a daemon: wait for minutes. Loaded by it (SCHEMATHESIS_HOOKS)."""
from typing import Any

import schemathesis

WAIT_MS = 20


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Long polls are short: their time is what the run asks for anyway, only less of it."""
    if case.query and "wait" in case.query:
        case.query["timeout"] = WAIT_MS
    if isinstance(case.body, dict) and "maxWaitMs" in case.body:
        case.body["maxWaitMs"] = WAIT_MS
