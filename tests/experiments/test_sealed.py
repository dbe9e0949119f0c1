"""Files that are read back: what was written, or an error that names the file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from adiw.experiments.record import Folder
from adiw.experiments.sealed import DamagedError, line, read_array, read_json, read_lines

ROWS = [{"epoch": 1, "loss": 0.25}, {"epoch": 2, "loss": 0.125}]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write_json("config.json", {"method": "adiw-kl"})
    made.write_array("weights.npy", np.arange(3.0))
    made.write_rows("metrics.jsonl", ROWS)
    return made


def flip(file: Path, bit: int) -> None:
    payload = bytearray(file.read_bytes())
    payload[bit // 8] ^= 1 << bit % 8
    file.write_bytes(payload)


def test_every_flip_in_a_sealed_file_is_an_error_that_names_it(folder: Folder) -> None:
    folder.seal("config.json", "weights.npy", "not there")
    for name, read in (("config.json", read_json), ("weights.npy", read_array)):
        file = folder.path / name
        for bit in range(8 * file.stat().st_size):
            flip(file, bit)
            with pytest.raises(DamagedError, match=f"{name} is damaged .*SHA256SUMS.*: restore it from a copy"):
                read(file)
            flip(file, bit)
        read(file)


def test_every_flip_in_the_sums_is_noticed_or_does_not_matter(folder: Folder) -> None:
    folder.seal("config.json", "weights.npy")
    for bit in range(8 * (folder.path / "SHA256SUMS").stat().st_size):
        flip(folder.path / "SHA256SUMS", bit)
        for name, read, content in (
            ("config.json", read_json, {"method": "adiw-kl"}),
            ("weights.npy", lambda file: read_array(file).tolist(), [0.0, 1.0, 2.0]),
        ):
            try:
                assert read(folder.path / name) == content
            except DamagedError as error:
                assert name in str(error)  # noqa: PT017
        flip(folder.path / "SHA256SUMS", bit)


def test_the_sums_are_those_of_the_command(folder: Folder) -> None:
    folder.seal("config.json", "weights.npy")
    said = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder.path, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, "config.json: OK\nweights.npy: OK\n")


def test_what_is_not_sealed_is_read_as_it_is(folder: Folder) -> None:
    folder.seal("config.json")
    folder.unseal()
    folder.write_json("config.json", {"method": "uniform"})
    assert read_json(folder.path / "config.json") == {"method": "uniform"}
    (folder.path / "weights.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DamagedError, match=r"weights\.npy is damaged"):
        read_array(folder.path / "weights.npy")


def test_every_flip_in_a_line_is_noticed_or_does_not_matter(folder: Folder) -> None:
    file = folder.path / "metrics.jsonl"
    harmless = 0
    for bit in range(8 * file.stat().st_size):
        flip(file, bit)
        try:
            for found, row in zip(read_lines(file), ROWS, strict=True):
                assert {key: found[key] for key in row} == row
            harmless += 1
        except DamagedError as error:
            assert "metrics.jsonl, line" in str(error)  # noqa: PT017
        flip(file, bit)
    assert harmless < 2 * 8 * len('"crc32": "01234567"')  # in the names and the spaces around the checksums


def test_a_line_that_was_cut_short_is_left_out(folder: Folder) -> None:
    file = folder.path / "metrics.jsonl"
    text = file.read_bytes()
    for cut in range(1, len(line(ROWS[1]))):
        file.write_bytes(text[:-cut])
        assert read_lines(file) == ROWS[:1]
    assert read_lines(folder.path / "nothing.jsonl") == []


@pytest.mark.parametrize(
    ("content", "reason"), [('{"a": \n{"a": 2}\n', "line 1 is damaged"), ("[1]\n", "not an object")]
)
def test_lines_without_a_checksum_must_be_objects(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"a": 1}\n\n{"a": 2}\n{"a": ')
    assert read_lines(file) == [{"a": 1}, {"a": 2}]
    file.write_text(content)
    with pytest.raises(DamagedError, match=reason):
        read_lines(file)


def test_a_checksum_does_not_hide_what_is_not_json(tmp_path: Path) -> None:
    assert json.loads(line({"a": "ü"}))["a"] == "ü"
    (tmp_path / "a.jsonl").write_text(line({"a": "ü"}))
    assert read_lines(tmp_path / "a.jsonl") == [{"a": "ü"}]
