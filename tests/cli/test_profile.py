"""``adiw profile``: a training step with uniform weights and with a method, in one table."""

from __future__ import annotations

import json

import pytest

from adiw.experiments.run import Engine
from adiw.experiments.settings import Settings, resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.step_time import TimedJob, compare
from tests.cli.conftest import Command

QUICK = ("--steps", 2, "--rounds", 2, "--workers", 0, "--device", "cpu")


def test_it_prints_time_ratio_and_memory(adiw: Command) -> None:
    output = adiw("profile", *QUICK)
    assert output.code == 0
    title, _, head, _, *lines = output.out.splitlines()
    assert title == "A training step on digits, mlp, batches of 128"
    assert head.split("  ")[0] == "weights"
    rows = [line.split() for line in lines[:2]]
    assert [row[0] for row in rows] == ["uniform", "adiw-kl"]
    assert rows[0][2] == "1.00"
    assert all(float(figure) > 0 for row in rows for figure in row[1:4])
    assert [row[4] for row in rows] == ["-", "-"]
    assert lines[-1] == "Peak memory is measured on a GPU only."


def test_json_has_the_figures_of_the_given_method(adiw: Command) -> None:
    output = adiw("profile", *QUICK, "--method", "l2r", "--batch", 64, "--json")
    assert output.code == 0
    uniform, method = json.loads(output.out)
    assert (uniform["method"], uniform["ratio"], method["method"]) == ("uniform", 1.0, "l2r")
    assert all(time["milliseconds"] > 0 and time["state_bytes"] > 0 for time in (uniform, method))
    assert uniform["peak_bytes"] is method["peak_bytes"] is None


def test_options_are_settings_of_both_runs(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Settings] = []
    before = Engine.start

    def start(self: Engine, settings: Settings, *more: object) -> object:
        seen.append(settings)
        return before(self, settings, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Engine, "start", start)
    options = ("--method", "adiw-ls", "--shift", "pair:0.2", "--batch", 64, "--val-batch", 50, "--val-every", 2)
    options += ("--width", "0.5")
    assert adiw("profile", *QUICK, *options).code == 0
    assert [settings.method for settings in seen] == ["uniform", "adiw-ls"]
    for settings in seen:
        assert (settings.shift, settings.batch, settings.val_batch, settings.val_every) == ("pair:0.2", 64, 50, 2)
        assert settings.width == 0.5


def test_the_steps_are_those_of_a_training_run() -> None:
    """More steps than an epoch has: the next epoch begins, and every step trains."""
    settings = resolve({"dataset": "digits", "method": "adiw-kl"})
    timed = TimedJob(settings, load_splits(settings), Engine(workers=0))
    before = int(timed.job.reweight.weight_state.seen_steps)
    assert timed.seconds(23) > 0
    assert int(timed.job.reweight.weight_state.seen_steps) == before + 23


def test_the_ratio_is_that_of_the_same_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that becomes ten times slower between the rounds does not change it."""
    times = {"uniform": iter([1.0, 10.0, 100.0]), "adiw-kl": iter([2.0, 20.0, 200.0])}

    def seconds(self: TimedJob, steps: int) -> float:
        return next(times[self.job.settings.method]) if steps == 8 else 0.0

    monkeypatch.setattr(TimedJob, "seconds", seconds)
    uniform, method = compare(resolve({"dataset": "digits"}), None, Engine(workers=0), steps=7, rounds=3)
    assert (uniform.milliseconds, method.milliseconds) == (10_000.0, 20_000.0)
    assert (uniform.ratio, method.ratio) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "adiw"], "unknown method 'adiw': expected one of "),
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--rounds", "0"], "--rounds must be at least 1, got 0"),
        (["--workers", "-1"], "--workers must be at least 0, got -1"),
        (["--dataset", "mnist"], "unknown dataset 'mnist': expected one of "),
        (["--dataset", "imagefolder", "--trusted", "3"], "imagefolder needs a path"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--width", "wide"], "width must be a number, auto or quantile, got 'wide'"),
    ],
)
def test_errors_are_one_line(adiw: Command, arguments: list[str], message: str) -> None:
    output = adiw("profile", *QUICK, *arguments)
    assert (output.code, output.out) == (2, "")
    assert output.err.startswith("adiw: ")
    assert output.err.count("\n") == 1
    assert message in output.err
