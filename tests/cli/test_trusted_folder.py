"""``adiw run --trusted-folder``: trusted images that are not in the training set."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from tests.cli.conftest import Command
from tests.cli.images import write_images, write_module

RUN = ("run", "--dataset", "imagefolder", "--path", "photos", "--shift", "none", "--epochs", 2, "--batch", 8)


def test_trusted_images_are_matched_and_not_trained_on(adiw: Command, tmp_path: Path) -> None:
    write_images(tmp_path / "photos")
    write_images(tmp_path / "checked", train=3)
    write_module(tmp_path, "nets_of_trusted")
    model = (
        "--model",
        "nets_of_trusted:pooled",
        "--workers",
        0,
        "--no-bf16",
        "--quiet",
        "--out",
        "out",
        "--hold-out",
        0,
    )
    output = adiw(*RUN, *model, "--trusted-folder", "checked/train", "--hold-out", 0)
    assert output.code == 0
    assert output.err.startswith("adiw: images of 20 pixels are enlarged to 224: --image-size 20 is faster")
    assert output.err.count("\n") == 1
    assert len(np.load("out/weights.npy")) == 60  # the training images alone
    assert json.loads(Path("out/config.json").read_text())["trusted_folder"] == "checked/train"


def test_a_folder_that_misses_a_class_is_refused(adiw: Command, tmp_path: Path) -> None:
    write_images(tmp_path / "photos")
    write_images(tmp_path / "checked", train=3)
    shutil.rmtree(tmp_path / "checked" / "train" / "bee")
    output = adiw(*RUN, "--trusted-folder", "checked/train", "--out", "out")
    assert output.code == 2
    assert "trusted: expected every one of 3 classes, missing 1; add a sample of each" in output.err


def test_a_trusted_folder_for_vectors_is_refused(adiw: Command) -> None:
    output = adiw("run", "--shift", "none", "--trusted-folder", "checked", "--epochs", 1)
    assert output.code == 2
    assert "--trusted-folder is for imagefolder, not digits: name the samples in a --trusted-file" in output.err


def test_two_sources_of_trusted_samples_are_refused(adiw: Command) -> None:
    output = adiw("run", "--shift", "none", "--trusted-folder", "checked", "--trusted-file", "list.txt")
    assert output.code == 2
    assert "trusted_file and trusted_folder both select the trusted samples: give only one of them" in output.err
