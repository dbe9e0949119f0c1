"""The stage table: figures, percents, the paper's beside them, and what is missing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from adiw.reports.grid import Grid, to_text
from adiw.reports.stage_table import stage_tables

PLAN = {"epochs": [1, 5], "skip": 10, "stabilise": 2, "record": 10, "iterations": None}
MADE = {
    "versions": {"torch": "2.99"},
    "hardware": {"device": "Some GPU", "cpus": 16},
    "commit": "abc123",
    "settings": {"dataset": "cifar10", "model": "resnet18-cifar", "shift": "symmetric:0.4"},
    "notes": [],
}
PAPER = {
    "cpu": {"DIW": [[1.37, 21.78], [3.33, 53.04], [6.28, 100.0]], "ADIW_GPU": [[1.6, 47.31], None, [3.38, 100.0]]},
    "cuda": {"DIW": [[0.01, 0.23], [3.21, 75.35], [4.26, 100.0]], "ADIW_GPU": [None, None, None]},
}


def entry(*times: tuple[float, float | None, float | None], **more: Any) -> dict[str, Any]:
    """Of the two stages "fetch" and "estimate"."""
    names = ("cpu", "device", "busy")
    stages = {
        name: dict(zip(names, time, strict=True)) for name, time in zip(("fetch", "estimate"), times, strict=True)
    }
    return {**copy.deepcopy(MADE), "stages": stages, **more}


def profile(device: str = "cuda", **implementations: dict[str, Any]) -> dict[str, Any]:
    return {"plan": dict(PLAN), "device": device, "workers": 4, "implementations": implementations}


BOTH = profile(DIW=entry((1, 0.5, 0.25), (3, 1.5, 0.75)), ADIW_GPU=entry((2, 0.3, 0.2), (0, 0.1, 0.1)))


def texts(grid: Grid) -> list[list[str]]:
    return [[box.text for box in row] for row in grid.rows]


def heads(grid: Grid) -> list[str]:
    return [head.full for head in grid.head]


def test_without_the_paper_one_table_holds_all() -> None:
    (grid,) = stage_tables(BOTH)
    assert grid.title == ("Stages of a step on cifar10, resnet18-cifar, symmetric:0.4 (seconds; percent in brackets)")
    assert heads(grid) == ["stage", "DIW, CPU", "DIW, device", "ADIW_GPU, CPU", "ADIW_GPU, device"]
    assert texts(grid) == [
        ["fetch", "1.0000 (25.00)", "0.5000 (25.00)", "2.0000 (100.00)", "0.3000 (75.00)"],
        ["estimate", "3.0000 (75.00)", "1.5000 (75.00)", "0.0000 (0.00)", "0.1000 (25.00)"],
        ["total", "4.0000 (100.00)", "2.0000 (100.00)", "2.0000 (100.00)", "0.4000 (100.00)"],
        ["kernels alone", "", "1.0000 (50.00)", "", "0.3000 (75.00)"],
    ]


def test_with_the_paper_a_table_for_each_kind_of_time() -> None:
    cpu, device = stage_tables(BOTH, PAPER, title="Mine")
    assert cpu.title == "Mine: CPU time (seconds; percent in brackets)"
    assert device.title == "Mine: device time (seconds; percent in brackets)"
    assert heads(cpu) == heads(device) == ["stage", "DIW, ours", "DIW, paper", "ADIW_GPU, ours", "ADIW_GPU, paper"]
    assert texts(cpu)[1] == ["estimate", "3.0000 (75.00)", "3.33 (53.04)", "0.0000 (0.00)", "-"]
    assert [row[0] for row in texts(cpu)] == ["fetch", "estimate", "total"]
    assert texts(device)[2] == ["total", "2.0000 (100.00)", "4.26 (100.00)", "0.4000 (100.00)", "-"]
    assert texts(device)[3] == ["kernels alone", "1.0000 (50.00)", "", "0.3000 (75.00)", ""]


def test_what_the_paper_has_and_the_profile_has_not_is_missing() -> None:
    cpu, device = stage_tables(profile(ADIW_GPU=entry((2, 1, 1), (2, 1, 1))), PAPER)
    for grid in (cpu, device):
        assert heads(grid)[1] == "DIW, ours"
        assert [row[1] for row in texts(grid)][:3] == ["missing"] * 3
    assert texts(cpu)[2][2] == "6.28 (100.00)"


def test_what_the_profile_has_and_the_paper_has_not_is_shown() -> None:
    cpu, _ = stage_tables(profile(New=entry((1, 1, 1), (1, 1, 1))), PAPER)
    assert heads(cpu)[-2:] == ["New, ours", "New, paper"]
    assert [row[-2:] for row in texts(cpu)] == [
        ["1.0000 (50.00)", "-"],
        ["1.0000 (50.00)", "-"],
        ["2.0000 (100.00)", "-"],
    ]


def test_without_a_gpu_the_device_columns_are_empty() -> None:
    (grid,) = stage_tables(profile("cpu", DIW=entry((1, None, None), (1, None, None))))
    assert [row[2] for row in texts(grid)] == ["-", "-", "-"]
    assert "No GPU was used, so there is no device time." in grid.notes


def test_notes_say_what_was_measured_on_what() -> None:
    found = copy.deepcopy(BOTH)
    found["implementations"]["DIW"]["notes"] = ["cvxopt is not installed: osqp solved it"]
    found["implementations"]["ADIW_GPU"]["hardware"]["device"] = "Another GPU"
    found["plan"] |= {"epochs": [3], "iterations": 22}
    notes = stage_tables(found)[0].notes
    assert notes[0] == (
        "Seconds of 10 iterations together, percent of the stages' total; mean over the windows in epoch 3, each "
        "after 10 skipped iterations and 2 for stabilisation, every epoch ended after 22 iterations."
    )
    assert notes[1].startswith("Device time runs from the start of a stage's first kernel")
    assert notes[2] == "DIW: cvxopt is not installed: osqp solved it."
    assert notes[3:] == [
        "Made on Some GPU with 16 CPU cores, torch 2.99, commit abc123.",
        "Made on Another GPU with 16 CPU cores, torch 2.99, commit abc123.",
    ]
    assert "in epochs 1, 5, each after" in stage_tables(BOTH)[0].notes[0]


def test_no_time_at_all_is_not_divided_by() -> None:
    (grid,) = stage_tables(profile(DIW=entry((0, 0, 0), (0, 0, 0))))
    assert "0.0000 (0.00)" in to_text(grid)


def test_figures_of_the_paper_must_be_one_for_each_stage() -> None:
    with pytest.raises(ValueError, match="the paper's cpu figures of DIW: expected 2 stages and a total, came 2"):
        stage_tables(BOTH, {"cpu": {"DIW": [[1, 2], [3, 4]]}})


def test_an_empty_profile_is_an_error() -> None:
    with pytest.raises(ValueError, match="run adiw profile first"):
        stage_tables(profile(), PAPER, title="Mine")
