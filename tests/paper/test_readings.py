"""Other readings of the paper's random weights and pair noise: what each of them draws, and their table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

from adiw.baselines import Random
from adiw.experiments import recipes
from adiw.experiments.settings import resolve
from adiw.reports.grid import NONE
from adiw.shifts import Shifted
from paper.readings import (
    NOISE,
    PAIR,
    RANDOM,
    RECIPE,
    RUNS,
    SYMMETRIC,
    DividedBySum,
    EitherNeighbour,
    ExactCount,
    NotDivided,
    PreviousClass,
    readings_table,
)

TRUE = torch.arange(10).repeat(200)


def flipped(kind: type[ExactCount | PreviousClass | EitherNeighbour]) -> tuple[Shifted, Tensor]:
    """A shift of 2,000 labels, 100 of them trusted, and by how many classes its flipped labels moved."""
    shifted = kind(0.3).apply(None, TRUE, 10, 100, Generator().manual_seed(0))
    moved = (shifted.y - shifted.true_y) % 10
    assert not moved[shifted.trusted].any()
    return shifted, moved[moved > 0]


def test_an_exact_count_flips_that_share_of_the_labels_that_are_not_trusted() -> None:
    _, moved = flipped(ExactCount)
    assert moved.tolist() == [1] * 570


def test_labels_flip_to_the_previous_class_or_to_either_neighbour() -> None:
    _, moved = flipped(PreviousClass)
    assert moved.unique().tolist() == [9]
    _, moved = flipped(EitherNeighbour)
    assert moved.unique().tolist() == [1, 9]
    assert 0.4 < float((moved == 1).float().mean()) < 0.6


@pytest.mark.parametrize(("kind", "factor"), [(NotDivided, None), (DividedBySum, 1 / 64)])
def test_random_weights_are_those_of_the_library_in_other_units(kind: type[Random], factor: float | None) -> None:
    model, x, y, index = nn.Linear(2, 3), torch.randn(64, 2), torch.zeros(64, dtype=torch.long), torch.arange(64)
    weights = []
    for each in (Random, kind):
        criterion = nn.CrossEntropyLoss(reduction="none")
        reweight = each(model, criterion, None, 64, generator=Generator().manual_seed(1))
        loss = reweight(model(x), y, index)
        weights.append((loss.item(), reweight.weights))
    (usual, divided), (loss, drawn) = weights
    ratio = factor or float(drawn.sum() / divided.sum())
    assert loss == pytest.approx(usual * ratio, rel=1e-5)
    if kind is NotDivided:
        torch.testing.assert_close(drawn / drawn.mean(), divided)


def test_the_shifts_and_settings_of_every_run_are_those_of_the_recipe() -> None:
    assert len(set(RUNS)) == len(RUNS)
    for _, noise in RUNS:
        resolve({**recipes.load(RECIPE).common, "method": "random", "shift": NOISE[noise][0]})


def test_the_table_has_what_is_recorded_beside_the_paper(tmp_path: Path) -> None:
    device = {"hardware": {"device": "NVIDIA H200"}}
    done = {"weights": RANDOM, "noise": PAIR, "epochs": 100, "accuracy": 78.25, "status": "done", **device}
    dead = {"weights": "uniform", "noise": SYMMETRIC, "epochs": 100, "accuracy": 10.0, "status": "dead", **device}
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in (done, dead)))
    lines = readings_table(tmp_path).splitlines()
    assert f"| uniform | {NONE} | {NONE} | {NONE} | {NONE} | 10.0 (dead) |" in lines
    assert f"| {RANDOM} | 78.2 | {NONE} | {NONE} | {NONE} | {NONE} |" in lines
    paper = recipes.load(RECIPE).paper["accuracy"]["Random"]
    pair, symmetric = f"{paper[0][0]:.1f}", f"{paper[1][0]:.1f}"
    assert f"| the paper's Random, 400 epochs | {pair} | {pair} | {pair} | {pair} | {symmetric} |" in lines
    assert lines[-1] == "- 1 trial of 100 epochs, evaluated on the test set. Hardware: NVIDIA H200."
