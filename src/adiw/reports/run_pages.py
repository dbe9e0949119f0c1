"""The page of run folders: one run, or several with their methods as rows and their data as columns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adiw.experiments.sealed import read_json
from adiw.reports.page_model import Curve, Page, Trial
from adiw.reports.results import METHOD_ORDER, Result
from adiw.reports.weight_groups import weight_groups

CURVES = ("accuracy", "top5", "ess", "weight_mean", "weight_intact", "weight_mislabelled")
DATA = ("dataset", "path", "target", "shift", "selection")  # settings that make a column


def run_page(results: Sequence[Result], title: str | None = None, order: Iterable[str] = METHOD_ORDER) -> Page:
    """The page of these runs; rows in ``order``, methods that are not in it last, by name."""
    columns, rows = _columns(results), _rows(results)
    trials = [_trial(result, row, column) for result, row, column in zip(results, rows, columns, strict=True)]
    known = list(order)
    methods = dict(zip(rows, (result.method for result in results), strict=True))
    ranks = {row: (known.index(m) if m in known else len(known), m, row) for row, m in methods.items()}
    sorted_rows = sorted(ranks, key=lambda row: ranks[row])
    return Page(
        title=title or (f"{rows[0]} on {columns[0]}" if len(set(rows)) == 1 else ", ".join(dict.fromkeys(columns))),
        about="",
        rows=sorted_rows,
        columns=list(dict.fromkeys(columns)),
        trials=trials,
        facts=_facts(results),
    )


def _columns(results: Sequence[Result]) -> list[str]:
    """The data of each run in a few words."""
    return [", ".join(_words(r.settings, [key for key in DATA if r.settings.get(key)])) or "runs" for r in results]


def _words(settings: dict[str, Any], keys: Iterable[str]) -> list[str]:
    plain = ("dataset", "shift")
    return [str(settings[key]) if key in plain else f"{key} {settings[key]}" for key in keys]


def _rows(results: Sequence[Result]) -> list[str]:
    """The method of each run, with the settings in which runs of one method differ: they are not one's seeds."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault(result.method, []).append(result.settings)
    varied = {method: _varied(same) for method, same in groups.items()}
    options = [", ".join(f"{key} {r.settings.get(key)}" for key in varied[r.method]) for r in results]
    return [f"{r.method} ({text})" if text else r.method for r, text in zip(results, options, strict=True)]


def _varied(same: Sequence[dict[str, Any]]) -> list[str]:
    """The settings of a method, besides its data and its seed, that are not the same in all its runs."""
    keys = dict.fromkeys(key for settings in same for key in settings if key not in (*DATA, "seed", "method"))
    return [key for key in keys if len({json.dumps(settings.get(key)) for settings in same}) > 1]


def _trial(result: Result, row: str, column: str) -> Trial:
    known = math.isfinite(result.accuracy)
    return Trial(
        row=row,
        column=column,
        status=result.status,
        reason=result.reason,
        values={"accuracy": [result.accuracy]} if known else {},
        seconds=result.seconds_per_epoch if math.isfinite(result.seconds_per_epoch) else None,
        curves={name: curve for name in CURVES if (curve := _curve(result, name))},
        weights=_weights(result),
        folder=result.folder,
    )


def _curve(result: Result, name: str) -> Curve:
    values = [row.get(name) for row in result.metrics]
    return values if any(value is not None for value in values) else []


def _weights(result: Result) -> dict[str, Any] | None:
    """Histograms of the last weights; None where a run has none, or they are not numbers."""
    if result.status == "unfinished" or not (result.folder / "weights.npy").exists():
        return None
    weights, flipped = result.weights(), result.flipped()
    if not len(weights) or len(weights) != len(flipped) or not np.isfinite(weights).all():
        return None
    return weight_groups(weights, flipped)


def _facts(results: Sequence[Result]) -> list[tuple[str, str]]:
    """Settings that all runs share, and what they were made with."""
    first = results[0].settings
    shared = {key: v for key, v in first.items() if all(r.settings.get(key, ...) == v for r in results)}
    facts = [(key, str(value)) for key, value in shared.items() if value is not None]
    made = [read_json(file) for r in results if (file := r.folder / "result.json").exists()]
    for key in ("judged_on", "versions", "hardware", "commit"):
        found = dict.fromkeys(in_words(result[key]) for result in made if result.get(key))
        facts += [(key.replace("_", " "), "; ".join(found))] if found else []
    return facts


def in_words(value: Any) -> str:
    """A dict as "key value, key value".

    >>> in_words({"torch": "2.9", "python": "3.12"})
    'torch 2.9, python 3.12'
    """
    return ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else str(value)
