"""Profiles of small runs: their content, resuming, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.data import Data, Samples
from adiw.engine.checkpoint import CheckpointError
from adiw.engine.train_loader import DatasetLoader
from adiw.experiments.settings import Settings, SettingsError, resolve
from adiw.experiments.splits import Splits, load_splits
from adiw.shifts import parse
from paper.profiler import profile as module
from paper.profiler.implementations import IMPLEMENTATIONS, find
from paper.profiler.plan import Plan
from paper.profiler.profile import build_step, profile_all, training_batches
from paper.profiler.stages import STAGES, StagedStep
from tests.cli.images import write_images

CPU = torch.device("cpu")
SMALL = Plan(epochs=(1,), skip=1, stabilise=1, record=2)


def small(**more: Any) -> Settings:
    return resolve({"dataset": "digits", "method": "adiw-kl", "batch": 128, **more})


def settings_of(settings: Settings, names: tuple[str, ...]) -> dict[str, Settings]:
    """These settings for ADIW, and the same with the method diw for DIW."""
    diw = replace(settings, method="diw", solver="cvxopt")
    return {name: diw if find(name).program else settings for name in names}


def run(
    settings: Settings, folder: Path, plan: Plan = SMALL, names: tuple[str, ...] = ("ADIW_GPU",)
) -> dict[str, Any]:
    return profile_all(settings_of(settings, names), plan, folder, device=CPU, workers=0)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[StagedStep]:
    """Every staged step that is made."""
    made: list[StagedStep] = []
    build: Callable[..., StagedStep] = module.build_step

    def building(*arguments: Any) -> StagedStep:
        made.append(build(*arguments))
        return made[-1]

    monkeypatch.setattr(module, "build_step", building)
    return made


def test_all_four_are_in_the_file_with_every_stage(tmp_path: Path) -> None:
    content = run(small(), tmp_path / "out", names=tuple(IMPLEMENTATIONS))
    assert content == json.loads((tmp_path / "out" / "profile.json").read_text())
    assert (content["device"], content["workers"], content["plan"]) == ("cpu", 0, SMALL.as_dict())
    assert list(content["implementations"]) == list(IMPLEMENTATIONS)
    for name, entry in content["implementations"].items():
        assert list(entry["stages"]) == list(STAGES)
        for stage in entry["stages"].values():
            assert stage["cpu"] > 0
            assert (stage["device"], stage["busy"]) == (None, None)
        assert sum(stage["cpu"] for stage in entry["stages"].values()) <= entry["window"]["cpu"]
        assert entry["settings"]["method"] == ("diw" if name.startswith("DIW") else "adiw-kl")
        assert entry["solver"] == ("cvxopt" if name.startswith("DIW") else None)
        assert {"versions", "hardware", "commit"} <= entry.keys()


def test_figures_are_the_mean_of_the_windows(tmp_path: Path) -> None:
    plan = Plan(epochs=(3, 1), skip=0, stabilise=1, record=1, iterations=2)
    entry = run(small(), tmp_path, plan)["implementations"]["ADIW_GPU"]
    assert [window["epoch"] for window in entry["windows"]] == [1, 3]
    for stage in STAGES:
        times = [window["stages"][stage]["cpu"] for window in entry["windows"]]
        assert entry["stages"][stage]["cpu"] == pytest.approx(sum(times) / 2)
    assert entry["window"]["cpu"] == pytest.approx(sum(window["window"]["cpu"] for window in entry["windows"]) / 2)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan(epochs=(1,), skip=1, stabilise=1, record=2), 4),  # the last profiled epoch ends with its window
        (Plan(epochs=(2,), skip=1, stabilise=1, record=2), 10 + 4),
        (Plan(epochs=(1, 3), skip=1, stabilise=1, record=2), 10 + 10 + 4),
        (Plan(epochs=(1, 3), skip=1, stabilise=1, record=2, iterations=5), 5 + 5 + 4),
    ],
)
def test_how_many_steps_are_made(tmp_path: Path, steps: list[StagedStep], plan: Plan, expected: int) -> None:
    task = load_splits(small())
    assert len(task.train) // 128 == 10
    run(small(), tmp_path, plan)
    assert int(steps[0].reweight.weight_state.seen_steps) == expected


def test_it_trains_with_the_learning_rate_of_the_epoch(tmp_path: Path, steps: list[StagedStep]) -> None:
    run(small(lr=0.2, decay=0.5, decay_every=1), tmp_path, Plan((3,), 1, 1, 1, iterations=3))
    assert steps[0].optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_what_is_there_is_not_run_again(tmp_path: Path, steps: list[StagedStep]) -> None:
    first = run(small(), tmp_path, names=("DIW_Val", "ADIW_GPU"))
    before = json.dumps(first["implementations"])
    more = run(small(), tmp_path, names=("DIW_Val", "ADIW_CPU", "ADIW_GPU"))
    assert len(steps) == 3
    assert json.dumps({name: more["implementations"][name] for name in ("DIW_Val", "ADIW_GPU")}) == before
    assert run(small(), tmp_path, names=("ADIW_CPU",)) == more  # the others stay


def test_an_interrupted_one_leaves_the_ones_before_it(tmp_path: Path) -> None:
    def stop(name: str, epoch: int) -> None:
        if name == "ADIW_GPU":
            raise KeyboardInterrupt

    settings = settings_of(small(), ("ADIW_CPU", "ADIW_GPU"))
    with pytest.raises(KeyboardInterrupt):
        profile_all(settings, SMALL, tmp_path, device=CPU, workers=0, on_epoch=stop)
    assert list(json.loads((tmp_path / "profile.json").read_text())["implementations"]) == ["ADIW_CPU"]


@pytest.mark.parametrize(
    ("settings", "plan", "difference"),
    [
        (small(batch=64), SMALL, "batch of ADIW_GPU was 128, is 64"),
        (small(), Plan((1,), 1, 1, 3), "plan was .*'record': 2.*, is .*'record': 3"),
    ],
)
def test_a_file_of_other_settings_is_refused(
    tmp_path: Path, steps: list[StagedStep], settings: Settings, plan: Plan, difference: str
) -> None:
    run(small(), tmp_path)
    before = (tmp_path / "profile.json").read_bytes()
    with pytest.raises(CheckpointError, match=f"other settings .*{difference}.*choose another folder"):
        run(settings, tmp_path, plan)
    assert (tmp_path / "profile.json").read_bytes() == before
    assert len(steps) == 1


def test_a_window_that_does_not_fit_is_an_error_before_any_step(tmp_path: Path, steps: list[StagedStep]) -> None:
    message = r"the window takes 22 iterations \(10 skipped, 2 to stabilise, 10 recorded\), but an epoch has 10"
    with pytest.raises(SettingsError, match=message):
        run(small(), tmp_path, Plan())
    assert steps == []
    with pytest.raises(SettingsError, match="but an epoch has 3: "):
        run(small(), tmp_path, Plan((1,), 1, 1, 2, iterations=3))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": ()}, "from 1, got none"),
        ({"epochs": (0, 2)}, "from 1, got 0, 2"),
        ({"epochs": (2, 2)}, "different numbers"),
        ({"skip": -1}, "skip must be at least 0, got -1"),
        ({"stabilise": 0}, "stabilise must be at least 1"),
        ({"record": 0}, "record must be at least 1"),
    ],
)
def test_plans_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Plan(**given)


def test_the_default_window_is_the_papers() -> None:
    assert (Plan().skip, Plan().stabilise, Plan().record, Plan().window) == (10, 2, 10, 22)


def test_images_from_a_folder(tmp_path: Path) -> None:
    path = write_images(tmp_path / "images")
    given = {"dataset": "imagefolder", "path": str(path), "shift": "symmetric:0.4", "trusted": 15, "batch": 10}
    settings = resolve({**given, "method": "adiw-kl", "model": "tests.experiments.tiny:build"})
    content = run(settings, tmp_path / "out", names=("DIW", "ADIW_GPU"))
    assert all(entry["stages"]["fetch val"]["cpu"] > 0 for entry in content["implementations"].values())


@pytest.mark.parametrize(("name", "method"), [("DIW", "diw"), ("ADIW_GPU", "adiw-km")])
def test_trusted_samples_come_from_the_loader_alone(name: str, method: str) -> None:
    """No batch is loaded in advance: for ImageNet that would take minutes before the first step."""
    settings = resolve({"method": method})
    assert build_step(name, settings, load_splits(settings), CPU, workers=0).reweight.val_schedule.cached is None


@pytest.mark.parametrize("augment", [False, True])
def test_images_in_memory_are_augmented_after_the_loader(augment: bool) -> None:
    x, y = torch.arange(6 * 64, dtype=torch.uint8).view(6, 1, 8, 8), torch.arange(6) % 2
    samples = Samples(x, y)
    data = Data("made", samples, samples, ("a", "b"), mean=(0.0,), std=(1.0,), augment=augment)
    shifted = parse("none").apply(x, y, 2, 2, torch.Generator().manual_seed(0))
    task = Splits(data, samples, samples, samples, shifted)
    feed = DatasetLoader(samples, 3, seed=0, device=CPU, workers=0)
    # Every batch comes in the same place.
    found = [tuple(part.clone() for part in batch) for batch in training_batches(feed, task, 0)]
    assert sorted(torch.cat([index for _, _, index in found]).tolist()) == list(range(6))
    assert all(torch.equal(batch, x[index]) for batch, _, index in found) is not augment
    assert all(torch.equal(labels, y[index]) for _, labels, index in found)
