"""The paper's stage tables, drawn from a profile.json: one of CPU time and one of device time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adiw.reports.grid import NONE, Box, Grid, Head

FILE = "profile.json"
MEASURES = ("cpu", "device")
PAPER = {"cpu": "cpu", "device": "cuda"}  # the names of the measures in the paper
Paper = Mapping[str, Mapping[str, Sequence[Sequence[float] | None]]]


def recorded_stages(folder: Path, title: str, paper: Paper) -> list[Grid]:
    """The tables of the profile in a folder, beside the paper's figures."""
    if not (folder / FILE).exists():
        raise FileNotFoundError(f"no profile found in {folder}: expected a {FILE}")
    return stage_tables(json.loads((folder / FILE).read_text()), title, paper)


def stage_tables(profile: Mapping[str, Any], title: str, paper: Paper) -> list[Grid]:
    """A table of CPU times and one of device times: a row per stage, ours and the paper's column per implementation.

    Args:
        profile: the content of profile.json. An implementation that only the paper has is shown as dashes.
        paper: "cpu" and "cuda" -> implementation -> [seconds, percent] of every stage in order, and of the total
            last; empty for no columns of the paper.
    """
    return [_grid(profile, title, paper, measure) for measure in MEASURES]


def _grid(profile: Mapping[str, Any], title: str, paper: Paper, measure: str) -> Grid:
    stages = _stages(profile)
    names = dict.fromkeys([*(name for rows in paper.values() for name in rows), *profile["implementations"]])
    labels = [*stages, "total"]
    if measure == "device" and profile["device"] != "cpu":
        labels.append("kernels only")
    head, body = [Head("stage")], []
    for name in names:
        head.append(Head("ours", name))
        body.append(_column(profile, name, measure))
        if paper:
            head.append(Head("paper", name))
            body.append(_paper_column(paper, name, measure, len(stages)))
    rows = [[Box(label), *(Box(column[at]) for column in body)] for at, label in enumerate(labels)]
    shown = "CPU" if measure == "cpu" else "device"
    return Grid(f"{title}: {shown} time (seconds; percent in brackets)", head, rows, _notes(profile, measure))


def _column(profile: Mapping[str, Any], name: str, measure: str) -> list[str]:
    """Every stage, their total, and the kernels without the gaps between them."""
    entry = profile["implementations"].get(name)
    if entry is None:
        return [NONE] * (len(_stages(profile)) + 1) + [""]
    times = [stage[measure] for stage in entry["stages"].values()]
    if None in times:
        return [NONE] * (len(times) + 1) + [""]
    total = sum(times)
    busy = sum(stage["busy"] for stage in entry["stages"].values()) if measure == "device" else None
    return [*(_figure(time, total) for time in times), _figure(total, total), _figure(busy, total)]


def _paper_column(paper: Paper, name: str, measure: str, stages: int) -> list[str]:
    """The paper's figures; it has none for the kernels only."""
    given = paper.get(PAPER[measure], {}).get(name) or [None] * (stages + 1)
    if len(given) != stages + 1:
        raise ValueError(
            f"the paper's {PAPER[measure]} figures of {name}: expected {stages} stages and a total, got {len(given)}"
        )
    return [*(NONE if pair is None else f"{pair[0]:.2f} ({pair[1]:.2f})" for pair in given), ""]


def _figure(seconds: float | None, total: float) -> str:
    """
    >>> _figure(0.01234, 0.1), _figure(0.0, 0.0), _figure(None, 1.0)
    ('0.0123 (12.34)', '0.0000 (0.00)', '')
    """
    return "" if seconds is None else f"{seconds:.4f} ({100 * seconds / total if total else 0.0:.2f})"


def _stages(profile: Mapping[str, Any]) -> list[str]:
    for entry in profile["implementations"].values():
        return list(entry["stages"])
    raise ValueError("the profile has no implementation: run python -m paper.profiler first")


def _notes(profile: Mapping[str, Any], measure: str) -> list[str]:
    """What the figures are, and what they were made with."""
    plan, entries = profile["plan"], profile["implementations"]
    epochs = f"{'epoch' if len(plan['epochs']) == 1 else 'epochs'} {', '.join(map(str, plan['epochs']))}"
    notes = [
        f"Seconds of {plan['record']} iterations together, and percent of the total; mean over the windows in "
        f"{epochs}, each after {plan['skip'] + plan['stabilise']} unrecorded iterations."
    ]
    if measure == "device":
        notes.append(
            "No GPU was used, so there is no device time."
            if profile["device"] == "cpu"
            else "Device time runs from the start of a stage's first kernel to the end of its last, gaps included; "
            "kernels only: all stages without the gaps."
        )
    notes += [f"{name}: {note}." for name, entry in entries.items() for note in entry["notes"]]
    return notes + list(dict.fromkeys(_made_with(entry) for entry in entries.values()))


def _made_with(entry: Mapping[str, Any]) -> str:
    hardware, versions = entry["hardware"], entry["versions"]
    commit = f", commit {entry['commit']}" if entry["commit"] else ""
    return f"{hardware['device']}, {hardware['cpus']} CPU cores, torch {versions['torch']}{commit}."
