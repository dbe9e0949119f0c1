"""Files are read as they were written, or an error names the damaged file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from adiw.experiments.checked_io import DamagedError, json_line, read_array, read_json, read_lines
from adiw.experiments.run_folder import Folder

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


def test_every_flip_in_a_file_with_a_digest_is_an_error_that_names_it(folder: Folder) -> None:
    folder.write_sums("config.json", "weights.npy", "not there")
    for name, read in (("config.json", read_json), ("weights.npy", read_array)):
        file = folder.path / name
        for bit in range(8 * file.stat().st_size):
            flip(file, bit)
            with pytest.raises(DamagedError, match=f"{name} is damaged .*SHA256SUMS.*: restore it from a copy"):
                read(file)
            flip(file, bit)
        read(file)


def test_every_flip_in_the_digests_is_an_error_or_harmless(folder: Folder) -> None:
    folder.write_sums("config.json", "weights.npy")
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


def test_sha256sum_checks_the_digests(folder: Folder) -> None:
    folder.write_sums("config.json", "weights.npy")
    checked = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder.path, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "config.json: OK\nweights.npy: OK\n")


def test_a_file_without_a_digest_is_read_without_a_check(folder: Folder) -> None:
    folder.write_sums("config.json")
    folder.remove_sums()
    folder.write_json("config.json", {"method": "uniform"})
    assert read_json(folder.path / "config.json") == {"method": "uniform"}
    (folder.path / "weights.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(DamagedError, match=r"weights\.npy is damaged"):
        read_array(folder.path / "weights.npy")


def test_every_flip_in_a_finished_log_is_an_error_that_names_it(folder: Folder) -> None:
    folder.write_sums("metrics.jsonl")
    file = folder.path / "metrics.jsonl"
    for bit in range(8 * file.stat().st_size):
        flip(file, bit)
        with pytest.raises(DamagedError, match=r"metrics\.jsonl is damaged .*SHA256SUMS"):
            read_lines(file)
        flip(file, bit)
    assert read_lines(file) == ROWS


def test_a_flip_in_a_growing_log_is_an_error_if_it_breaks_the_json(folder: Folder) -> None:
    """A digit that becomes another digit is not detected while the log has no digest, see docs/reliability.md."""
    file = folder.path / "metrics.jsonl"
    text = file.read_text()
    file.write_text(text.replace('{"epoch": 1', '{"epoch: 1'))
    with pytest.raises(DamagedError, match=r"metrics\.jsonl, line 1 is damaged"):
        read_lines(file)
    file.write_text(text.replace('{"epoch": 1', '{"epoch": 3'))
    assert read_lines(file) == [{**ROWS[0], "epoch": 3}, ROWS[1]]


def test_a_last_line_that_was_cut_short_is_skipped(folder: Folder) -> None:
    file = folder.path / "metrics.jsonl"
    text = file.read_bytes()
    for cut in range(1, len(json_line(ROWS[1]))):
        file.write_bytes(text[:-cut])
        assert read_lines(file) == ROWS[:1]
    assert read_lines(folder.path / "nothing.jsonl") == []


@pytest.mark.parametrize(
    ("content", "reason"), [('{"a": \n{"a": 2}\n', "line 1 is damaged"), ("[1]\n", "not an object")]
)
def test_lines_must_be_objects(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"a": 1}\n\n{"a": 2}\n{"a": ')
    assert read_lines(file) == [{"a": 1}, {"a": 2}]
    file.write_text(content)
    with pytest.raises(DamagedError, match=reason):
        read_lines(file)


def test_text_beyond_ascii_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json_line({"a": "ü"}))
    assert read_lines(tmp_path / "a.jsonl") == [{"a": "ü"}]
