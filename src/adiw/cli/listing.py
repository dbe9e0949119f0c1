"""``adiw list``: the names that the other commands take."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict
from typing import Annotated, Any

from adiw.cli.settings_options import flag
from adiw.data import DATASETS
from adiw.divergences import DIVERGENCES, capabilities, describe
from adiw.experiments.methods import all_methods
from adiw.experiments.recipes import load, names
from adiw.models import MODELS
from adiw.shifts import SHIFTS


def list_names(as_json: Annotated[bool, flag("--json", help="Print as JSON.")] = False) -> None:
    """List methods, data sets, shifts, networks, divergences and recipes."""
    tables = {
        "methods": {name: method.about for name, method in all_methods().items()},
        "datasets": {name: _summary(load_data) for name, load_data in DATASETS.items()},
        "shifts": {name: f"{_summary(shift)}{_form(name)}" for name, shift in SHIFTS.items()},
        "networks": {name: _summary(network) for name, network in MODELS.items()},
        "divergences": {name: f"{describe(kind)} [{capabilities(kind)}]" for name, kind in DIVERGENCES.items()},
        "recipes": {name: load(name).title for name in names()},
    }
    if as_json:
        known = {name: asdict(capabilities(kind)) for name, kind in DIVERGENCES.items()}
        print(json.dumps({kind: list(entries) for kind, entries in tables.items()} | {"capabilities": known}))
        return
    width = max(len(name) for entries in tables.values() for name in entries)
    for kind, entries in tables.items():
        print(kind)
        for name, about in entries.items():
            print(f"  {name:{width}}  {about}".rstrip())


def _form(shift: str) -> str:
    """How a shift with parameters is written."""
    parameters = inspect.signature(SHIFTS[shift]).parameters
    return f"; write {shift}:{','.join(parameters).upper()}" if parameters else ""


def _summary(thing: Any) -> str:
    """The first line of a docstring without its markup."""
    return (inspect.getdoc(thing) or "").partition("\n")[0].replace("``", "").rstrip(".")
