"""The step benchmark with a tiny workload on the CPU: every method and variant has a row, also those that fail."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import cases
import steps
from adiw.experiments.methods import METHODS as ALL
from cases import ADIW, METHODS, ON_CPU, ON_GPU, Variant
from record import Record
from timing import Plan
from workloads import WORKLOADS, Shape, Workload, folder_of_images, generated

CPU = torch.device("cpu")
ONCE = Plan(rounds=1, times=1, limit=10.0)
TINY = Workload(
    "tiny",
    {"dataset": "cifar10", "model": "tests.experiments.tiny:build", "batch": 8, "val_batch": 8},
    Shape("cifar10", (3, 8, 8), 3, 32, 320, trusted=16, augment=True),
    generated,
    together=4,
)


@pytest.fixture
def bench(tmp_path: Path) -> steps.Bench:
    return steps.Bench(TINY, CPU, ONCE, tmp_path)


def rows_of(bench: steps.Bench, variants: dict[str, Variant], out: Path) -> list[dict[str, Any]]:
    record = Record(out / "steps.json", title="tiny")
    steps.measure(bench, variants, record)
    return list(json.loads(record.path.read_text())["rows"])


def test_every_method_that_trains_is_measured() -> None:
    once = {
        "val-only",
        "mixed",
        "fine-tune",
        "oracle",
        *(name for name in ALL if name.startswith("two-step")),
    }  # as fast as uniform
    assert {given["method"] for given in METHODS.values()} == ALL.keys() - once
    assert {"critic": "network", "method": "adiw-wa"} in METHODS.values()


def test_every_method_and_variant_has_its_row(bench: steps.Bench, tmp_path: Path) -> None:
    rows = rows_of(bench, ON_CPU, tmp_path)
    assert [(r["method"], r["variant"]) for r in rows] == [
        *((method, "eager") for method in METHODS),
        *((method, variant) for variant in list(ON_CPU)[1:] for method in ADIW),
    ]
    for row in rows:
        assert row["ms"] > 0, row
        assert row["ratio"] > 0
        assert row["seconds_per_epoch"] == pytest.approx(row["ms"] / 1000 * 40)  # 320 samples in batches of 8
    assert rows[0]["ratio"] == 1.0
    assert not any(row["epoch_measured"] for row in rows)  # there are fewer images than in an epoch


def test_a_short_epoch_is_timed_as_a_whole(tmp_path: Path) -> None:
    small = steps.Bench(replace(TINY, shape=replace(TINY.shape, epoch=32)), CPU, ONCE, tmp_path)
    (row,) = rows_of(small, {"eager": Variant("eager", ("adiw-kl",))}, tmp_path)
    assert row["epoch_measured"]
    assert row["seconds_per_epoch"] > 0


def test_a_variant_with_a_long_start_is_not_started_late(tmp_path: Path) -> None:
    soon = steps.Bench(TINY, CPU, ONCE, tmp_path, deadline=time.monotonic() + 30)
    variants = {"slow": Variant("eager", ("random",), costs=60), "fast": Variant("eager", ("random",))}
    slow, fast = rows_of(soon, variants, tmp_path)
    assert slow["skipped"]
    assert fast["ms"] > 0


def test_a_variant_with_the_settings_of_another_is_not_measured_again(bench: steps.Bench, tmp_path: Path) -> None:
    variants = {"first": Variant("eager", ("adiw-kl",)), "second": Variant("eager", ("adiw-kl",), refresh=0)}
    variants |= {"third": Variant("eager", ("adiw-kl",), refresh=4)}
    first, second, third = rows_of(bench, variants, tmp_path)
    full = "val_refresh=8, val_every=1" in first["settings"]
    assert ("same_as" in second) == full
    assert "same_as" not in third
    assert "val_refresh=4" in third["settings"]
    if full:
        assert second["same_as"] == "first"
        assert (second["variant"], second["ms"]) == ("second", first["ms"])


def test_rounds_are_whole_cycles_of_validation_passes(bench: steps.Bench, tmp_path: Path) -> None:
    settings = TINY.settings({**METHODS["adiw-kl"], **Variant("eager", ADIW, refresh=0, every=4).given(8)})
    case = cases.Case(settings, bench.splits, CPU, "eager", 0)
    made: list[int] = []
    case.job.loop.step = lambda: made.append(1)
    case.warm_up()
    assert len(made) == 16  # each of the four steps is captured after three of its kind
    case(5)
    assert len(made) == 16 + 4 + 8


def test_a_method_that_fails_has_a_row_and_the_others_are_measured(
    bench: steps.Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cases.METHODS, "l2r", {"method": "adiw-wa", "penalty": -1.0})
    rows = rows_of(bench, {"eager": Variant("eager", ("uniform", "l2r", "random"))}, tmp_path)
    assert [row["method"] for row in rows] == ["uniform", "l2r", "random"]
    assert "penalty" in rows[1]["error"]
    assert "ms" not in rows[1]
    assert rows[2]["ratio"] > 0


def test_without_uniform_there_is_no_ratio(
    bench: steps.Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cases.METHODS, "uniform", {"method": "nothing"})
    uniform, random = rows_of(bench, {"eager": Variant("eager", ("uniform", "random"))}, tmp_path)
    assert "nothing" in uniform["error"]
    assert random["ms"] > 0
    assert random["ratio"] is None


def test_skipped_methods_are_recorded(tmp_path: Path) -> None:
    late = steps.Bench(TINY, CPU, ONCE, tmp_path, deadline=-math.inf)
    rows = rows_of(late, {"eager": Variant("eager", ("uniform", "random"))}, tmp_path)
    assert [row["skipped"] for row in rows] == ["there was no time left"]


def test_images_come_from_files_through_the_loader(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="pictures need the extra adiw[cli]")
    given = {**TINY.given, "dataset": "imagefolder", "shift": "symmetric:0.4", "bf16": False}
    shape = Shape("imagefolder", (3, 16, 16), 3, 32, 64, trusted=16)
    workload = replace(TINY, given=given, shape=shape, make=folder_of_images)
    bench = steps.Bench(workload, CPU, Plan(rounds=1, times=0), tmp_path / "images", workers=1)
    assert len(bench.splits.train) == 32
    assert len(list((tmp_path / "images" / "train").rglob("*.jpg"))) == 3  # each file is used for several samples
    rows = rows_of(bench, {"eager": Variant("eager", ("uniform", "adiw-kl"))}, tmp_path)
    assert [row["steps_each_round"] for row in rows] == [4, 4]
    assert rows[1]["ratio"] > 0


def test_the_generated_data(tmp_path: Path) -> None:
    task = generated(TINY, CPU, tmp_path)
    assert (len(task.train), len(task.trusted)) == (32, 16)
    assert bool(task.shifted.flipped.any())
    assert task.data.augment


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_settings_and_columns_of_every_workload(name: str) -> None:
    workload = WORKLOADS[name]
    assert workload.settings({"method": "adiw-kl"}).method == "adiw-kl"
    titles = steps.chosen_variants(workload, torch.device("cuda"), quick=False)
    assert ("compiled" in titles) == (name in ("fashion-mnist", "cifar10", "imagenet"))
    assert list(steps.chosen_variants(workload, CPU, quick=True)) == list(ON_CPU)
    assert set(steps.chosen_variants(workload, torch.device("cuda"), quick=True)) < set(ON_GPU)


def test_the_command_writes_a_file_with_machine_and_versions(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="digits come with scikit-learn")
    options = ["--device", "cpu", "--rounds", "1", "--times", "1", "--variants", "64 a step", "--out", str(tmp_path)]
    steps.main(["digits", *options])
    content = json.loads((tmp_path / "steps-digits-cpu.json").read_text())
    assert content["batch"] == 128
    assert content["versions"]["torch"] == torch.__version__ or content["versions"]["torch"] in torch.__version__
    assert [row["method"] for row in content["rows"]] == list(ADIW)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(SystemExit, match="expected some of eager"):
        steps.main(["digits", "--device", "cpu", "--variants", "lazy"])
