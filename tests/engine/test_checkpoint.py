"""Checkpoints: complete or absent after any interruption of a write."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from adiw.engine import checkpoint
from adiw.engine.checkpoint import NAME, PREVIOUS, CheckpointError, write_atomically

CPU = torch.device("cpu")


def state(number: int) -> dict[str, object]:
    return {"epoch": number, "weights": torch.full((5000,), float(number)), "settings": {"lr": 0.1}}


def loaded_epoch(folder: Path) -> int:
    found = checkpoint.load(folder, CPU)
    assert found is not None
    assert torch.equal(found["weights"], torch.full((5000,), float(found["epoch"])))
    return int(found["epoch"])


def test_a_saved_state_is_loaded(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path, CPU) is None
    checkpoint.save(tmp_path, state(1))
    assert loaded_epoch(tmp_path) == 1


def test_the_previous_checkpoint_is_kept(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        checkpoint.save(tmp_path, state(number))
    assert loaded_epoch(tmp_path) == 3
    assert torch.load(tmp_path / PREVIOUS, weights_only=True)["epoch"] == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([NAME, PREVIOUS])


@pytest.mark.parametrize("killed_at", [1, 2])
def test_a_kill_at_either_rename_leaves_a_complete_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    checkpoint.save(tmp_path, state(1))
    calls, replace = [], os.replace

    def until_killed(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == killed_at:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", until_killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.save(tmp_path, state(2))
    assert (tmp_path / NAME).exists() == (killed_at == 1)
    assert loaded_epoch(tmp_path) == 1
    checkpoint.save(tmp_path, state(3))
    assert loaded_epoch(tmp_path) == 3


def test_a_full_disk_while_saving_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    checkpoint.save(tmp_path, state(1))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(tmp_path, state(2))
    assert loaded_epoch(tmp_path) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_without_space_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as raised:
        checkpoint.save(tmp_path, state(1))
    assert raised.value.errno == errno.ENOSPC


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def emptied(content: bytes) -> bytes:
    return b""


def flipped_in_the_header(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def flipped_in_the_weights(content: bytes) -> bytes:
    middle = content.index(b"\x00\x00\x80\x3f" * 100) + 40  # 1.0 in float32, repeated
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, emptied, flipped_in_the_header, flipped_in_the_weights])
def test_damage_is_an_error_that_names_the_file(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    checkpoint.save(tmp_path, state(1))
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(damage(whole))
    with pytest.raises(CheckpointError, match="start from the first epoch") as raised:
        checkpoint.load(tmp_path, CPU)
    assert str(tmp_path / NAME) in str(raised.value)


def test_after_damage_the_previous_checkpoint_is_used_as_the_error_says(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, state(1))
    checkpoint.save(tmp_path, state(2))
    (tmp_path / NAME).write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match=f"delete it to resume from {PREVIOUS}"):
        checkpoint.load(tmp_path, CPU)
    (tmp_path / NAME).unlink()
    assert loaded_epoch(tmp_path) == 1


class Surprise:
    """Unpickling it would run code."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


def test_nothing_in_a_checkpoint_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, {"epoch": Surprise()})
    monkeypatch.setattr(os, "system", lambda command: pytest.fail("code from a checkpoint was run"))
    with pytest.raises(CheckpointError, match="UnpicklingError"):
        checkpoint.load(tmp_path, CPU)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "result.json"
    write_atomically(file, b"old")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with pytest.raises(OSError, match="full"):
            write_atomically(file, b"new and longer")
    assert file.read_bytes() == b"old"
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_every_cut_and_every_flipped_bit_is_an_error(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, {"epoch": 1, "weights": torch.zeros(4)})
    file = tmp_path / NAME
    whole = file.read_bytes()
    for at in range(0, len(whole), 7):
        flipped = whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :]
        for content in (flipped, whole[:at]):
            file.write_bytes(content)
            with pytest.raises(CheckpointError, match="does not match its digest"):
                checkpoint.load(tmp_path, CPU)
    file.write_bytes(whole)
    assert torch.load(file, weights_only=True)["epoch"] == 1  # torch reads the file without this module


def test_a_disk_that_fills_up_within_a_large_checkpoint_is_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If torch.save meets the full disk, it raises an error of its own in place of the OSError."""

    def fills_up(state: object, file: object) -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise RuntimeError("unexpected pos 768 vs 662")  # noqa: B904

    checkpoint.save(tmp_path, state(1))
    monkeypatch.setattr(torch, "save", fills_up)
    with pytest.raises(OSError, match="No space left") as raised:
        checkpoint.save(tmp_path, state(2))
    assert raised.value.filename == str(tmp_path / NAME)
    assert [file.name for file in tmp_path.iterdir()] == [NAME]
    assert loaded_epoch(tmp_path) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system has no /proc")
def test_renames_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, fsync = [], os.fsync

    def noted(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    checkpoint.save(tmp_path, state(1))
    write_atomically(tmp_path / "a.json", b"{}")
    assert synced == [f"{tmp_path}/{NAME}.part", str(tmp_path), f"{tmp_path}/a.json.part", str(tmp_path)]
