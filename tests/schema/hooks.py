"""What schemathesis is told of a daemon: to wait only for a short time, and the requests of links. Loaded by it
(SCHEMATHESIS_HOOKS)."""
import json
from typing import Any

import schemathesis

WAIT_MS = 20


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Makes objects of the requests of links: schemathesis does not read them as texts."""
    for methods in raw_schema["paths"].values():
        for operation in methods.values():
            for answer in operation["responses"].values():
                for link in answer.get("links", {}).values():
                    if "requestBody" in link:
                        link["requestBody"] = {name: value.strip("{}")
                                               for name, value in json.loads(link["requestBody"]).items()}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Long polls are short: their time is what the run asks for anyway, only less of it."""
    if case.query and "wait" in case.query:
        case.query["timeout"] = WAIT_MS
    if isinstance(case.body, dict) and "maxWaitMs" in case.body:
        case.body["maxWaitMs"] = WAIT_MS
