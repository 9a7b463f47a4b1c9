"""Writes the names of the settings into the schema of the chart's values: those that are no secret (secrets are keys of
the chart's Secret), without the ones that the chart decides."""
from __future__ import annotations

import json
from pathlib import Path

from queend.settings.model import Settings, is_secret

CHART = Path(__file__).resolve().parent.parent / "packaging/helm/queend"
SCHEMA = CHART / "values.schema.json"
# The port of the pods and where their disk is mounted.
DECIDED = {"PORT", "QUEEND_DATA_DIR"}


def names() -> list[str]:
    """Returns the names that `settings` of the values may have."""
    return sorted({name.upper() for name in Settings.model_fields if not is_secret(name)} - DECIDED)


def main() -> None:
    schema = json.loads(SCHEMA.read_text())
    schema["properties"]["settings"]["propertyNames"] = {"enum": names()}
    SCHEMA.write_text(json.dumps(schema, indent=2) + "\n")


if __name__ == "__main__":
    main()
