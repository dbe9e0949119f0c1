"""Weight estimation alone: the weights of a step, a row for each method and size, and missing solvers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

import adiw
import divergences
import estimation
import growth
import scale
from cases import NETWORK
from estimation_case import DIVERGENCES, EstimationCase, attempt
from growth import Axis
from timing import Plan, interleave

CPU = torch.device("cpu")
ONCE = Plan(rounds=1, times=1, limit=10.0)


@pytest.mark.parametrize("method", [name for name in DIVERGENCES if "network" not in name])
def test_a_call_is_one_estimate(method: str) -> None:
    case = EstimationCase(method, 16, 12, CPU, num_train=100)
    weights, _ = adiw.estimate_weights(case.train.z, case.val.z, DIVERGENCES[method])
    if DIVERGENCES[method].side == "train":
        weights, _ = adiw.estimate_weights(
            case.train.z, case.val.z, DIVERGENCES[method], state=adiw.State(torch.ones(16))
        )
    torch.testing.assert_close(case(), weights)
    torch.testing.assert_close(case.reweight.weights[case.index], weights)


def test_features_are_matched_class_by_class() -> None:
    case = EstimationCase("adiw-kl", 32, 32, CPU, classes=4)
    assert case().shape == (32,)
    assert case.reweight.transform.num_groups == 4


def test_rows_of_all_methods_and_solvers(tmp_path: Path) -> None:
    estimation.main(["--device", "cpu", "--quick", "--batches", "8", "16", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "estimation-cpu.json").read_text())["rows"]
    names = [*DIVERGENCES, "diw", "diw, cvxopt", "diw, osqp"]
    assert [(row["batch"], row["method"]) for row in rows] == [(batch, name) for batch in (8, 16) for name in names]
    for row in rows:  # on a busy machine a solver may be skipped for the time it would take
        assert row.get("ratio", 0) > 0 or any(text in row["skipped"] for text in ("not installed", "expected")), row


def test_a_solver_that_would_take_too_long_is_skipped() -> None:
    pytest.importorskip("cvxopt", reason="the solvers need the extra adiw[qp]")
    row = estimation.on_host("cvxopt", 64, CPU, {"ms": 1000.0, "batch": 16}, patience=20)
    assert row["skipped"] == "about 64 s expected"
    assert estimation.on_host("cvxopt", 64, CPU, None, patience=-1)["skipped"] == "there was no time left"


def test_the_devices_own_solver_is_skipped_too_where_it_would_take_too_long() -> None:
    before = [{"method": "diw", "engine": "eager", "batch": 8, "ms": 1000.0}]
    rows = estimation.on_device(16, CPU, ONCE, before, patience=5)
    assert rows[-1] == {"method": "diw", "engine": "eager", "batch": 16, "skipped": "about 8 s expected"}
    assert [row["method"] for row in rows[:-1]] == list(DIVERGENCES)


def test_a_solver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(estimation, "resolve_solver", missing)
    assert estimation.on_host("osqp", 64, CPU, None, 20)["skipped"] == "osqp is not installed"


def test_a_failure_while_setting_up_is_the_cases_own() -> None:
    def broken() -> None:
        raise ValueError("no")

    assert interleave({"a": attempt(broken)}, ONCE)["a"].error == "ValueError: no"  # type: ignore[arg-type]


def test_every_divergence_is_timed_with_kl_on_losses_and_on_features(tmp_path: Path) -> None:
    divergences.main(["--device", "cpu", "--quick", "--batch", "16", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "divergences-cpu.json").read_text())["rows"]
    for z, left_out in (("loss", ""), ("features", NETWORK)):
        names = {row["method"] for row in rows if row["z"] == z}
        assert names == set(DIVERGENCES) - {left_out}
    assert all(row["ratio"] > 0 and row["ms"] > 0 for row in rows)
    assert rows[0]["method"] == "adiw-kl"


def test_compiled_estimates_are_measured_last_and_without_networks() -> None:
    found = divergences.columns(256, torch.device("cuda"))
    assert [column.engine for column in found] == ["captured"] * 2 + ["eager"] * 2 + ["compiled"] * 2
    losses, features = found[-2:]
    assert set(DIVERGENCES) - set(losses.others()) == {"adiw-kl", NETWORK}
    assert set(DIVERGENCES) - set(features.others()) == {"adiw-kl", NETWORK, "adiw-wa"}


def test_no_divergence_starts_after_the_deadline() -> None:
    rows = list(divergences.Column("eager", "loss", 8, CPU).rows(ONCE, deadline=time.monotonic() - 1))
    assert {row["skipped"] for row in rows} == {"there was no time left"}
    assert {row["method"] for row in rows} == set(DIVERGENCES)


@pytest.mark.parametrize("title", sorted(growth.AXES))
def test_every_axis_grows_its_own_argument(title: str) -> None:
    real = growth.AXES[title]
    sizes = (16, 32) if real.argument != "num_train" else (100, 200)
    fixed = dict.fromkeys(real.fixed, 16)
    rows = growth.measure(title, Axis(real.argument, sizes, real.methods, fixed), CPU, ONCE)
    assert [(row["method"], row["size"]) for row in rows] == [(m, size) for m in real.methods for size in sizes]
    assert all(row["ms"] > 0 for row in rows)
    if real.argument == "num_train":
        assert rows[1]["bytes"] - rows[0]["bytes"] == 100 * scale.bytes_per_training_sample(rows[0]["method"])


def test_an_impossible_size_is_a_row_with_its_error() -> None:
    rows = growth.measure("batch", Axis("train", (0, 16), ("adiw-kl",), {"val": 16}), CPU, ONCE)
    assert "error" in rows[0]
    assert rows[1]["ms"] > 0
