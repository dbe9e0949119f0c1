"""The folder of a run: every file is complete, and the folder of the other processes stays empty."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from adiw.experiments.checked_io import DamagedError, json_line, read_lines
from adiw.experiments.run_folder import Folder


def test_rows_are_lines_of_strict_json(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write_rows("metrics.jsonl", [{"epoch": 1, "loss": 0.1}])
    folder.append_row("metrics.jsonl", {"epoch": 2, "loss": math.nan, "weight_max": math.inf})
    first, second = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(first).keys() == {"epoch", "loss"}
    assert json.loads(second, parse_constant=pytest.fail)["weight_max"] is None
    assert read_lines(tmp_path / "metrics.jsonl") == [
        {"epoch": 1, "loss": 0.1},
        {"epoch": 2, "loss": None, "weight_max": None},
    ]


@pytest.mark.parametrize("rest", ["", '{"epoch": 2', '{"epoch": 2}'])
def test_a_line_that_was_cut_short_is_removed(tmp_path: Path, rest: str) -> None:
    for before in ("", '{"epoch": 1}\n'):
        (tmp_path / "metrics.jsonl").write_text(before + rest)
        Folder(tmp_path).append_row("metrics.jsonl", {"epoch": 3})
        assert (tmp_path / "metrics.jsonl").read_text() == before + json_line({"epoch": 3})


def test_json_and_arrays_are_read_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.read_json("a.json") is None
    folder.write_json("a.json", {"x": [1, None]})
    assert folder.read_json("a.json") == {"x": [1, None]}
    folder.write_array("w.npy", np.arange(3))
    assert np.load(tmp_path / "w.npy").tolist() == [0, 1, 2]
    folder.remove("a.json")
    folder.remove("a.json")
    assert [file.name for file in tmp_path.iterdir()] == ["w.npy"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"lr": ')
    with pytest.raises(DamagedError, match=r"config\.json is damaged"):
        Folder(tmp_path).read_json("config.json")


def test_a_folder_is_created_or_an_error_names_it(tmp_path: Path) -> None:
    Folder(tmp_path / "a" / "b").create()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match=r"cannot write to the folder .*file/run \(Not a directory\)"):
        Folder(tmp_path / "file" / "run").create()


def test_a_null_folder_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text("{}")
    folder = Folder(tmp_path, writes=False)
    Folder(tmp_path / "run", writes=False).create()
    folder.write_json("config.json", {})
    folder.write_rows("metrics.jsonl", [{}])
    folder.append_row("metrics.jsonl", {})
    folder.write_array("weights.npy", np.zeros(1))
    folder.write_sums("kept.json")
    folder.remove("kept.json")
    folder.remove_sums()
    assert [file.name for file in tmp_path.iterdir()] == ["kept.json"]
