"""Read results from a folder: that of a sweep, of a run, or one that holds runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adiw.experiments.checked_io import read_json, read_lines
from adiw.experiments.run_record import run_record
from adiw.reports.results import Cell, Record, Results, Trial

# The order of methods in tables: without weights, baselines, ADIW, true weights.
METHOD_ORDER = (
    *("uniform", "val-only", "random", "l2r", "mw-net", "diw"),
    *("two-step-kmm", "two-step-kliep", "two-step-lsif"),
    *("adiw", "adiw-km", "adiw-kl", "adiw-ls", "adiw-wa", "oracle"),
)
RECIPE = (  # the keys of recipe.json
    *("name", "title", "about", "trials", "measures", "common"),
    *("changes", "rows", "columns", "deviations", "paper"),
)
DATA = ("dataset", "path", "target", "shift", "selection")  # settings that define a column of runs


def read_results(folder: Path) -> Results:
    """The results in a sweep's folder, a run's folder, or a folder that holds runs at any depth."""
    if is_sweep(folder):
        return read_sweep(folder)
    if (folder / "results.jsonl").exists():
        raise FileNotFoundError(f"{folder} has results.jsonl but no recipe.json, which says what was planned")
    return from_runs(read_runs(folder))


def is_sweep(folder: Path) -> bool:
    return (folder / "recipe.json").exists()


def read_sweep(folder: Path) -> Results:
    """The sweep in a folder with recipe.json; results.jsonl and timing.jsonl may be missing."""
    if not is_sweep(folder):
        raise FileNotFoundError(f"no sweep found in {folder}: a sweep's folder holds a recipe.json")
    found = read_json(folder / "recipe.json")
    try:
        recipe = {key: found[key] for key in RECIPE}
        kept = kept_records(read_lines(folder / "results.jsonl"))
        places = [(row["label"], column["label"]) for row in recipe["rows"] for column in recipe["columns"]]
        cells = {place: _cell(place, kept.get(place, {}), recipe["trials"], folder) for place in places}
        timing = {(line["row"], line["column"]): line for line in read_lines(folder / "timing.jsonl")}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: its recipe.json or a line of its records has no {error}") from error
    unplaced = tuple(f"{row}, {column}" for row, column in sorted(kept.keys() - set(places)))
    return Results(recipe, cells, timing, unplaced)


def kept_records(records: Iterable[Record]) -> dict[tuple[str, str], dict[int, Record]]:
    """(row, column) -> trial number -> its record: the first that is done, or else the last.

    >>> lines = [{"row": "a", "column": "b", "trial": 0, "status": s} for s in ("failed", "done", "dead")]
    >>> kept_records(lines)["a", "b"][0]["status"]
    'done'
    """
    kept: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        trials = kept.setdefault((record["row"], record["column"]), {})
        if trials.get(record["trial"], {}).get("status") != "done":
            trials[record["trial"]] = record
    return kept


def _cell(place: tuple[str, str], records: Mapping[int, Record], planned: int, root: Path) -> Cell:
    trials = []
    for number, record in sorted(records.items()):
        folder = root / record["folder"] if record.get("folder") else None
        trials.append(Trial(record, number, folder if folder and folder.is_dir() else None))  # it may be elsewhere
    return Cell(*place, tuple(trials), tuple(number for number in range(planned) if number not in records))


def read_run(folder: Path, number: int = 0) -> Trial:
    """The run in this folder, finished or not."""
    settings, record = read_json(folder / "config.json"), run_record(folder)
    if not isinstance(settings, dict):
        raise ValueError(f"{folder}/config.json holds no settings: restore it from a copy, or run it again")
    return Trial({**record, "settings": settings}, number, folder)


def read_runs(root: Path) -> list[Trial]:
    """All runs below ``root``, sorted by folder; an error when there is none."""
    folders = sorted(file.parent for file in root.rglob("config.json"))
    if not folders:
        raise FileNotFoundError(f"no runs found below {root}: a run's folder holds a config.json")
    return [read_run(folder, number) for number, folder in enumerate(folders)]


def from_runs(runs: Sequence[Trial], title: str | None = None) -> Results:
    """Runs sorted into rows (methods in ``METHOD_ORDER``, others after them by name) and columns (their data)."""
    rows, columns = _rows(runs), [_data(run.settings) for run in runs]
    methods = {row: run.method for row, run in zip(rows, runs, strict=True)}
    ranks = {method: place for place, method in enumerate(METHOD_ORDER)}
    cells: dict[tuple[str, str], Cell] = {}
    for row in sorted(methods, key=lambda row: (ranks.get(methods[row], len(ranks)), methods[row], row)):
        for column in dict.fromkeys(columns):
            trials = [run for run, *place in zip(runs, rows, columns, strict=True) if place == [row, column]]
            whole = tuple(run for run in trials if any(_is_fold_of(other, run) for other in trials))
            cells[row, column] = Cell(
                row, column, tuple(r for r in trials if r not in whole), pooled=False, whole=whole
            )
    labels = [dict.fromkeys(place) for place in zip(*cells, strict=True)]
    first = runs[0].settings.items()
    shared = {k: v for k, v in first if v is not None and all(run.settings.get(k) == v for run in runs)}
    recipe = {
        "name": None,
        "about": "",
        "changes": {},
        "deviations": [],
        "paper": {},
        "title": title or (f"{rows[0]} on {columns[0]}" if len(methods) == 1 else ", ".join(labels[1])),
        "trials": None,
        "measures": ["accuracy"],
        "common": shared,
        "rows": [{"label": row, "settings": {"method": methods[row]}} for row in labels[0]],
        "columns": [{"label": column, "settings": {}} for column in labels[1]],
    }
    return Results(recipe, cells)


def _is_fold_of(run: Trial, other: Trial) -> bool:
    """Whether a run is one of the folds that ``adiw run --compare`` has trained in the folder of the other."""
    if run.folder is None or other.folder is None or run is other:
        return False
    return bool(run.settings.get("fold")) and run.folder.is_relative_to(other.folder)


def _data(settings: Mapping[str, Any]) -> str:
    """
    >>> _data({"dataset": "csv", "path": "my/birds.csv", "target": "kind", "shift": "pair:0.3", "lr": 0.1})
    'my/birds.csv, target kind, pair:0.3'
    """
    given = {key: settings[key] for key in DATA if settings.get(key) not in (None, 0, "", "none")}
    if "path" in given:  # it says what data they are
        given.pop("dataset", None)
    shown = ("dataset", "path", "shift")
    named = [str(value) if key in shown else f"{key} {value}" for key, value in given.items()]
    return ", ".join(named) or "runs"


def _rows(runs: Sequence[Trial]) -> list[str]:
    """The method of each run, with the settings in which its runs on the same data differ: these are not seeds."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run.method, _data(run.settings)), []).append(run.settings)
    varied: dict[str, dict[str, None]] = {}
    for (method, _), settings in groups.items():
        varied.setdefault(method, {}).update(dict.fromkeys(_varied(settings)))
    texts = [", ".join(f"{key} {run.settings.get(key)}" for key in varied[run.method]) for run in runs]
    return [f"{run.method} ({text})" if text else run.method for run, text in zip(runs, texts, strict=True)]


def _varied(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings, besides data, seed, fold and method, that are not the same in all of these runs."""
    keys = dict.fromkeys(key for one in settings for key in one if key not in (*DATA, "seed", "fold", "method"))
    return [key for key in keys if len({json.dumps(one.get(key)) for one in settings}) > 1]


@contextmanager
def explain_bad_files(folder: Path) -> Iterator[None]:
    """Turn an error that comes from the content of a folder's files into one that names the folder."""
    try:
        yield
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder}: a file in it is not what a run writes ({type(error).__name__}: {error}); "
            "restore it from a copy, or run it again"
        ) from error
