"""A database whose settings change how SQL is read, how values are written and what transactions do."""
from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict

from .postgres import Postgres

# Drivers read moments in the style ISO alone; DMY changes how a date in a text is read.
ODD = {"standard_conforming_strings": "off", "bytea_output": "escape", "DateStyle": "'ISO, DMY'",
       "IntervalStyle": "iso_8601", "TimeZone": "'Asia/Kathmandu'", "search_path": "nowhere, public",
       "extra_float_digits": "-10", "transform_null_equals": "on", "array_nulls": "off", "jit": "on",
       "plan_cache_mode": "force_generic_plan", "row_security": "off", "quote_all_identifiers": "on",
       "xmloption": "document", "lc_time": "'C'", "statement_timeout": "'1min'", "lock_timeout": "'1min'"}


def made_odd(postgres: Postgres, conninfo: str, **more: str) -> str:
    """Sets ODD and `more` for a database; returns how to connect to it."""
    name = conninfo_to_dict(conninfo)["dbname"]
    for setting, value in (ODD | more).items():
        postgres.execute(f"ALTER DATABASE {name} SET {setting} = {value}")
    return conninfo
