"""The paper's stage table from a profile.json: CPU and device time of every stage of every implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from adiw.experiments.sealed import read_json
from adiw.reports.grid import Box, Grid, Head

FILE = "profile.json"  # that adiw.experiments.profile writes; it is read without PyTorch
MEASURES = {"cpu": "CPU", "device": "device"}  # the paper's "cuda" is the second
PAPER = {"cpu": "cpu", "device": "cuda"}
Paper = Mapping[
    str, Mapping[str, Sequence[Sequence[float] | None]]
]  # cpu, cuda -> row -> [seconds, percent] per stage


def recorded_stages(folder: Path) -> list[Grid]:
    """The tables of a recipe's profile, with the paper's figures beside ours."""
    if not (folder / FILE).exists():
        raise FileNotFoundError(f"no profile found in {folder}: it holds no {FILE}")
    recipe, profile = (read_json(folder / name) for name in ("recipe.json", FILE))
    return stage_tables(profile, recipe["paper"] or None, recipe["title"])


def stage_tables(profile: Mapping[str, Any], paper: Paper | None = None, title: str | None = None) -> list[Grid]:
    """One table of all figures; or, with the paper's to stand beside, one of CPU and one of device times.

    Args:
        profile: what profile.json holds.
        paper: the figures of a recipe: "cpu" and "cuda" -> implementation -> [seconds, percent] of every stage in
            their order, and of the total last. An implementation that the profile lacks is shown as missing.
        title: by default the data set and the network.
    """
    title = title or _title(profile)
    if paper is None:
        columns = [(name, measure, False) for name in profile["implementations"] for measure in MEASURES]
        return [_grid(profile, {}, f"{title} (seconds; percent in brackets)", columns)]
    names = list(dict.fromkeys([*(name for rows in paper.values() for name in rows), *profile["implementations"]]))
    return [
        _grid(
            profile,
            paper,
            f"{title}: {MEASURES[measure]} time (seconds; percent in brackets)",
            [(name, measure, of_paper) for name in names for of_paper in (False, True)],
        )
        for measure in MEASURES
    ]


def _grid(profile: Mapping[str, Any], paper: Paper, title: str, columns: Sequence[tuple[str, str, bool]]) -> Grid:
    """The table with these columns: (implementation, measure, whether the paper's figures)."""
    names = {False: "ours", True: "paper"}
    head = [Head(names[of_paper] if paper else MEASURES[measure], name) for name, measure, of_paper in columns]
    stages = _stages(profile)
    body = [
        _paper_column(paper, name, measure, len(stages)) if of_paper else _column(profile, name, measure)
        for name, measure, of_paper in columns
    ]
    labels = [*stages, "total", "kernels alone"]
    rows = [[Box(label), *(Box(column[at]) for column in body)] for at, label in enumerate(labels)]
    if not any(measure == "device" for _, measure, _ in columns) or profile["device"] == "cpu":
        rows.pop()
    return Grid(title, [Head("stage"), *head], rows, _notes(profile))


def _column(profile: Mapping[str, Any], name: str, measure: str) -> list[str]:
    """Every stage, their total, and for the device what the kernels took without the gaps between them."""
    entry = profile["implementations"].get(name)
    if entry is None:
        return ["missing"] * (len(_stages(profile)) + 1) + [""]
    times = [stage[measure] for stage in entry["stages"].values()]
    if None in times:
        return ["-"] * (len(times) + 1) + [""]
    total = sum(times)
    busy = sum(stage["busy"] for stage in entry["stages"].values()) if measure == "device" else None
    return [
        *(_figure(time, 100 * time / total if total else 0.0) for time in times),
        _figure(total, 100.0),
        "" if busy is None else _figure(busy, 100 * busy / total if total else 0.0),
    ]


def _paper_column(paper: Paper, name: str, measure: str, stages: int) -> list[str]:
    """The paper's figures as it prints them; it has none for the kernels alone."""
    given = paper.get(PAPER[measure], {}).get(name) or [None] * (stages + 1)
    if len(given) != stages + 1:
        raise ValueError(
            f"the paper's {PAPER[measure]} figures of {name}: expected {stages} stages and a total, came {len(given)}"
        )
    return [*("-" if pair is None else f"{pair[0]:.2f} ({pair[1]:.2f})" for pair in given), ""]


def _figure(seconds: float, percent: float) -> str:
    """
    >>> _figure(0.01234, 5.678)
    '0.0123 (5.68)'
    """
    return f"{seconds:.4f} ({percent:.2f})"


def _stages(profile: Mapping[str, Any]) -> list[str]:
    for entry in profile["implementations"].values():
        return list(entry["stages"])
    raise ValueError("the profile holds no implementation: run adiw profile first")


def _title(profile: Mapping[str, Any]) -> str:
    settings = next(iter(profile["implementations"].values()))["settings"]
    return f"Stages of a step on {settings['dataset']}, {settings['model']}, {settings['shift']}"


def _notes(profile: Mapping[str, Any]) -> list[str]:
    """What the figures are, what they were made with, and what differs from what was asked for."""
    plan, entries = profile["plan"], profile["implementations"]
    epochs = ", ".join(map(str, plan["epochs"]))
    short = "" if plan["iterations"] is None else f", every epoch ended after {plan['iterations']} iterations"
    notes = [
        f"Seconds of {plan['record']} iterations together, percent of the stages' total; mean over the windows in "
        f"{'epoch' if len(plan['epochs']) == 1 else 'epochs'} {epochs}, each after {plan['skip']} skipped iterations "
        f"and {plan['stabilise']} for stabilisation{short}."
    ]
    if profile["device"] == "cpu":
        notes.append("No GPU was used, so there is no device time.")
    else:
        notes.append(
            "Device time runs from the start of a stage's first kernel to the end of its last, gaps included; "
            "kernels alone: all stages without the gaps."
        )
    notes += [f"{name}: {note}." for name, entry in entries.items() for note in entry["notes"]]
    return notes + list(dict.fromkeys(_made_with(entry) for entry in entries.values()))


def _made_with(entry: Mapping[str, Any]) -> str:
    hardware, versions = entry["hardware"], entry["versions"]
    commit = f", commit {entry['commit']}" if entry["commit"] else ""
    return f"Made on {hardware['device']} with {hardware['cpus']} CPU cores, torch {versions['torch']}{commit}."
