"""Under a sanitizer its runtime is preloaded into the interpreter. The daemons the tests start need it too; other programs must not have it."""
import os

PRELOAD = os.environ.pop("LD_PRELOAD", None)
RUNTIME = {"LD_PRELOAD": PRELOAD, "QUEEND_CORE_DUMPS": "true"} if PRELOAD else {}
