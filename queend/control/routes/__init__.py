"""The routes of the control plane: a file for each resource, and what several of these files share."""
from __future__ import annotations

import importlib
import pkgutil

from ..http.route import ROUTERS, Routes


def routers() -> list[Routes]:
    """Returns the routers of every file of this folder, by their subject."""
    for file in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{file.name}")
    return sorted(ROUTERS, key=lambda router: router.tag)
