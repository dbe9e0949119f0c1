"""Finding the one run that is meant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adiw.experiments.sealed import read_lines
from adiw.reports.records import is_sweep, kept

NAMED = 5  # folders in a message; the rest is counted


def one_run(folder: Path) -> Path:
    """The folder itself, if it is that of a run; otherwise an error that names the runs it has."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: name the folder of a finished run")
    if is_sweep(folder):
        records = kept(read_lines(folder / "results.jsonl"))
        there = [r for r in records if r.get("folder") and (folder / r["folder"] / "config.json").exists()]
        names = [f"{folder / r['folder']} ({r['row']}, {r['column']}, trial {r['trial']})" for r in there]
        raise ValueError(f"{folder} is a sweep: {_choose(names)}")
    if not (folder / "config.json").exists():
        names = [str(file.parent) for file in sorted(folder.rglob("config.json"))]
        what = "holds several runs" if names else "is not a run's folder (it has no config.json)"
        raise ValueError(f"{folder} {what}: {_choose(names)}")
    return folder


@contextmanager
def as_written(folder: Path) -> Iterator[None]:
    """Around all that is made of a folder: what fails there has files that a run does not write."""
    try:
        yield
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder}: a file in it is not what a run writes ({type(error).__name__}: {error}); "
            "restore it from a copy, or run it again"
        ) from error


def _choose(names: list[str]) -> str:
    """What to do instead.

    >>> _choose(["a", "b"])
    'audit one of its runs: a, b'
    """
    if not names:
        return "no run's folder is below it; name the folder of a finished run"
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"audit one of its runs: {', '.join(names[:NAMED])}{rest}"
