"""``adiw list``: the names that the other commands take."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from adiw.data import DATASETS
from adiw.divergences import DIVERGENCES, describe
from adiw.experiments.methods import METHODS
from adiw.experiments.recipes import load, names
from adiw.models import MODELS
from adiw.shifts import SHIFTS


def list_names(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List methods, data sets, shifts, networks, divergences and recipes."""
    tables = {
        "methods": {name: method.about for name, method in METHODS.items()},
        "datasets": dict.fromkeys(DATASETS, ""),
        "shifts": dict.fromkeys(SHIFTS, ""),
        "networks": dict.fromkeys(MODELS, ""),
        "divergences": {name: describe(kind) for name, kind in DIVERGENCES.items()},
        "recipes": {name: load(name).title for name in names()},
    }
    if as_json:
        print(json.dumps({kind: list(entries) for kind, entries in tables.items()}))
        return
    table = Table(box=None)
    table.add_column("kind")
    table.add_column("name")
    table.add_column("")
    for kind, entries in tables.items():
        for i, (name, about) in enumerate(entries.items()):
            table.add_row(kind if i == 0 else "", name, about)
    Console().print(table)
