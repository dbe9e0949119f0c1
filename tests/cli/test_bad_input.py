"""Bad input: exit code 2 and one line with the fix, never a traceback."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from adiw.engine import checkpoint
from tests.cli.conftest import Command, Output
from tests.cli.images import write_images, write_module
from tests.data.files import write_fashion
from tests.experiments.tables import write_table


def refused(output: Output) -> str:
    """The one line of an error."""
    assert output.code == 2, output
    assert output.out == ""
    assert output.err.count("\n") == 1, output.err
    assert output.err.startswith("adiw: ")
    assert "Traceback" not in output.err
    return output.err[len("adiw: ") : -1]


CSV = ["--dataset", "csv", "--path", "t.csv"]
TABLES = ["--dataset", "csv", "--path", "tables"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # names, the nearest first
        (["--method", "adiw-k"], "unknown method 'adiw-k': expected one of adiw-k"),
        (["--method", "two-step-klip"], "unknown method 'two-step-klip': expected one of two-step-kliep, "),
        (["--dataset", "cifar-10"], "unknown dataset 'cifar-10': expected one of cifar10, "),
        (["--shift", "symetric:0.4"], "shift 'symetric': expected one of symmetric, "),
        (["--shift", "symmetric"], "shift 'symmetric': expected 1 parameters, got 0; write symmetric:RATE"),
        (["--shift", "symmetric:much"], "shift 'symmetric:much': expected a number, got 'much'"),
        (["--model", "mpl"], "model 'mpl': expected one of mlp, "),
        (["--model", "nowhere:net"], "model 'nowhere:net': found no module 'nowhere'; run in its directory"),
        (["--model", "lenet5"], "lenet5: expected (channels, height, width), got (64,); use mlp"),
        (["--transform", "feature"], "unknown transform 'feature': expected one of features, loss"),
        (["--optimizer", "adamw"], "unknown optimizer 'adamw': expected one of adam, sgd"),
        (["--solver", "cvxop"], "unknown solver 'cvxop': expected one of cvxopt, "),
        (["--device", "gpu"], "unknown device 'gpu': expected cpu, cuda, or cuda:1"),
        (["--device", "cuda:x"], "unknown device 'cuda:x': expected cpu, cuda, or cuda:1"),
        (["--device", "meta"], "unknown device 'meta': expected cpu, cuda, or cuda:1"),
        # numbers
        (["--method", "adiw-kl", "--width", "wide"], 'KL: width must be a positive number or "auto", got '),
        (["--method", "adiw-kl", "--width", "-1"], 'KL: width must be a positive number or "auto", got -1.0'),
        (["--method", "adiw-kl", "--width", "nan"], 'KL: width must be a positive number or "auto", got nan'),
        (
            ["--method", "adiw-kl", "--width", "quantile"],
            "KL: width must be a positive number or \"auto\", got 'quantile'",
        ),
        (["--width", "auto", "--method", "diw"], 'width must be a positive number (sigma) or "quantile", got'),
        (["--method", "adiw-kl", "--step-size", "0"], "KL: step_size must be a positive number, got 0.0"),
        (["--epochs", "-1"], "epochs must be at least 1, got -1"),
        (["--batch", "0"], "batch must be at least 1, got 0"),
        (["--lr", "0"], "lr must be a positive number, got 0.0"),
        (["--momentum", "-1"], "momentum must be a number of at least 0, got -1.0"),
        (["--seed", "-1"], "seed must be from 0 to "),
        (["--workers", "-1"], "Invalid value for '--workers': "),
        (["--cap", "0.5"], "cap must be None or at least 1, the mean weight, got 0.5"),
        (["--min-ess", "2"], "min_ess is a fraction of the batch and must be from 0 to 1, got 2.0"),
        (["--selection", "1297"], "selection holds out 1297 of 1297 training samples: hold out fewer"),
        # trusted samples
        (["--trusted", "5000"], "trusted: expected 0 to 1297 (the size of the training set), got 5000"),
        (["--trusted", "3"], "trusted: expected every one of 10 classes, missing "),
        (
            ["--trusted-file", "few.txt"],
            "--trusted-file names samples of the training set as loaded: set --shift none",
        ),
        (
            ["--trusted-file", "few.txt", "--trusted", "3"],
            "trusted and trusted_file both select the trusted samples",
        ),
        ([*TABLES, "--shift", "none", "--trusted-file", "gone.txt"], "expected a file, found none at gone.txt"),
        ([*TABLES, "--shift", "none", "--trusted-file", "few.txt"], "expected every one of 3 classes, missing "),
        (
            [*TABLES, "--shift", "none", "--trusted-file", "words.txt"],
            "words.txt: expected one integer per line, or an array of numpy.save (invalid literal",
        ),
        (
            [*TABLES, "--shift", "none", "--trusted-file", "far.txt"],
            "trusted: expected positions in 0 to 89, got 999",
        ),
        ([*CSV, "--trusted", "500"], "trusted: expected 0 to 72 (the size of the training set), got 500"),
        (["--shift", "none", "--method", "oracle", "--trusted", "99"], "oracle needs the true weights"),
        # data
        (["--dataset", "fashion-mnist"], "run `adiw data get fashion-mnist`, or put them there"),
        (["--dataset", "cifar10"], "run `adiw data get cifar10`, or put them there"),
        (["--dataset", "csv"], "csv needs a path: a table (.csv, .csv.gz, .parquet), or a folder with train.csv"),
        (["--dataset", "imagefolder"], "imagefolder needs a path: a folder that holds train/ and val/"),
        (["--dataset", "csv", "--path", "gone.csv"], "csv: gone.csv does not exist; expected a table (.csv"),
        (["--dataset", "imagefolder", "--path", "gone"], "imagefolder: gone does not exist; expected a folder"),
        (["--path", "t.csv"], "digits does not take path"),
        ([*CSV, "--target", "sort"], "t.csv: no column 'sort' for target; the columns are number, a, b, kind"),
        # folders
        (["--out", "t.csv/run"], "cannot write to the folder t.csv/run (Not a directory): choose another"),
        (["--out", "t.csv"], "cannot write to the folder t.csv (File exists): choose another"),
        (["--resume"], "runs/digits-adiw-0 holds no run to resume: omit --resume to start one"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)
def test_a_run_is_refused_in_one_line(adiw: Command, arguments: list[str], message: str) -> None:
    for file in ("t.csv", "tables/train.csv", "tables/test.csv"):
        write_table(Path(file))
    Path("few.txt").write_text("0\n")
    Path("words.txt").write_text("0\na\n")
    Path("far.txt").write_text("0\n999\n")
    assert message in refused(adiw("run", *arguments))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, which --device cuda would find")
def test_a_gpu_that_does_not_exist(adiw: Command) -> None:
    assert refused(adiw("run", "--device", "cuda")) == "device cuda: PyTorch finds 0 GPUs; use --device cpu"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,kind\n1,x\n2,y\ninf,x\n4,y\n", "t.csv, column 'a', row 2 (counted from 0 below the column names): "),
        ("a,kind\n1,x\n2,y\n3,\n4,y\n", "expected a label, found a missing value; correct the value, or remove"),
        ("a,kind\n1,0.5\n2,1.5\n3,2.5\n", "expected class labels that repeat, found 3 different values in 3 rows"),
        ("a,kind\n1,x\n2,x\n3,x\n", "column 'kind': expected at least two classes, found only 'x'"),
        ("a,kind\n1,x\n2,y,9\n", "t.csv, line 3: expected 2 values as in the first line, found 3"),
        ("1,2\n3,4\n", "expected column names in the first line, found numbers"),
        ("", "expected at least two columns"),
    ],
    ids=["infinite", "no-label", "regression", "one-class", "ragged", "no-header", "empty"],
)
def test_a_table_that_cannot_be_read(adiw: Command, content: str, message: str) -> None:
    Path("t.csv").write_text(content)
    assert message in refused(adiw("run", *CSV))


def test_a_test_label_without_training_rows(adiw: Command) -> None:
    write_table(Path("t.csv/train.csv"), rows=60)
    write_table(Path("t.csv/test.csv"), rows=30, classes=("ant", "bee", "dog"))
    assert "found classes that the training file does not have: dog" in refused(adiw("run", *CSV))


def test_fashion_mnist_that_is_not_as_published(adiw: Command) -> None:
    write_fashion(Path("root"))
    output = adiw("run", "--dataset", "fashion-mnist", "--data-root", "root")
    assert "the file is damaged or not the official one; download it again" in refused(output)


IMAGES = ["--dataset", "imagefolder", "--path", "img"]


def test_images_of_one_class(adiw: Command) -> None:
    write_images(Path("img"), classes=("ant",))
    assert "img/train: expected at least two class folders, found ['ant']" in refused(adiw("run", *IMAGES))


# PyTorch starts its workers by fork, and warns on a machine with a single core.
@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning", "ignore:This DataLoader will create:UserWarning"
)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_is_named_with_and_without_workers(adiw: Command, workers: int) -> None:
    write_images(Path("img"), train=10)
    write_module(Path(), f"damaged_{workers}")
    file = Path("img/train/bee/3.png")
    file.write_bytes(file.read_bytes()[:100])
    model = ["--model", f"damaged_{workers}:pooled", "--method", "uniform", "--trusted", 10, "--workers", workers]
    message = refused(adiw("run", *IMAGES, *model, "--hold-out", 0))
    assert message.startswith(f"{file}: expected an image, found a file that cannot be decoded")
    assert message.endswith("replace or delete it")


def test_models_that_cannot_be_used(adiw: Command) -> None:
    write_module(Path(), "odd_models")
    output = adiw("run", "--model", "odd_models:not_a_network")
    assert "expected a torch.nn.Module from the factory, got type int" in refused(output)
    output = adiw("run", "--model", "odd_models:gone", "--out", "b")
    assert "expected a function or class in odd_models, found none; check the name" in refused(output)
    output = adiw(
        "run", "--model", "odd_models:nameless", "--method", "adiw-kl", "--transform", "features", "--out", "c"
    )
    assert "features need a network with an attribute feature_layer that names its hidden layer" in refused(output)
    output = adiw("run", "--model", "odd_models:nameless", "--method", "two-step-kmm", "--epochs", 1, "--out", "d")
    assert "features need a network with an attribute feature_layer that names its hidden layer" in refused(output)


RUN = ["run", "--method", "uniform", "--epochs", 3, "--out", "r"]


def test_a_folder_that_holds_a_run(adiw: Command) -> None:
    assert adiw(*RUN).code == 0
    before = {file: file.read_bytes() for file in Path("r").iterdir()}
    message = refused(adiw(*RUN, "--tracker", "tensorboard"))
    assert message == "r already holds a run: add --resume to continue it, or choose another folder with --out"
    message = refused(adiw(*RUN, "--resume", "--lr", 0.2))
    assert "(lr was 0.1, is 0.2): resume with the same ones, or choose another folder" in message
    assert {file: file.read_bytes() for file in Path("r").iterdir()} == before


def test_a_checkpoint_that_is_damaged(adiw: Command) -> None:
    assert adiw(*RUN).code == 0
    (Path("r") / checkpoint.NAME).write_bytes(b"nonsense")
    message = refused(adiw(*RUN, "--resume"))
    assert message.startswith(
        "r/checkpoint.pt is damaged (its content does not match its digest): delete it to start from the first epoch"
    )


def test_a_disk_that_fills_up_and_is_freed(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first three files fit (settings, metrics, times); the checkpoint at the end does not."""
    calls, flush = [], os.fsync

    def fills_up(file: int) -> None:
        calls.append(file)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fills_up)
        message = refused(adiw(*RUN))
    assert message == (
        "No space left on device: free some space and continue with --resume; the last checkpoint is complete"
    )
    assert not Path("r/result.json").exists()
    assert adiw(*RUN, "--resume").code == 0
    assert adiw(*RUN[:-1], "whole").code == 0
    assert Path("r/metrics.jsonl").read_bytes() == Path("whole/metrics.jsonl").read_bytes()


def test_a_file_that_cannot_be_opened_is_named(adiw: Command) -> None:
    assert adiw(*RUN).code == 0
    Path("r/metrics.jsonl").unlink()
    Path("r/metrics.jsonl").mkdir()
    assert refused(adiw(*RUN, "--resume")).startswith("r/metrics.jsonl.part: Is a directory")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "adiw-kl", "--critic", "exact"], "adiw-kl does not use --critic; its options are --"),
        (
            ["--method", "adiw-ls", "--step", "local", "--critic", "exact"],
            "adiw-ls does not use --critic, --step;",
        ),
        (["--method", "diw", "--penalty", 1.0], "diw does not use --penalty; its options are --width, --solver"),
        (["--method", "uniform", "--width", 0.1], "uniform does not use --width; its options are none of these"),
    ],
)
def test_options_that_the_method_does_not_use_are_refused(adiw: Command, options: list[object], message: str) -> None:
    output = adiw("run", "--epochs", 1, "--out", "r", *options)
    assert output.code == 2
    assert message in output.err
    assert not Path("r").exists()
