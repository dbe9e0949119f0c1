"""Files with wrong content, and paths that do not exist."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas
import torch

from adiw.data import DATASETS, ImageFiles, Samples, load
from adiw.experiments import recipes
from adiw.shifts import read_indices
from torture import values
from torture.entries.entry import COUNT, NAME, SETS, Entry, Make, pick
from torture.verdict import anything


@cache
def files(work: Path) -> dict[str, bytes]:
    """The content of a good file of each kind."""
    table = b"a,b,label\n" + b"1,2.5,x\n2,,y\n3,red,x\n4,0.25,y\n" * 3
    toml = (Path(recipes.__file__).parent / "recipe_files" / "val-size.toml").read_bytes()
    return {
        "rows.csv": table,
        "rows.parquet": pandas.read_csv(io.BytesIO(table)).to_parquet(),
        "trusted.txt": b"0\n3\n5\n",
        "recipe.toml": toml,
    }


def readers(work: Path) -> list[Entry]:
    """Files with wrong content, and paths that do not exist."""
    read: dict[str, Callable[[Path], Any]] = {
        "rows.csv": lambda path: load("csv", path=path, target="label").train.x,
        "rows.parquet": lambda path: load("csv", path=path, target="label").train.x,
        "trusted.txt": read_indices,
        "recipe.toml": recipes.load_file,
    }
    entries = []
    for name, good in files(work).items():
        payload = partial(lambda good, random: values.content(random, good), good)
        call = partial(read_file, work / name, read[name])
        entries.append(Entry(f"file {name}", call, partial(dict, payload=good), {"payload": payload}, anything))
    paths = (work / "nowhere", work, "", "\0", "x" * 5000, Path("/dev/null"), 3, 2.5, *values.ANYTHING)
    bad: dict[str, Make] = {"name": pick((*values.NAMES, *DATASETS)), "root": pick(paths), "path": pick(paths)}
    bad |= {"target": NAME, "size": COUNT}
    entries.append(Entry("data.load", load, lambda: {"name": "digits"}, bad, anything))
    x, y = torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])
    samples: dict[str, Make] = {"x": values.tensor, "y": values.tensor, "index": values.tensor}
    good = lambda: {"x": x, "y": y, "index": torch.tensor([1])}  # noqa: E731
    entries.append(Entry("Samples", some_samples, good, samples, anything))
    images: dict[str, Make] = {"paths": pick((*SETS, ("a.png",))), "y": values.tensor, "size": COUNT}
    entries.append(
        Entry("ImageFiles", ImageFiles, lambda: {"paths": (Path("a"),), "y": y[:1]}, images, anything, 0.5)
    )
    return entries


def read_file(path: Path, read: Callable[[Path], Any], payload: bytes) -> Any:
    path.write_bytes(payload)
    return read(path)


def some_samples(x: Any, y: Any, index: Any) -> Any:
    made = Samples(x, y)
    return made.subset(index, made.y[: len(index)] if isinstance(index, torch.Tensor) and index.ndim else made.y)
