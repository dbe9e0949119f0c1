"""``adiw sweep``: tables and figures from a recipe, in parts, resumed, and with dead or failed runs."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adiw.cli import sweep
from adiw.cli import sweep as sweep_module
from adiw.cli.sweep import Where
from adiw.reports import figures
from adiw.reports.grid import NONE
from tests.cli.conftest import Command
from tests.experiments.small_sweeps import DEAD, FAILED, write_recipe

OUT = Path("runs/mine")
WRITE_FIGURES = figures.write_figures
SMALL = ("--processes", 1, "--method", "Uniform", "--method", "adiw-kl", "--shift", "much", "--trials", 1)


@pytest.fixture(autouse=True)
def recipe(own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe, and no figures: to draw them takes seconds."""
    write_recipe(Path(), DEAD + FAILED)
    monkeypatch.setattr(figures, "write_figures", lambda results, folder: None)


def records(name: str = "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (OUT / name).read_text().splitlines()]


def table(text: str) -> dict[str, str]:
    """The rows of the text table, by their first word."""
    body = text.split("---\n")[1].split("\n\n")[0]
    return {line.split()[0]: line for line in body.splitlines()}


def test_a_part_of_a_recipe_becomes_tables_and_figures(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "write_figures", WRITE_FIGURES)
    output = adiw("sweep", "mine.toml", *SMALL)
    assert output.code == 0
    assert output.out.startswith("Digits: accuracy (%)\n")
    assert output.out.endswith(f"files are in {OUT}\n")
    rows = table(output.out)
    assert list(rows) == ["Uniform", "KL", "Val-Only", "Dies", "Fails"]
    assert "1 of 2 trials, 1 missing" in rows["KL"]
    assert "88.73 (0.66)" in rows["KL"]
    assert rows["Dies"].split()[1:] == [NONE] * 6
    done = [line for line in output.err.splitlines() if ": done, accuracy " in line]
    assert [line.partition(";")[2] for line in done] == [" 1 done, 1 left", " 2 done"]
    assert output.err.splitlines()[-1] == "adiw: 2 done"
    written = {file.name for file in (OUT / "tables").iterdir()}
    assert written == {f"{name}.{ending}" for name in ("accuracy", "time") for ending in ("txt", "md", "tex", "csv")}
    assert (OUT / "tables" / "accuracy.txt").read_text() == output.out.partition(f"\nfiles are in {OUT}")[0]
    with (OUT / "tables" / "accuracy.csv").open() as lines:
        found = {(line["row"], line["column"]): line for line in csv.DictReader(lines)}
    (kl,) = (record for record in records() if record["row"] == "KL")
    assert float(found["KL", "much"]["ours"]) == pytest.approx(kl["accuracy"], abs=0.006)
    assert {file.name for file in (OUT / "figures").iterdir()} >= {"accuracy-much.pdf", "time.png"}


def test_the_same_command_resumes_and_nothing_runs_twice(adiw: Command) -> None:
    adiw("sweep", "mine.toml", *SMALL)
    output = adiw("sweep", "mine.toml", *SMALL[:-1], 2)
    assert output.code == 0
    assert [(record["trial"], record["side_by_side"]) for record in records()] == [(0, 1), (0, 1), (1, 1), (1, 1)]
    assert output.err.splitlines()[-1] == "adiw: 4 done"
    third = adiw("sweep", "mine.toml", *SMALL[:-1], 2)
    assert (third.out, third.err) == (output.out, "adiw: 4 done\n")


def test_without_options_the_runs_share_the_cores(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[int, float | None]] = []

    @contextmanager
    def here(processes: int, gpus_per_run: float | None) -> Iterator[None]:
        started.append((processes, gpus_per_run))
        yield

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(sweep, "LocalExecutor", here)
    output = adiw("sweep", "mine.toml", *SMALL[2:], "--device", "cpu")
    assert (output.code, output.err.splitlines()[-1]) == (0, "adiw: 2 done")
    assert [record["side_by_side"] for record in records()] == [2, 2]
    assert started == [(2, None)]


@pytest.mark.parametrize("option", [("--side-by-side", 4), ("--gpus-per-run", 0.25)])
def test_runs_share_a_gpu_in_a_process_each(
    adiw: Command, monkeypatch: pytest.MonkeyPatch, option: tuple[object, ...]
) -> None:
    opened: list[Where] = []

    @contextmanager
    def here(where: Where, *_: object) -> Iterator[None]:
        opened.append(where)
        yield

    monkeypatch.setattr(Where, "open", here)
    assert adiw("sweep", "mine.toml", *SMALL[2:], *option).code == 0
    assert opened == [Where("local", None, 0.25, 3)]


def test_the_records_have_a_digest_when_all_runs_have_ended(adiw: Command) -> None:
    adiw("sweep", "mine.toml", *SMALL)
    file = OUT / "results.jsonl"
    whole = file.read_text()
    file.write_text(whole.replace('"trial": 0', '"trial": 1', 1))  # still valid JSON
    for command in (["sweep", "mine.toml", *SMALL], ["report", OUT]):
        output = adiw(*command)
        assert output.code == 2
        assert output.err.startswith(f"adiw: {file} is damaged (its digest is not the one in SHA256SUMS")
    file.write_text(whole)
    assert adiw("sweep", "mine.toml", *SMALL[:-1], 2).code == 0
    assert len(records()) == 4


def test_dead_and_failed_runs_are_printed_and_in_the_table(adiw: Command) -> None:
    some = (
        "--processes",
        1,
        "--method",
        "Dies",
        "--method",
        "Fails",
        "--method",
        "Uniform",
        "--shift",
        "little",
        "--trials",
        1,
    )
    output = adiw("sweep", "mine.toml", *some)
    assert output.code == 3
    assert "adiw: Dies, little, trial 0: dead (epoch 1: " in output.err
    assert "adiw: Fails, little, trial 0: failed (" in output.err
    assert "missing_networks'; run in its directory or install it); 1 done, 1 dead, 1 failed\n" in output.err
    assert output.err.splitlines()[-1] == "adiw: 1 done, 1 dead, 1 failed"
    rows = table(output.out)
    assert "0 of 2 trials, 1 dead, 1 missing" in rows["Dies"]
    assert "0 of 2 trials, 1 failed, 1 missing" in rows["Fails"]
    assert "missing_networks" in output.out  # the reason
    again = adiw("sweep", "mine.toml", *some)
    assert (again.code, again.out) == (3, output.out)
    assert "Dies" not in again.err
    assert [record["row"] for record in records()] == ["Uniform", "Dies", "Fails", "Fails"]


def test_tables_only_runs_nothing(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    first = adiw("sweep", "mine.toml", *SMALL)
    (OUT / "tables" / "accuracy.md").unlink()
    monkeypatch.setattr(sweep_module, "Sweep", None)
    output = adiw("sweep", "mine.toml", "--tables-only")
    assert (output.code, output.out, output.err) == (0, first.out, "")
    assert (OUT / "tables" / "accuracy.md").exists()
    assert adiw("sweep", "mine.toml", "--tables-only", "--time").out.startswith("Digits: seconds per epoch\n")


def test_time_records_every_cell_once_and_prints_the_time_table(adiw: Command) -> None:
    cells = ("--method", "Uniform", "--method", "KL", "--method", "Dies", "--shift", "much")
    output = adiw("sweep", "mine.toml", *cells, "--time")
    assert output.code == 3
    assert output.out.startswith("Digits: seconds per epoch\n")
    assert "adiw: Dies, much: not timed (DeadRunError: epoch 1: " in output.err
    times = {line["row"]: line["seconds_per_epoch"] for line in records("timing.jsonl")}
    assert list(times) == ["Uniform", "KL"]
    assert f"{times['KL']:.3f}   1.00" in table(output.out)["KL"]  # ours, the paper's
    assert adiw("sweep", "mine.toml", *SMALL, "--time").code == 0
    assert len(records("timing.jsonl")) == 2
    assert not (OUT / "results.jsonl").exists()


def test_settings_of_the_command_are_recorded_and_in_the_notes(adiw: Command) -> None:
    output = adiw("sweep", "mine.toml", *SMALL, "--epochs", 1, "--selection", 100, "--out", "there")
    assert output.code == 0
    lines = [json.loads(line) for line in Path("there/results.jsonl").read_text().splitlines()]
    assert {(line["epochs"], line["settings"]["selection"], line["judged_on"]) for line in lines} == {
        (1, 100, "selection split")
    }
    assert "Set on the command line: epochs = 1, selection = 100." in output.out
    assert "1 epochs" in table(output.out)["Uniform"]
    output = adiw("sweep", "mine.toml", *SMALL, "--out", "there")
    assert (output.code, output.out) == (2, "")
    assert "epochs of the command was 1, is None; selection of the command was 100, is None" in output.err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ModuleNotFoundError("No module named 'matplotlib'"), 'figures need matplotlib: pip install "adiw[cli]"'),
        (ZeroDivisionError("no room"), "figures could not be drawn (ZeroDivisionError: no room)"),
    ],
)
def test_an_error_in_the_figures_is_only_reported(
    adiw: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def fails(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(figures, "write_figures", fails)
    output = adiw("sweep", "mine.toml", "--method", "Val-Only", "--shift", "much", "--trials", 1)
    assert output.code == 0
    assert output.err.endswith(f"adiw: {message}\n")
    assert output.out.endswith(f"files are in {OUT}\n")
    assert (OUT / "tables" / "time.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fmnist"], "unknown recipe 'fmnist': expected one of fmnist-"),
        (["other.toml"], "other.toml: "),
        (["fmnist-noise", "--out", "runs/mine"], "run `adiw data get fashion-mnist`, or put them there"),
        (["imagenet-noise", "--out", "runs/mine"], "imagefolder needs a path"),
        (["mine.toml", "--method", "KM"], "unknown method 'KM': expected one of KL, "),
        (["mine.toml", "--shift", "none"], "unknown shift 'none': expected one of "),
        (["mine.toml", "--trials", 0], "Invalid value for '--trials': "),
        (["mine.toml", "--processes", 0], "Invalid value for '--processes': "),
        (["mine.toml", "--side-by-side", 0], "Invalid value for '--side-by-side': "),
        (["mine.toml", "--executor", "cloud"], "unknown executor 'cloud': expected one of local, ray"),
        (["mine.toml", "--executor", "ray", "--processes", 2], "--processes is for --executor local: "),
        (["mine.toml", "--side-by-side", 2, "--gpus-per-run", 0.5], "say the same: give only one of them"),
        (["mine.toml", "--gpus-per-run", 1.5], "--gpus-per-run must be above 0 and at most 1, got 1.5"),
        (["mine.toml", "--retries", -1], "Invalid value for '--retries': "),
        (["mine.toml", "--time-limit", "2"], "--time-limit must be a duration such as 25m, 90s or 1h30m, got '2'"),
        (["mine.toml", "--workers", -1], "Invalid value for '--workers': "),
        (["mine.toml", "--epochs", 0], "epochs must be at least 1, got 0"),
        (["mine.toml", "--device", "tpu"], "unknown device 'tpu'"),
        (["mine.toml", "--tables-only"], "no sweep found in runs/mine"),
    ],
)
def test_errors_are_one_line(adiw: Command, arguments: list[object], message: str) -> None:
    output = adiw("sweep", *arguments)
    assert (output.code, output.out) == (2, "")
    assert output.err.startswith("adiw: ")
    assert output.err.count("\n") == 1
    assert message in output.err
    assert not OUT.exists()


def test_a_folder_of_another_recipe_is_refused(adiw: Command) -> None:
    write_recipe(Path(), name="other")
    adiw("sweep", "mine.toml", "--method", "Val-Only", "--shift", "much", "--trials", 1)
    output = adiw("sweep", "other.toml", "--out", OUT)
    assert (output.code, output.out) == (2, "")
    assert output.err == "adiw: runs/mine holds the sweep mine: choose another folder with --out\n"
