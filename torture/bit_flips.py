"""Flip one bit of a file, or cut off its end: the file is read correctly, or an error names it.

Each case damages one file, reads everything that is read from its folder, and restores the file. A file with a digest
must give the content that was there before, or an error that names the file. A log that still grows has no digest:
there a cut may remove lines, and a flip that leaves valid JSON may change a value. Both are counted on their own.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from adiw.data import DataError, Samples, cifar, fashion_mnist, load
from adiw.engine import checkpoint
from adiw.engine.checkpoint import CheckpointError
from adiw.experiments.checked_io import DamagedError, read_lines
from adiw.experiments.recipes import Planned
from adiw.experiments.recipes import load as load_recipe
from adiw.experiments.resume import open_sweep
from adiw.experiments.run import Interrupted, run
from adiw.experiments.run_record import run_record
from adiw.experiments.settings import resolve
from adiw.experiments.sweep import RESULTS, TIMING, Sweep
from adiw.experiments.training_run import Engine
from adiw.reports.audit import load_audit
from adiw.reports.folders import read_results, read_run
from adiw.reports.pictures import load_pictures
from torture.record import Record, arguments

CPU = torch.device("cpu")
RECORDS = (RESULTS, TIMING)
SMALL = {"dataset": "digits", "method": "adiw-kl", "epochs": 3, "selection": 1200, "trusted": 30, "batch": 32}


@dataclass(frozen=True)
class Target:
    """A folder whose files are damaged one at a time, and everything that is read from it."""

    name: str
    folder: Path
    read: Callable[[Path], Any]
    files: tuple[str, ...]
    growing: bool = False  # the files have no digest yet


def plain(value: Any) -> Any:
    """A value that can be compared: arrays as bytes, dataclasses as their fields."""
    if isinstance(value, torch.Tensor):
        return plain(value.numpy())
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else repr(value)


def read_checkpoint(folder: Path) -> Any:
    return checkpoint.load(folder, CPU)


def read_finished(folder: Path) -> Any:
    return load_audit(folder), load_pictures(folder), read_results(folder)


def read_unfinished(folder: Path) -> Any:
    return read_run(folder)


def read_records(folder: Path) -> Any:
    return read_results(folder)


def read_rows(folder: Path) -> Any:
    return [read_lines(file) for file in sorted(folder.glob("*.jsonl"))]


def targets(work: Path) -> list[Target]:
    """Folders as the command leaves them, and data sets in their official layouts."""
    ended, stopped, sweep, unfinished = (work / name for name in ("run", "stopped", "sweep", "unfinished-sweep"))
    run(resolve(SMALL), ended, engine=Engine(CPU))
    stop(stopped)
    make_sweep(sweep).write_sums()
    make_sweep(unfinished)
    old = work / "previous"
    old.mkdir()
    (old / checkpoint.PREVIOUS).write_bytes((stopped / checkpoint.NAME).read_bytes())
    names = tuple(sorted(file.name for file in ended.iterdir() if not file.name.endswith(".pt")))
    return [
        Target("checkpoint", ended, read_checkpoint, (checkpoint.NAME,)),
        Target("previous checkpoint", old, read_checkpoint, (checkpoint.PREVIOUS,)),
        Target("finished run", ended, read_finished, names),
        Target("unfinished run", stopped, read_unfinished, ("config.json", "SHA256SUMS")),
        Target("log of an unfinished run", stopped, read_rows, ("metrics.jsonl", "timing.jsonl"), growing=True),
        Target("sweep", sweep, read_records, ("recipe.json", *RECORDS, "SHA256SUMS")),
        Target("unfinished sweep", unfinished, read_records, ("recipe.json", "SHA256SUMS")),
        Target("records of an unfinished sweep", unfinished, read_rows, RECORDS, growing=True),
        *data_sets(work),
    ]


def stop(folder: Path) -> None:
    """A run that was stopped after two epochs."""
    rows: list[Any] = []
    try:
        run(resolve(SMALL), folder, engine=Engine(CPU), progress=rows.append, stop=lambda: len(rows) == 2)
    except Interrupted:
        return


def make_sweep(folder: Path) -> Sweep:
    """A sweep with the records of four runs: the same small run under four names."""
    recipe = load_recipe("fmnist-noise")
    work = Sweep(open_sweep(recipe, {}, folder), None, Engine(CPU))
    settings = resolve(SMALL)
    run(settings, folder / "runs" / "one", engine=Engine(CPU))
    for row in recipe.rows[:4]:
        job = Planned(row.label, recipe.columns[0].label, 0, settings, "runs/one")
        work.write_record(job, run_record(folder / "runs" / "one"))
        work.folder.append_row("timing.jsonl", {"row": job.row, "column": job.column, "seconds_per_epoch": 0.5})
    return work


def data_sets(work: Path) -> list[Target]:
    """Small data sets in the official layouts."""
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (5, 3072), np.uint8), random.integers(0, 10, 5)
    pixels = images[:, :784].reshape(5, 28, 28)
    idx = {"images-idx3": pixels, "labels-idx1": labels.astype(np.uint8)}
    for part in ("train", "t10k"):
        for kind, array in idx.items():
            payload = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
            write(work / "gz" / "fashion-mnist" / f"{part}-{kind}-ubyte.gz", gzip.compress(payload))
            write(work / "idx" / "fashion-mnist" / f"{part}-{kind}-ubyte", payload)
    binary = np.concatenate([labels[:, None].astype(np.uint8), images], axis=1).tobytes()
    for name in (*cifar.CIFAR10_TRAIN, *cifar.CIFAR10_TEST):
        write(work / "cifar-10-batches-bin" / name, binary)
    found = [Target(f"Fashion-MNIST, {kind}", work / kind / "fashion-mnist", fashion, ()) for kind in ("gz", "idx")]
    found.append(Target("CIFAR-10", work / "cifar-10-batches-bin", cifar10, ()))
    return [replace(target, files=tuple(sorted(file.name for file in target.folder.iterdir()))) for target in found]


def write(file: Path, payload: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(payload)


def fashion(folder: Path) -> Any:
    return splits(load("fashion-mnist", folder.parent))


def cifar10(folder: Path) -> Any:
    return splits(load("cifar10", folder.parent))


def splits(data: Any) -> list[Any]:
    assert isinstance(data.train, Samples)
    return [data.train.x, data.train.y, data.test.x, data.test.y]


@contextmanager
def small_digests(work: Path) -> Iterator[None]:
    """Let the loaders expect the digests of the small files instead of the official ones."""
    tables = {"idx/fashion-mnist": [fashion_mnist.DIGESTS]}
    tables["cifar-10-batches-bin"] = [cifar.CIFAR10_TRAIN, cifar.CIFAR10_TEST]
    found = [(table, dict(table), work / folder) for folder, several in tables.items() for table in several]
    for table, official, folder in found:
        table.update({name: digest(folder / name) for name in official})
    try:
        yield
    finally:
        for table, official, _ in found:
            table.update(official)


def digest(file: Path) -> str:
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def damage(payload: bytes, random: Random) -> tuple[bytes, str]:
    """One bit flipped, or in one case of five the end cut off; and a description."""
    if random.random() < 0.2:
        length = random.randrange(len(payload))
        return payload[:length], f"cut to {length} of {len(payload)} bytes"
    bit = random.randrange(8 * len(payload))
    flipped = bytearray(payload)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped), f"bit {bit % 8} of byte {bit // 8} flipped"


def judge(target: Target, name: str, expected: Any) -> tuple[str, str]:
    """The verdict on reading the damaged folder, and the details where it is wrong."""
    try:
        found = plain(target.read(target.folder))
    except (CheckpointError, DamagedError, DataError) as error:
        known = name.removesuffix(".gz") in str(error)
        return ("detected", "") if known else ("wrong", f"the error does not name the file: {error}")
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    if found == expected:
        return "harmless", ""
    if target.growing:
        return ("last lines missing" if fewer(found, expected) else "unnoticed in a growing log"), ""
    return "wrong", "other content was read without an error"


def fewer(found: Any, expected: Any) -> bool:
    """Whether lists are as expected but shorter."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) <= len(expected) and all(map(fewer, found, expected))
    return bool(found == expected)


