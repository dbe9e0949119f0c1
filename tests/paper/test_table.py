"""The stage tables: figures, percents, the paper's columns, and missing implementations."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from adiw.reports.grid import NONE, Grid, to_text
from paper.profiler.table import recorded_stages, stage_tables

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
    """The entry of an implementation with the two stages "fetch" and "estimate"."""
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


def test_without_figures_of_the_paper_the_columns_are_ours() -> None:
    cpu, device = stage_tables(BOTH, "Mine", {})
    assert heads(cpu) == heads(device) == ["stage", "DIW, ours", "ADIW_GPU, ours"]
    assert texts(cpu) == [
        ["fetch", "1.0000 (25.00)", "2.0000 (100.00)"],
        ["estimate", "3.0000 (75.00)", "0.0000 (0.00)"],
        ["total", "4.0000 (100.00)", "2.0000 (100.00)"],
    ]
    assert texts(device) == [
        ["fetch", "0.5000 (25.00)", "0.3000 (75.00)"],
        ["estimate", "1.5000 (75.00)", "0.1000 (25.00)"],
        ["total", "2.0000 (100.00)", "0.4000 (100.00)"],
        ["kernels only", "1.0000 (50.00)", "0.3000 (75.00)"],
    ]


def test_the_papers_figures_are_beside_ours() -> None:
    cpu, device = stage_tables(BOTH, "Mine", PAPER)
    assert cpu.title == "Mine: CPU time (seconds; percent in brackets)"
    assert device.title == "Mine: device time (seconds; percent in brackets)"
    assert heads(cpu) == heads(device) == ["stage", "DIW, ours", "DIW, paper", "ADIW_GPU, ours", "ADIW_GPU, paper"]
    assert texts(cpu)[1] == ["estimate", "3.0000 (75.00)", "3.33 (53.04)", "0.0000 (0.00)", NONE]
    assert [row[0] for row in texts(cpu)] == ["fetch", "estimate", "total"]
    assert texts(device)[2] == ["total", "2.0000 (100.00)", "4.26 (100.00)", "0.4000 (100.00)", NONE]
    assert texts(device)[3] == ["kernels only", "1.0000 (50.00)", "", "0.3000 (75.00)", ""]


def test_an_implementation_that_only_the_paper_has_is_a_dash() -> None:
    cpu, device = stage_tables(profile(ADIW_GPU=entry((2, 1, 1), (2, 1, 1))), "Mine", PAPER)
    for grid in (cpu, device):
        assert heads(grid)[1] == "DIW, ours"
        assert [row[1] for row in texts(grid)][:3] == [NONE] * 3
    assert texts(cpu)[2][2] == "6.28 (100.00)"


def test_an_implementation_that_only_the_profile_has_is_shown() -> None:
    cpu, _ = stage_tables(profile(New=entry((1, 1, 1), (1, 1, 1))), "Mine", PAPER)
    assert heads(cpu)[-2:] == ["New, ours", "New, paper"]
    assert [row[-2:] for row in texts(cpu)] == [
        ["1.0000 (50.00)", NONE],
        ["1.0000 (50.00)", NONE],
        ["2.0000 (100.00)", NONE],
    ]


def test_without_a_gpu_there_are_no_device_times() -> None:
    cpu, device = stage_tables(profile("cpu", DIW=entry((1, None, None), (1, None, None))), "Mine", {})
    assert texts(device) == [["fetch", NONE], ["estimate", NONE], ["total", NONE]]
    assert "No GPU was used, so there is no device time." in device.notes
    assert not any("GPU" in note for note in cpu.notes[:-1])


def test_notes_contain_the_window_and_the_hardware() -> None:
    found = copy.deepcopy(BOTH)
    found["implementations"]["DIW"]["notes"] = ["cvxopt is not installed: osqp solved it"]
    found["implementations"]["ADIW_GPU"]["hardware"]["device"] = "Another GPU"
    found["plan"] |= {"epochs": [3], "iterations": 22}
    cpu, device = stage_tables(found, "Mine", {})
    assert "of 10 iterations" in cpu.notes[0]
    assert "in epoch 3, each after 12 unrecorded" in cpu.notes[0]
    assert device.notes[1].startswith("Device time runs from the start of a stage's first kernel")
    assert cpu.notes[1:] == [
        "DIW: cvxopt is not installed: osqp solved it.",
        "Some GPU, 16 CPU cores, torch 2.99, commit abc123.",
        "Another GPU, 16 CPU cores, torch 2.99, commit abc123.",
    ]
    assert "in epochs 1, 5, each after" in stage_tables(BOTH, "Mine", {})[0].notes[0]


def test_a_total_of_zero_is_no_division_by_zero() -> None:
    cpu, _ = stage_tables(profile(DIW=entry((0, 0, 0), (0, 0, 0))), "Mine", {})
    assert "0.0000 (0.00)" in to_text(cpu)


def test_the_paper_must_have_a_figure_for_each_stage() -> None:
    with pytest.raises(ValueError, match="the paper's cpu figures of DIW: expected 2 stages and a total, got 2"):
        stage_tables(BOTH, "Mine", {"cpu": {"DIW": [[1, 2], [3, 4]]}})


def test_an_empty_profile_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"run python -m paper\.profiler first"):
        stage_tables(profile(), "Mine", PAPER)


def test_a_folder_without_a_profile_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no profile found in .*: expected a profile\.json"):
        recorded_stages(tmp_path, "Mine", PAPER)
