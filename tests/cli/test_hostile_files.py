"""Malicious files: no code in them runs, and each gives an error in one line."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adiw.shifts import read_indices
from tests.cli.conftest import Command
from tests.reports.folders import write_pictures
from tests.reports.test_audit import audited

DEEP = "[" * 100_000 + "]" * 100_000
ARRAYS = ("weights.npy", "labels.npy", "weight_history.npy", "gallery.npy")
TEXTS = ("config.json", "result.json", "weight_history.json", "classes.json", "gallery.json", "metrics.jsonl")
HOSTILE_NAMES = [
    "=cmd|' /C calc'!A0",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[red]",
]


class Attack:
    """Unpickling it makes a folder called ``marker``."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("marker",)


def test_the_attack_works_where_pickles_are_read() -> None:
    pickle.loads(pickle.dumps(Attack()))
    assert Path("marker").is_dir()


def object_array(path: Path) -> None:
    np.save(path, np.array([Attack()], dtype=object), allow_pickle=True)


def bare_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(Attack()))


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../escaped.npy", b"")


def claims(path: Path) -> None:
    """A header that claims 2^50 numbers, and nothing behind it."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1125899906842624,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)


HARM = [object_array, bare_pickle, archive, claims]


def run_folder() -> Path:
    return write_pictures(audited(Path("run"), dataset="insects", shift="none"), ["ant", "bee"])


def refused_or_unharmed(adiw: Command, *commands: str) -> None:
    for command in commands:
        output = adiw(command, "run")
        assert output.code in (0, 2), output.err
        assert output.err.count("\n") <= 1, output.err
        assert "Traceback" not in output.err
    assert not Path("marker").exists()
    assert not Path("../escaped.npy").exists()


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_a_run(adiw: Command, name: str, harm: Any) -> None:
    harm(run_folder() / name)
    refused_or_unharmed(adiw, "audit", "report")


@pytest.mark.parametrize("content", [DEEP, "[]", "{}", '{"a": NaN, "status": 1e999}', "9" * 5000, "\x00", '"x"'])
@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_a_run(adiw: Command, name: str, content: str) -> None:
    (run_folder() / name).write_text(content + "\n")
    refused_or_unharmed(adiw, "audit", "report")


@pytest.mark.parametrize("harm", HARM)
def test_trusted_indices(harm: Any) -> None:
    harm(Path("trusted.npy"))
    with pytest.raises(ValueError, match=r"trusted\.npy: expected one integer per line, or an array of numpy\.save"):
        read_indices(Path("trusted.npy"))
    assert not Path("marker").exists()


@pytest.mark.parametrize("content", [DEEP, "a = " + DEEP, "a = " + "9" * 5000, "\x00"])
def test_a_recipe(adiw: Command, content: str) -> None:
    Path("mine.toml").write_text(content)
    output = adiw("sweep", "mine.toml")
    assert (output.code, output.err.count("\n")) == (2, 1), output.err[:500]


def test_names_of_classes_stay_text(adiw: Command) -> None:
    folder = run_folder()
    for name in HOSTILE_NAMES:
        (folder / "classes.json").write_text(json.dumps([name, "-1"]))
        refused_or_unharmed(adiw, "audit", "report")
        rows = (folder / "audit.csv").read_text()
        assert ",=" not in rows
        assert ",-1," in rows  # a number is not a formula
        for page in folder.glob("*.html"):
            text = page.read_text()
            assert "<script>alert" not in text
            assert "<img src=x" not in text


@pytest.mark.parametrize("choice", ["skip", "refuse"])
def test_broken_images_are_skipped_by_choice(adiw: Command, choice: str) -> None:
    from tests.data.files import write_folders

    write_folders(Path("photos"))
    Path("photos/train/ant/cut.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    common = (
        "run",
        "--dataset",
        "imagefolder",
        "--path",
        "photos",
        "--trusted-folder",
        "photos/val",
        "--epochs",
        1,
        "--workers",
        0,
    )
    arguments = (*common, "--broken-images", choice, "--out", "out", "--quiet", "--model", "mlp", "--device", "cpu")
    if choice == "refuse":
        output = adiw(*arguments)
        assert output.code == 2
        assert "cut.png" in output.err
        return
    with pytest.warns(UserWarning, match=r"1 of 3 images are excluded.*cut\.png"):
        output = adiw(*arguments)
    assert output.code == 0, output.err
    assert json.loads(Path("out/config.json").read_text())["broken_images"] == "skip"
