"""What a service is made of: its work, and what all services have in common."""
from __future__ import annotations

import importlib
import pkgutil

import queend.control
import queend.services
from queend.services.running import Running

OWN = {"_run", "open", "close", "wake"}      # what a service may have in its own way


def kinds(of: type) -> list[type]:
    return [one for kind in of.__subclasses__() for one in (kind, *kinds(kind))]


def test_no_service_hides_what_all_services_have() -> None:
    for package in (queend.control, queend.services):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    common = {name for name, value in vars(Running).items() if callable(value)} - OWN
    assert "_failed" in common and len(kinds(Running)) > 5
    hidden = [f"{kind.__name__}.{name}" for kind in kinds(Running) for name in common & vars(kind).keys()]
    assert hidden == []
