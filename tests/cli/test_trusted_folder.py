"""``adiw run --trusted-folder``: trusted images that lie beside the training set."""

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
    model = ("--model", "nets_of_trusted:pooled", "--workers", 0, "--no-bf16", "--quiet", "--out", "out")
    said = adiw(*RUN, *model, "--trusted-folder", "checked/train")
    assert (said.code, said.err) == (0, "")
    assert len(np.load("out/weights.npy")) == 60  # the training images alone
    assert json.loads(Path("out/config.json").read_text())["trusted_folder"] == "checked/train"


def test_a_folder_that_misses_a_class_is_refused(adiw: Command, tmp_path: Path) -> None:
    write_images(tmp_path / "photos")
    write_images(tmp_path / "checked", train=3)
    shutil.rmtree(tmp_path / "checked" / "train" / "bee")
    said = adiw(*RUN, "--trusted-folder", "checked/train", "--out", "out")
    assert said.code == 2
    assert "trusted: expected every one of 3 classes, missing 1; add a sample of each" in said.err


def test_a_folder_beside_vectors_is_refused(adiw: Command) -> None:
    said = adiw("run", "--shift", "none", "--trusted-folder", "checked", "--epochs", 1)
    assert said.code == 2
    assert "trusted_folder is for imagefolder, not digits: name the samples in a trusted_file" in said.err


def test_two_sources_of_trust_are_refused(adiw: Command) -> None:
    said = adiw("run", "--shift", "none", "--trusted-folder", "checked", "--trusted-file", "list.txt")
    assert said.code == 2
    assert "trusted_file and trusted_folder both say which samples are trusted: give one of them" in said.err
