"""``adiw run``: its output and its files."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from adiw.cli.settings_options import with_data
from adiw.experiments.checked_io import read_lines
from adiw.experiments.settings import resolve
from tests.cli.conftest import Command
from tests.cli.images import write_images, write_module
from tests.experiments.tables import write_table
from tests.missing_packages import hide

RUN = ["run", "--method", "uniform", "--epochs", 2]


def test_a_run_prints_its_accuracy_and_its_folder(adiw: Command) -> None:
    output = adiw(*RUN)
    assert (output.code, output.err) == (0, "")
    result = json.loads(Path("runs/digits-uniform-0/result.json").read_text())
    assert output.out == (
        f"uniform on digits, symmetric:0.4: accuracy {result['accuracy']:.2f}% (test set, epoch "
        f"{result['best']['epoch']}: highest held-out accuracy of epochs 1 to 2, on 30 trusted samples; the "
        f"last epoch has {result['last']['accuracy']:.2f}%)\nfiles are in runs/digits-uniform-0\n"
    )
    assert result["settings"]["hold_out"] == 0.3
    output = adiw(*RUN, "--hold-out", 0, "--out", "r")
    result = json.loads(Path("r/result.json").read_text())
    assert output.out == (
        f"uniform on digits, symmetric:0.4: accuracy {result['accuracy']:.2f}% "
        "(mean of the last 2 of 2 epochs, test set)\nfiles are in r\n"
    )


def test_few_trusted_samples_are_all_used_and_that_is_said(adiw: Command) -> None:
    output = adiw(*RUN, "--trusted", 50, "--json", "--out", "r")
    assert output.err == (
        "adiw: the last epoch is kept, not the best: --hold-out 0.3 of 50 trusted samples are fewer than 20\n"
    )
    assert json.loads(output.out)["held_out"] == 0


@pytest.mark.parametrize(("rows", "epochs"), [(100, 200), (4000, 100), (80_000, 5)])
def test_a_table_is_trained_for_a_number_of_steps(adiw: Command, rows: int, epochs: int) -> None:
    """2,500 steps of 128 samples, but at least 5 and at most 200 epochs."""
    samples = 4 * rows // 5
    assert resolve({"dataset": "csv"}).train_epochs(samples) == epochs
    if rows > 100:
        return
    write_table(Path("t.csv"), rows=rows)
    table = ["run", "--dataset", "csv", "--path", "t.csv", "--trusted", 30, "--method", "uniform", "--hold-out", 0]
    assert json.loads(adiw(*table, "--json", "--out", "r").out)["epochs"] == epochs
    output = adiw(*table, "--json", "--out", "few", "--steps", 7, "--batch", 32)
    assert json.loads(output.out)["epochs"] == 4  # of two steps
    longer = adiw("run", "--resume", "--out", "few", "--steps", 9, "--json")
    assert json.loads(longer.out)["epochs"] == 5
    longer = adiw("run", "--resume", "--out", "few", "--epochs", 6, "--json")
    assert json.loads(longer.out)["epochs"] == 6
    assert "give only one of them" in adiw(*table, "--steps", 9, "--epochs", 3, "--out", "both").err


def test_an_old_folder_is_resumed_without_holding_out(adiw: Command) -> None:
    """Folders of earlier versions have no hold_out in their settings."""
    assert adiw(*RUN, "--out", "r", "--hold-out", 0).code == 0
    assert "hold_out" not in json.loads(Path("r/config.json").read_text())
    output = adiw("run", "--resume", "--out", "r", "--epochs", 3, "--hold-out", 0, "--json")
    assert "best" not in json.loads(output.out)
    refused = adiw("run", "--resume", "--out", "r", "--hold-out", 0.3)
    assert (refused.code, "(hold_out was 0.0, is 0.3)" in refused.err) == (2, True)


def test_as_json_the_output_is_one_object(adiw: Command) -> None:
    output = adiw(*RUN, "--json", "--out", "r")
    assert (output.code, output.err) == (0, "")
    assert json.loads(output.out) == json.loads(Path("r/result.json").read_text())
    assert output.out.count("\n") == 1


@pytest.mark.parametrize("option", [None, "--quiet", "--json"])
def test_a_bar_is_shown_on_a_terminal_unless_quiet(
    adiw: Command, monkeypatch: pytest.MonkeyPatch, option: str | None
) -> None:
    for variable in ("TTY_COMPATIBLE", "FORCE_COLOR"):  # rich takes any stream for a terminal, an older one too
        monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("COLUMNS", "200")
    output = adiw(*RUN, "--out", "r", *([] if option is None else [option]))
    assert output.code == 0
    if option is None:
        assert "2/2" in output.err
        assert "accuracy" in output.err
    else:
        assert output.err == ""


def test_every_option_reaches_the_settings(adiw: Command) -> None:
    options = {
        "shift": "pair:0.3",
        "method": "adiw-wa",
        "epochs": 1,
        "seed": 5,
        "trusted": 90,
        "selection": 100,
        "model": "mlp",
        "transform": "features",
        "width": 0.7,
        "step_size": 0.3,
        "penalty": 0.02,
        "critic": "network",
        "val_batch": 50,
        "val_refresh": 10,
        "val_every": 2,
        "cap": 4.0,
        "min_ess": 0.1,
        "optimizer": "adam",
        "lr": 0.01,
        "momentum": 0.5,
        "weight_decay": 0.001,
        "clip": 2.0,
        "decay_every": 7,
        "decay": 0.5,
        "batch": 64,
        "hold_out": 0.4,
        "fine_tune_epochs": 7,
    }
    flags = ["--exact", "--mean-one", "--channels-last", "--bf16", "--device", "cpu", "--workers", 1]
    given = [part for key, value in options.items() for part in (f"--{key.replace('_', '-')}", value)]
    assert adiw("run", "--out", "r", *given, *flags).code == 0
    config = json.loads(Path("r/config.json").read_text())
    on = dict.fromkeys(("exact", "mean_one", "channels_last", "bf16", "cautious"), True)  # the last by default
    others = {"dataset": "digits", "step": None, "solver": "gpu"}
    others |= dict.fromkeys(("path", "target", "trusted_file", "trusted_folder"))
    assert config == {**options, **on, **others}
    for method, option, value in (("adiw-km", "step", "local"), ("diw", "solver", "osqp")):
        assert adiw("run", "--out", method, "--epochs", 1, "--method", method, f"--{option}", value).code == 0
        assert json.loads(Path(method, "config.json").read_text())[option] == value


def test_a_run_is_resumed_with_the_settings_of_its_folder(adiw: Command) -> None:
    given = ["--method", "adiw-ls", "--width", 0.3, "--lr", 0.05, "--exact", "--trusted", 90]
    assert adiw("run", *given, "--epochs", 1, "--out", "r").code == 0
    assert adiw("run", "--resume", "--out", "r", "--epochs", 3).code == 0
    assert adiw("run", *given, "--epochs", 3, "--out", "whole").code == 0
    for name in ("config.json", "metrics.jsonl", "weights.npy"):
        assert Path("r", name).read_bytes() == Path("whole", name).read_bytes()
    again = adiw("run", "--resume", "--out", "r", "--json")
    assert json.loads(again.out)["epochs"] == 3


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--lr", 0.2, "--seed", 0], "(lr was 0.1, is 0.2)"),
        (["--dataset", "cifar10"], "(dataset was digits, is cifar10)"),
        (["--trusted-file", "t.txt"], "(trusted_file was None, is t.txt)"),
        (["--width", "auto", "--exact"], "(width was None, is auto; exact was False, is True)"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_other_settings_than_those_of_the_folder_are_refused_by_name(
    adiw: Command, given: list[object], named: str
) -> None:
    assert adiw(*RUN, "--out", "r").code == 0
    output = adiw("run", "--resume", "--out", "r", *given)
    assert output.code == 2
    assert named in output.err


def test_a_folder_with_a_setting_that_no_longer_exists_is_refused(adiw: Command) -> None:
    assert adiw(*RUN, "--out", "r").code == 0
    config = json.loads(Path("r/config.json").read_text())
    Path("r/config.json").write_text(json.dumps({**config, "temperature": 2.0}))
    Path("r/SHA256SUMS").unlink()
    output = adiw("run", "--resume", "--out", "r")
    assert (output.code, output.err.count("\n")) == (2, 1)
    assert output.err.startswith("adiw: r/config.json: unknown setting 'temperature'")


@pytest.mark.parametrize("flags", [["--lr", 1e6], ["--model", "nan_model:broken"]])
def test_a_dead_run_has_exit_code_three_and_keeps_its_files(adiw: Command, flags: list[object]) -> None:
    write_module(Path(), "nan_model")
    output = adiw("run", "--out", "r", "--epochs", 30, *flags)
    assert (output.code, output.out) == (3, "")
    assert output.err.count("\n") == 1
    assert output.err.startswith("adiw: the run is dead: epoch 1: ")
    assert output.err.endswith("of the losses are not finite; lower the learning rate (files are kept in r)\n")
    result = json.loads(Path("r/result.json").read_text())
    assert result["status"] == "dead"
    assert result["reason"] in output.err
    assert {"weights.npy", "metrics.jsonl", "checkpoint.pt"} <= {file.name for file in Path("r").iterdir()}
    again = adiw("run", "--out", "r", "--epochs", 30, *flags, "--resume")
    assert (again.code, again.err) == (3, output.err)


def events(folder: Path) -> dict[str, list[float]]:
    """The values of each curve that TensorBoard would show."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder)).Reload()
    return {tag: [event.value for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's own dependencies
@pytest.mark.parametrize("ends", ["done", "dead"])
def test_tensorboard_files_have_the_metrics_also_of_a_failed_run(
    adiw: Command, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    board = pytest.importorskip("torch.utils.tensorboard", reason="needs the extra adiw[tensorboard]")
    closed, close = [], board.SummaryWriter.close
    monkeypatch.setattr(board.SummaryWriter, "close", lambda self: (closed.append(self), close(self)))
    output = adiw(*RUN, "--out", "r", "--tracker", "tensorboard", *(["--lr", 1e6] if ends == "dead" else []))
    assert output.code == (3 if ends == "dead" else 0)
    rows = read_lines(Path("r/metrics.jsonl"))
    assert len(closed) == 1  # closing flushes the last rows
    curves = events(Path("r/tensorboard"))
    assert set(curves) == set(rows[0]) - {"epoch"}
    for key, values in curves.items():
        np.testing.assert_allclose(values, np.array([row[key] for row in rows], float), rtol=1e-6)  # None is NaN


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard's own dependencies
def test_two_trackers_together_and_one_named_twice(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch.utils.tensorboard", reason="needs the extra adiw[tensorboard]")
    if find_spec("mlflow") is None:
        pytest.skip("needs the extra adiw[mlflow]")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    twice = ["--tracker", "mlflow", "--tracker", "tensorboard", "--tracker", "mlflow"]
    assert adiw(*RUN, "--out", "r", *twice).code == 0
    assert len(events(Path("r/tensorboard"))["accuracy"]) == 2
    (accuracy,) = Path("r/mlflow").glob("*/*/metrics/accuracy")
    assert [int(line.split()[2]) for line in accuracy.read_text().splitlines()] == [1, 2]
    (method,) = Path("r/mlflow").glob("*/*/params/method")
    assert method.read_text() == "uniform"


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow-skinny")])
def test_a_tracker_that_is_not_installed_is_named_before_anything_is_done(
    adiw: Command, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    hide(monkeypatch, package)
    output = adiw(*RUN, "--out", "r", "--tracker", name)
    assert (output.code, output.err) == (2, f'adiw: {package} is not installed: pip install "adiw[{name}]"\n')
    assert not Path("r").exists()


def test_an_unknown_tracker(adiw: Command) -> None:
    output = adiw(*RUN, "--out", "r", "--tracker", "wandb")
    assert (output.code, output.err) == (2, "adiw: unknown tracker 'wandb': expected tensorboard or mlflow\n")
    assert not Path("r").exists()


@pytest.mark.parametrize("transform", ["loss", "features"])
def test_a_users_table(adiw: Command, transform: str) -> None:
    write_table(Path("flowers.csv"), rows=300)
    output = adiw(
        *("run", "--dataset", "csv", "--path", "flowers.csv", "--target", "kind", "--out", "r", "--json"),
        *("--method", "adiw-kl", "--transform", transform, "--trusted", 60, "--epochs", 15, "--batch", 32),
        *("--shift", "symmetric:0.4"),
    )
    assert output.code == 0
    result = json.loads(output.out)
    last = json.loads(Path("r/metrics.jsonl").read_text().splitlines()[-1])
    assert last["accuracy"] > 90  # the classes are far apart
    assert last["weight_intact"] > last["weight_mislabelled"]
    assert (result["settings"]["transform"], result["settings"]["target"]) == (transform, "kind")
    assert np.load("r/weights.npy").shape == (240,)
    assert result["judged_on"] == "test rows, with the table's labels"


def test_a_users_table_and_trusted_samples(adiw: Command) -> None:
    write_table(Path("data/train.csv"), rows=60)
    write_table(Path("data/test.csv"), rows=30, seed=1)
    Path("trusted.txt").write_text("\n".join(map(str, range(0, 60, 2))))
    output = adiw(
        *("run", "--dataset", "csv", "--path", "data", "--shift", "none", "--trusted-file", "trusted.txt"),
        *("--epochs", 2, "--out", "r", "--hold-out", 0),
    )
    assert (output.code, output.err) == (0, "")
    assert "weight_mislabelled" not in Path("r/metrics.jsonl").read_text()  # the truth is unknown


# PyTorch starts its workers by fork, and warns on a machine with a single core.
@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning", "ignore:This DataLoader will create:UserWarning"
)
def test_a_users_images_and_network_with_and_without_workers(adiw: Command) -> None:
    write_images(Path("img"))
    write_module(Path(), "my_network")
    for workers in (0, 2):
        output = adiw(
            *("run", "--dataset", "imagefolder", "--path", "img", "--model", "my_network:pooled", "--method"),
            *("adiw-kl", "--trusted", 20, "--batch", 16, "--epochs", 3, "--lr", 0.05, "--workers", workers),
            *("--transform", "features", "--out", f"r{workers}", "--hold-out", 0),
        )
        assert output.code == 0
        assert len(output.err.splitlines()) == 1  # that the images are small
    assert np.load("r0/weights.npy").shape == (60,)
    assert json.loads(Path("r0/metrics.jsonl").read_text().splitlines()[-1])["accuracy"] > 60
    for name in ("metrics.jsonl", "labels.npy", "weights.npy"):  # the number of workers has no effect
        assert Path("r2", name).read_bytes() == Path("r0", name).read_bytes()


def test_fashion_mnist(adiw: Command, fashion_root: Path) -> None:
    output = adiw(
        *("run", "--dataset", "fashion-mnist", "--data-root", fashion_root, "--method", "val-only", "--epochs", 6),
        *("--selection", 1000, "--trusted", 1000, "--optimizer", "adam", "--lr", 0.003, "--batch", 50),
        *("--out", "r", "--json"),
    )
    assert (output.code, output.err) == (0, "")
    result = json.loads(output.out)
    assert result["judged_on"] == "selection split"
    last = json.loads(Path("r/metrics.jsonl").read_text().splitlines()[-1])
    assert last["accuracy"] > 50  # five times chance
    assert np.load("r/weights.npy").shape == (59_000,)
    assert np.load("r/weights.npy").sum() == 1000


def test_compare_prints_one_table_and_the_verdict_last(adiw: Command) -> None:
    given = ["run", "--epochs", 3, "--fine-tune-epochs", 1, "--compare", "--out", "r"]
    output = adiw(*given)
    assert (output.code, output.err) == (0, "")
    result = json.loads(Path("r/result.json").read_text())
    lines = output.out.splitlines()
    assert lines[-1] == result["verdict"]["sentence"]
    heads = [
        line.split()[0] for line in lines if line and line.split()[0] in ("adiw", "uniform", "fine-tune", "val-only")
    ]
    assert heads[1:] == ["adiw", "uniform", "fine-tune", "val-only"]
    assert "uniform: every weight is one;" in output.out
    again = adiw("run", "--resume", "--out", "r", "--json")  # what was compared stays compared
    assert json.loads(again.out)["verdict"] == result["verdict"]


def test_a_comparison_that_cannot_tell_says_how_to_use_more_samples(adiw: Command) -> None:
    given = ["run", "--epochs", 2, "--fine-tune-epochs", 1, "--compare", "--method", "uniform", "--shift", "none"]
    output = adiw(*given, "--trusted", 100, "--out", "r")
    (note,) = [line for line in output.out.splitlines() if "--folds" in line]
    assert note == "--resume --compare --folds 5 compares on all trusted samples: 5 trainings of each method."
    output = adiw("run", "--resume", "--compare", "--folds", 2, "--out", "r")
    assert output.code == 0
    assert "Means of 2 trainings" in output.out
    assert "--folds" not in output.out


def test_without_held_out_samples_nothing_is_compared_and_the_run_is_kept(adiw: Command) -> None:
    given = ["run", "--epochs", 1, "--fine-tune-epochs", 1, "--trusted", 40, "--compare", "--out", "r"]
    output = adiw(*given)
    assert output.code == 2
    assert "adiw: nothing is compared, as too few trusted samples are held out: --resume --compare" in output.err
    assert Path("r/result.json").exists()
    assert not Path("r/compare").exists()
    output = adiw("run", "--resume", "--compare", "--folds", 2, "--out", "r")
    assert output.code == 0
    assert len(json.loads(Path("r/result.json").read_text())["verdict"]["comparison"]) == 3


def test_a_line_that_holds_for_all_compared_runs_is_printed_once(adiw: Command) -> None:
    write_images(Path("photos"), train=12, val=2)
    write_images(Path("checked"), train=24)
    write_module(Path(), "nets_of_compared")
    given = ["photos", "--trusted-folder", "checked/train", "--model", "nets_of_compared:pooled", "--workers", 0]
    output = adiw("run", *given, "--batch", 8, "--epochs", 1, "--fine-tune-epochs", 1, "--compare", "--out", "r")
    assert Path("r/compare/mixed/result.json").exists()
    assert output.err.count("images of 20 pixels are enlarged to 224") == 1


def test_a_dead_run_is_compared_too(adiw: Command) -> None:
    output = adiw(*RUN[:3], "--epochs", 2, "--fine-tune-epochs", 1, "--lr", 1e9, "--compare", "--out", "r")
    assert output.code == 3
    assert "the run is dead" in output.err
    assert Path("r/compare/fine-tune/result.json").exists()
    assert "left out of the figures on the test set: 1 of uniform, 1 of fine-tune" in output.out


def test_a_named_column_is_printed_by_group(adiw: Command) -> None:
    Path("tables").mkdir()
    for name, count in (("train", 120), ("test", 40)):
        lines = [f"{k % 7},{'ant' if k % 3 else 'bee'},{'yes' if k % 7 > 3 else 'no'}" for k in range(count)]
        Path(f"tables/{name}.csv").write_text("\n".join(["size,kind,label", *lines]) + "\n")
    given = ["--path", "tables", "--target", "label", "--trusted", 40, "--group", "kind", "--steps", 10]
    output = adiw("run", "--dataset", "csv", *given, "--hold-out", 0, "--out", "r")
    assert output.code == 0
    groups = json.loads(Path("r/result.json").read_text())["groups"]["groups"]
    lines = [line.split() for line in output.out.splitlines()]
    assert ["ant", str(groups[0]["n"]), f"{groups[0]['accuracy']:.2f}"] in [line[:3] for line in lines]
    assert ["bee", str(groups[1]["n"]), f"{groups[1]['accuracy']:.2f}"] in [line[:3] for line in lines]


def test_of_many_groups_the_largest_are_printed(adiw: Command) -> None:
    Path("tables").mkdir()
    for name, count in (("train", 120), ("test", 40)):
        lines = [f"{k % 7},g{min(k, 99)},{'yes' if k % 7 > 3 else 'no'}" for k in range(count)]
        Path(f"tables/{name}.csv").write_text("\n".join(["size,kind,label", *lines]) + "\n")
    given = ["--target", "label", "--trusted", 40, "--group", "kind", "--steps", 10, "--out", "r"]
    output = adiw("run", "tables", *given)
    lines = [line.split()[:2] for line in output.out.splitlines() if line.startswith("g")]
    assert len(lines) == 30
    assert lines[0] == ["g99", "21"]
    assert "The largest 30 of 100 groups; result.json has all." in output.out


def test_the_data_are_an_argument_as_well(adiw: Command) -> None:
    """It says what --dataset and --path say, which may not be given as well."""
    write_table(Path("tables/train.csv"))
    write_table(Path("tables/test.csv"), seed=1)
    table = ["--trusted", 30, "--method", "uniform", "--epochs", 1]
    for data in ("tables", "tables/train.csv"):
        old = ["--dataset", "csv", "--path", data]
        for folder, given in (("argument", [data]), ("options", old)):
            assert adiw("run", *given, *table, "--out", f"{folder}/{data}").code == 0
        settings = [Path(folder, data, "config.json").read_text() for folder in ("argument", "options")]
        assert settings[0] == settings[1]
        both = adiw("run", data, *old, *table)
        assert (both.code, both.err) == (
            2,
            f"adiw: {data} and --dataset and --path both name the data: give only one of them\n",
        )
    write_images(Path("photos"))
    assert with_data({"seed": 1}, "photos") == {"dataset": "imagefolder", "path": "photos", "seed": 1}
    assert with_data({"dataset": "digits"}, None) == {"dataset": "digits"}


def test_two_tables_have_two_folders(adiw: Command) -> None:
    for name in ("birds", "fish"):
        write_table(Path(f"my/{name}.csv"))
        output = adiw("run", f"my/{name}.csv", "--trusted", 30, "--method", "uniform", "--epochs", 1)
        assert output.out.startswith(f"uniform on {name}: accuracy ")
        assert output.out.endswith(f"files are in runs/{name}-uniform-0\n")
