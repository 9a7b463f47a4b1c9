"""Names for the objects in requests and answers of the OpenAPI document. Generators of clients make a class of each.

A body of `configureQueue` is a `ConfigureQueueRequest`, its answer a `ConfigureQueueResponse`. The answer of `getQueue`
is a `Queue`. An object inside of another has the names of both: `QueueOptions`. Of `partitions` in a `Queue` each is a
`QueuePartition`.
"""
from __future__ import annotations

import re
from typing import Any

from .schema import ref

Schema = dict[str, Any]
KINDS = {str: "string", bool: "boolean", int: "integer"}


class Models:
    """The named schemas of a document: those given, and those that are found. known: kept as they are, except that
    objects inside of them get names."""

    def __init__(self, known: dict[str, Schema]):
        self._plain = dict(known)      # each as it was given, with the objects inside of it
        self.schemas: dict[str, Schema] = {}
        for name, schema in known.items():
            self.schemas[name] = self._inside(schema, name)

    def name(self, operation: Schema) -> Schema:
        """Returns the operation with references to named schemas instead of objects."""
        title = pascal(operation["operationId"].removesuffix("ByName"))
        answer = title.removeprefix("Get") if title.startswith("Get") else f"{title}Response"
        responses = {status: self._content(response, answer) for status, response in operation["responses"].items()}
        parameters = [{**one, "schema": self._inside(one["schema"], title)} for one in operation.get("parameters", [])]
        named = {**operation, "responses": responses, **({"parameters": parameters} if parameters else {})}
        if "requestBody" in operation:
            named["requestBody"] = self._content(operation["requestBody"], f"{title}Request")
        return named

    def _content(self, part: Schema, name: str) -> Schema:
        if "content" not in part:
            return part
        return {**part, "content": {kind: {**one, "schema": self._named(one["schema"], name)}
                                    for kind, one in part["content"].items()}}

    def _named(self, schema: Schema, name: str) -> Schema:
        """Returns a reference if the schema is an object with properties, or an array with a title: to its title, else
        to this name, else to a longer name. Equal ones share a name. Raises ValueError if others have the same title.
        Arrays in `oneOf` need a title: openapi-generator writes Java that does not compile for one without a name."""
        if "properties" not in schema and not (schema.get("type") == "array" and "title" in schema):
            return self._inside(schema, name)
        title = schema.get("title", name)
        if self._plain.setdefault(title, schema) != schema:
            if "title" in schema:
                raise ValueError(f"the title {title} is taken")
            return self._named(schema, f"{name}Details")
        if title not in self.schemas:
            self.schemas[title] = {key: one for key, one in self._inside(schema, title).items() if key != "title"}
        return ref(title)

    def _inside(self, schema: Schema, name: str) -> Schema:
        """Returns the schema with references instead of the objects inside of it. States the type of a constant and of
        an enumeration, and that an object without properties may have any."""
        found = dict(schema)
        if "const" in schema or "enum" in schema:
            found = {"type": KINDS[type(schema.get("const", schema.get("enum", [None])[0]))], **schema}
        if schema.get("type") == "object" and "properties" not in schema:
            found.setdefault("additionalProperties", True)
        if "properties" in schema:
            found["properties"] = {
                key: self._named(one, name + pascal(singular(key) if one.get("type") == "array" else key))
                for key, one in schema["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                found[key] = self._named(schema[key], name)
        for key in ("oneOf", "anyOf"):
            if key in schema:
                found[key] = [self._named(one, name) for one in schema[key]]
        return found


def pascal(name: str) -> str:
    """Returns a name in snake case or camel case as PascalCase."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def singular(name: str) -> str:
    """Returns the name of one of these: of `entries` `entry`, of `queues` `queue`, of `series` `series`."""
    return re.sub(r"(?<!er)ies$", "y", name) if name.endswith("ies") else re.sub(r"(?<![su])s$", "", name)
