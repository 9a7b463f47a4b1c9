"""The chart, rendered by Helm itself without a cluster."""
from __future__ import annotations

import helm_python
import yaml

from .conftest import ROOT

CHART = ROOT / "packaging/helm/queend"


def objects(values: dict) -> list[dict]:
    """Returns the objects that the chart makes of these values."""
    rendered = helm_python.Chart.load(CHART).render(values=values, name="queue")
    return [one for path, text in rendered.items() if path.endswith(".yaml") for one in yaml.safe_load_all(text) if one]
