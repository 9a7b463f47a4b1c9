"""Run under callgrind: `counted.py CORE.so PLAN`. Does the plan once; callgrind counts inside the count_ methods
only."""
import importlib.util
import pickle
import sys

found = importlib.util.spec_from_file_location("queend._core", sys.argv[1])
core = importlib.util.module_from_spec(found)
found.loader.exec_module(core)
with open(sys.argv[2], "rb") as file:
    plan = pickle.load(file)
for head, kind, query, body, steps in plan:
    room = core.ProbeCount(head, kind, query, body)
    for step in steps:
        getattr(room, step)()
