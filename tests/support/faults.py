"""Functions of the schema `queend` that raise errors of the server's own on demand: real ones, on the real way."""
from __future__ import annotations

import psycopg

ALWAYS = 1 << 30
SCHEMA = """
CREATE SCHEMA faults;
CREATE TABLE faults.planted (name text PRIMARY KEY, code text, times int NOT NULL DEFAULT 0,
 since bigint NOT NULL DEFAULT 0);
CREATE FUNCTION faults.meet(p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    f faults.planted;
    n bigint;
BEGIN
    SELECT * INTO f FROM faults.planted p WHERE p.name = p_name;
    -- a sequence keeps its count where the transaction is undone
    n := CASE WHEN f.times > 0 THEN nextval('faults.met_' || p_name) - f.since END;
    IF n BETWEEN 1 AND f.times THEN
        RAISE EXCEPTION 'planted in %', p_name USING ERRCODE = f.code;
    END IF;
END $$"""
ASKS = ("SELECT p.oid, l.lanname, p.prosrc FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang"
        # a signature of a former edition has fewer parameters
        " WHERE p.pronamespace = 'queend'::regnamespace AND p.proname = %s ORDER BY p.pronargs DESC LIMIT 1")


ALIKE = {"push": ("push", "push_one")}      # one fault for what a batch may go to


class Faults:
    """names: functions that are to be able to fail."""

    def __init__(self, conninfo: str, *names: str):
        self.admin = psycopg.connect(conninfo, autocommit=True)
        self.admin.execute(SCHEMA)
        for name in names:
            self.admin.execute(f"CREATE SEQUENCE faults.met_{name}")
            self.admin.execute("INSERT INTO faults.planted (name) VALUES (%s)", (name,))
            for function in ALIKE.get(name, (name,)):
                self._open(function, name)

    def close(self) -> None:
        self.admin.close()

    def plant(self, name: str, code: str, times: int = ALWAYS, after: int = 0) -> None:
        """The next calls of it raise this SQLSTATE. after: so many calls succeed before."""
        self.admin.execute(f"UPDATE faults.planted SET code = %s, times = %s, since = nextval('faults.met_{name}') + %s"
                           " WHERE name = %s", (code, times, after, name))

    def clear(self, name: str) -> None:
        self.admin.execute("UPDATE faults.planted SET times = 0 WHERE name = %s", (name,))

    def met(self, name: str) -> int:
        """How often it has been called since it was planted."""
        return self.admin.execute(f"SELECT (SELECT last_value FROM faults.met_{name}) - since FROM faults.planted"
                                  " WHERE name = %s", (name,)).fetchone()[0]

    def _open(self, function: str, name: str) -> None:
        ((oid, language, source),) = self.admin.execute(ASKS, (function,)).fetchall()
        (text,) = self.admin.execute("SELECT pg_get_functiondef(%s)", (oid,)).fetchone()
        if language == "plpgsql":
            self.admin.execute(text.replace(source, source.replace(
                "\nBEGIN\n", f"\nBEGIN\n    PERFORM faults.meet('{name}');\n", 1)).encode())
            return
        arguments, given, result, count = self.admin.execute(
            "SELECT pg_get_function_arguments(oid), pg_get_function_identity_arguments(oid),"
            " pg_get_function_result(oid), pronargs FROM pg_proc WHERE oid = %s", (oid,)).fetchone()
        self.admin.execute(f"ALTER FUNCTION queend.{function}({given}) RENAME TO {function}_real")
        self.admin.execute(f"CREATE FUNCTION queend.{function}({arguments}) RETURNS {result} LANGUAGE plpgsql"
                           f" AS $$ BEGIN PERFORM faults.meet('{name}');"
                           " RETURN QUERY SELECT *"
                           f" FROM queend.{function}_real({', '.join(f'${n + 1}' for n in range(count))}); END $$"
                           .encode())
