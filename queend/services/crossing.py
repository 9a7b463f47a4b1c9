"""Dependencies of PostgreSQL that cross the border of queend's schemas.

A drop of the schemas removes the objects outside that depend on objects inside. A dump of the schemas leaves out the
objects outside that objects inside depend on. Both are read from pg_depend.
"""
from __future__ import annotations

from typing import NamedTuple

import psycopg


class Object(NamedTuple):
    """An object of the database. label: its kind and name for people. words: how the list of a dump names it."""

    label: str
    words: str


# A member of a publication counts as outside: a drop of its table removes it. Row types, array types, TOAST tables and
# rules of views belong to another object (deptype i), which is named instead. Objects of initdb have ids below 16384.
OBJECTS = """
WITH RECURSIVE edges AS MATERIALIZED (
    SELECT DISTINCT classid, objid, refclassid, refobjid, deptype FROM pg_depend
     WHERE objid >= 16384 AND refobjid >= 16384 AND classid <> 'pg_default_acl'::regclass),
known AS MATERIALIZED (
    SELECT o.classid, o.objid, i.type || ' ' || i.identity AS label,
        array_to_string(CASE WHEN o.classid = 'pg_publication_rel'::regclass
            THEN ARRAY[a.object_names[1], a.object_args[1], a.object_names[2]] ELSE a.object_names END, ' ') AS words,
        CASE WHEN o.classid IN ('pg_publication_rel'::regclass, 'pg_publication_namespace'::regclass)
            THEN '' ELSE coalesce(i.schema, a.object_names[1], '') END AS schema
     FROM (SELECT classid, objid FROM edges UNION SELECT refclassid, refobjid FROM edges) o
        CROSS JOIN LATERAL pg_identify_object(o.classid, o.objid, 0) i
        CROSS JOIN LATERAL pg_identify_object_as_address(o.classid, o.objid, 0) a
     WHERE coalesce(i.schema, '') !~ '^pg_(toast|temp)'),
ours AS MATERIALIZED (SELECT * FROM known WHERE schema = ANY(%(schemas)s)),
others AS MATERIALIZED (SELECT * FROM known WHERE schema <> ALL(%(schemas)s)),
"""
# An object is lost if it depends on a lost one, or owns a lost part, as a view owns its rule.
LOST = OBJECTS + """
lost AS (
    SELECT o.classid, o.objid FROM edges e JOIN ours r ON (r.classid, r.objid) = (e.refclassid, e.refobjid)
        JOIN others o ON (o.classid, o.objid) = (e.classid, e.objid)
    UNION
    SELECT o.classid, o.objid FROM lost l
        JOIN edges e ON (e.refclassid, e.refobjid) = (l.classid, l.objid)
            OR ((e.classid, e.objid) = (l.classid, l.objid) AND e.deptype = 'i')
        JOIN others o ON (o.classid, o.objid) IN ((e.classid, e.objid), (e.refclassid, e.refobjid)))
SELECT o.label, o.words FROM lost JOIN others o USING (classid, objid)
 WHERE NOT EXISTS (SELECT FROM edges e JOIN lost l ON (l.classid, l.objid) = (e.refclassid, e.refobjid)
    WHERE (e.classid, e.objid) = (o.classid, o.objid) AND e.deptype = 'i') ORDER BY o.label"""
NEEDED = OBJECTS + """
none AS (SELECT)
SELECT DISTINCT o.label, o.words FROM edges e JOIN ours r ON (r.classid, r.objid) = (e.classid, e.objid)
    JOIN others o ON (o.classid, o.objid) = (e.refclassid, e.refobjid) ORDER BY o.label"""


def lost(connection: psycopg.Connection, schemas: list[str]) -> list[Object]:
    """Returns the objects outside of `schemas` that `DROP SCHEMA … CASCADE` would remove with them."""
    return [Object(*row) for row in connection.execute(LOST, {"schemas": schemas})]


def needed(connection: psycopg.Connection, schemas: list[str]) -> list[Object]:
    """Returns the objects outside of `schemas` without which a dump of the schemas cannot be restored."""
    return [Object(*row) for row in connection.execute(NEEDED, {"schemas": schemas})]


def listed(objects: list[Object], most: int = 10) -> str:
    """Returns the labels of the first objects as one text."""
    rest = f" and {len(objects) - most} more" if len(objects) > most else ""
    return ", ".join(one.label for one in objects[:most]) + rest
