"""The tables of the benchmark pages are drawn from the records, and a missing record is visible."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import adiw
import draw
import goals
import scale
import scale_tables
import tables
from adiw.reweighting.default_estimator import POOL
from growth import AXES
from workloads import WORKLOADS

PAGES = {page.name: page.read_text() for page in draw.PAGES}
MARKERS = re.findall(r"<!-- bench: (.+) -->", "".join(PAGES.values()))


@pytest.mark.parametrize("page", draw.PAGES, ids=lambda page: page.name)
def test_the_tables_are_drawn_from_the_records(page: Path) -> None:
    assert draw.draw(page.read_text(), draw.RESULTS) == page.read_text(), "run python benchmarks/draw.py"


def test_every_record_is_on_a_page() -> None:
    drawn = {"-".join(marker.split()) for marker in MARKERS}
    assert "goals" in drawn
    assert {path.stem for path in draw.RESULTS.glob("*.json")} - {"scale"} <= drawn
    steps = {marker.split()[1] for marker in MARKERS if marker.startswith("steps")}
    assert steps == WORKLOADS.keys()


def test_a_missing_record_is_visible_on_the_page(tmp_path: Path) -> None:
    for text in PAGES.values():
        found = re.findall(r"<!-- bench: .+? -->(.*?)<!-- end of bench -->", draw.draw(text, tmp_path), re.DOTALL)
        assert {part.strip() for part in found} == {draw.NOT_YET}


def test_compiled_steps_meet_the_goals_and_captured_steps_nearly_do() -> None:
    for (workload, method, variant), goal in goals.GOALS.items():
        compiled, captured = goals.measured(draw.RESULTS, workload, method, variant)
        assert compiled <= goal, (workload, method, variant)
        if method.startswith("adiw") and workload != "fashion-mnist":
            margin = 0.02 if variant or workload == "imagenet" else 0.002
            assert captured <= goal + margin, (workload, method, variant)


def test_the_papers_ratio_is_computed_from_its_seconds() -> None:
    assert goals.of_paper("cifar10", "adiw-kl") == "2.17"


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected scale, goals or one of steps"):
        draw.draw("<!-- bench: accuracy -->\n<!-- end of bench -->", tmp_path)


def test_the_bytes_are_those_of_the_code() -> None:
    recorded = json.loads((draw.RESULTS / "scale.json").read_text())
    assert recorded == scale.facts(), "run python benchmarks/scale.py and python benchmarks/draw.py"


@pytest.mark.parametrize("variant", ["uniform", *scale.VARIANTS])
def test_traffic_of_a_step_does_not_depend_on_the_training_set(variant: str) -> None:
    small, large = scale.traffic(variant, 10_000, batch=10), scale.traffic(variant, 100_000, batch=10)
    assert small.bytes == large.bytes > 0
    assert large.largest <= (POOL if variant == "adiw" else 10)  # no operator reads all weights


def test_a_pass_over_all_weights_is_counted() -> None:
    store = torch.ones(1000)
    with scale.Traffic([store]) as seen:
        store.mean()
        store * 2
    assert seen.bytes >= 4000
    assert seen.largest == 1000


def test_bytes_gathered_by_two_processes() -> None:
    z = loss = size = label = predicted = 4
    index = 8
    assert scale.facts()["bytes_gathered"] == {"training": index + loss + size + label + predicted, "validation": z}
    assert scale.gathered(100, 100) == 100 * 24 + 100 * 4


def test_the_buffers_have_the_types_and_sizes_that_are_counted() -> None:
    _, reweight = scale.build("adiw-kl, limits", 100, 50)
    kinds = {name: (buffer.dtype, buffer.numel()) for name, buffer in reweight.named_buffers()}
    assert kinds["weight_state.weight_slots"] == kinds["weight_state.estimate_slots"] == (torch.float32, 101)
    assert kinds["weight_state.nonfinite_slots"][0] == kinds["val_schedule.nonfinite"][0] == torch.int32
    assert kinds["val_schedule.order"] == (torch.int64, 50)
    assert kinds["estimator.coefficients"] == (torch.float32, 50)
    model, criterion = torch.nn.Linear(2, 3), torch.nn.CrossEntropyLoss(reduction="none")
    val_set = torch.utils.data.TensorDataset(torch.zeros(4, 2), torch.arange(4) % 3)
    features = adiw.ADIW(model, criterion, val_set, 100, transform=adiw.Features(model, num_classes=3))
    assert features.weight_state.estimate_slots is not None
    assert scale.facts()["cache_bytes"] == 2**30
    assert AXES["batch"].fixed == {"val": scale_tables.VAL_BATCH}
    assert set(scale_tables.BATCHES) <= set(AXES["batch"].sizes)


def step(method: str, variant: str, **found: Any) -> dict[str, Any]:
    return {"method": method, "variant": variant, "engine": "captured", **found}


HEAD = {"device": "H200", "cpus": 16, "python": "3.11", "versions": {"torch": "2.9"}, "commit": "abc"}


def test_the_table_of_steps_shows_ratios_failures_and_gaps() -> None:
    measured = {"ratio": 1.0, "peak_ratio": 1.0, "seconds_per_epoch": 0.0936, "notes": []}
    rows = [
        step("uniform", "captured", ms=0.4, **measured),
        step("adiw-kl", "captured", ms=0.5, **{**measured, "ratio": 1.251, "peak_ratio": 1.02, "notes": ["careful"]}),
        step("l2r", "captured", error="RuntimeError: no forward mode"),
        step("adiw-kl", "64 a step", skipped="there was no time left"),
    ]
    lines = tables.steps({**HEAD, "rows": rows}).splitlines()
    assert lines[2:5] == [
        "| uniform | 0.400 |  | x1.000 | 0.0936 |",
        "| adiw-kl | 0.500 (x1.25) | not run | x1.020 | 0.0936 |",
        "| l2r | failed |  | - | - |",
    ]
    assert lines[6:8] == ["- l2r, captured: RuntimeError: no forward mode", "- adiw-kl, captured: careful"]
    assert lines[-1] == "H200, 16 CPU cores, Python 3.11, torch 2.9, commit abc."


def test_the_table_of_estimates() -> None:
    rows = [
        {"method": "adiw-kl", "engine": "eager", "batch": 256, "ms": 0.5, "ratio": 1.0},
        {"method": "diw", "engine": "eager", "batch": 256, "ms": 100.0, "ratio": 200.0},
        {"method": "diw, osqp", "engine": "eager", "batch": 256, "skipped": "osqp is not installed"},
        {"method": "adiw-ls", "engine": "eager", "batch": 256, "error": "ValueError: no"},
    ]
    text = tables.estimation({**HEAD, "rows": rows})
    assert "| diw | 100 (x200) |" in text
    assert "| diw, osqp | osqp is not installed |" in text
    assert "| adiw-ls | failed |" in text
    assert "- adiw-ls, eager: ValueError: no (batch 256)" in text


def test_the_table_of_divergences_says_who_waits() -> None:
    common = {"engine": "captured", "batch": 256, "host_waits": False}
    rows: list[dict[str, Any]] = [
        {**common, "method": "adiw-kl", "z": "loss", "ms": 0.1, "ratio": 1.0},
        {**common, "method": "adiw-energy", "z": "loss", "ms": 0.25, "ratio": 2.5},
        {**common, "method": "adiw-energy", "z": "features", "skipped": "there was no time left"},
    ]
    text = tables.divergences({**HEAD, "rows": rows})
    assert "| method | captured, losses, ms | captured, features, ms |" in text
    assert "| adiw-energy | 0.250 (x2.5) | there was no time left |" in text
    assert "In none of these estimates does the host wait for the device." in text
    rows[1]["host_waits"] = True
    text = tables.divergences({**HEAD, "rows": rows})
    assert "The host waits for the device: adiw-energy, captured, losses." in text
    assert "In none" not in text


def test_the_tables_of_growth_and_of_the_gpus_part_of_scale() -> None:
    common = {"method": "adiw-kl", "engine": "captured", "bytes": 2**20, "val": 256}
    rows = [{**common, "axis": "batch", "size": size, "ms": size**2 / 1e6} for size in AXES["batch"].sizes]
    rows += [{**common, "axis": "training set", "size": 10**6, "ms": 0.04, "train": 256}]
    rows += [{**common, "axis": "training set", "size": 10**7, "error": "out of memory", "train": 256}]
    timed = {**HEAD, "rows": rows}
    text = tables.growth(timed)
    assert "| adiw-kl, ms | 0.00410 | 0.0655 | 1.05 | 16.8 | 67.1 | 2.0 |" in text
    counted = json.loads((draw.RESULTS / "scale.json").read_text())
    assert "| 10,000,000 | 1.00 | - |" in scale_tables.by_size(counted, timed)
    assert scale_tables.gathered(counted, timed).splitlines()[2].endswith("| 0.0655 |")
    assert "not measured yet" in scale_tables.gathered(counted, None)