def check(count: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Damage files ``count`` times, each file equally often: (counts, what went wrong)."""
    random, counts, wrong = Random(seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        found = targets(work)
        with small_digests(work):
            expected = {target.name: plain(target.read(target.folder)) for target in found}
            cases = [(target, name) for target in found for name in target.files]
            for k in range(count):
                target, name = cases[k % len(cases)]
                file = target.folder / name
                payload = file.read_bytes()
                damaged, how = damage(payload, random)
                file.write_bytes(damaged)
                verdict, details = judge(target, name, expected[target.name])
                file.write_bytes(payload)
                counts[verdict] += 1
                if verdict == "wrong":
                    wrong.append(f"{target.name}, {name}, {how}: {details}")
    verdicts = ("detected", "harmless", "last lines missing", "unnoticed in a growing log", "wrong")
    return {"flips and cuts": count, "files": len(cases)} | {key: counts[key] for key in verdicts}, wrong


def main() -> int:
    given = arguments("Flip bits of files and cut them short.", count=1000)
    about = "one bit flipped or the end cut off, in files of runs, sweeps and data sets: an error names the file"
    record = Record("bit_flips", about, seed=given.seed, run=SMALL)
    torch.set_num_threads(1)
    counts, wrong = check(given.count, given.seed)
    record.write(counts, wrong, given.out)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
