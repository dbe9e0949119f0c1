"""``adiw demo``: every method on digits with 40% wrong labels, in about a minute on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from adiw.cli.console import one_line_errors, progress_bar, say, timed_lines
from adiw.cli.run import Quiet
from adiw.experiments.executors import run_on
from adiw.experiments.local_executor import LocalExecutor, processes_for
from adiw.experiments.provenance import provenance
from adiw.experiments.recipes import Planned
from adiw.experiments.run_folder import Folder
from adiw.experiments.settings import resolve
from adiw.experiments.sweep import Sweep
from adiw.experiments.training_run import Engine
from adiw.reports.folders import from_runs, read_run
from adiw.reports.grid import to_text
from adiw.reports.report_page import render_report
from adiw.reports.results import Cell, Trial
from adiw.reports.tables import accuracy_table

# Slow methods first, so that no process is idle for long at the end.
ORDER = (
    *("diw", "mw-net", "l2r", "adiw", "adiw-km", "adiw-kl", "adiw-ls", "adiw-wa"),
    *("uniform", "random", "oracle", "val-only"),
)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option(help="Runs of each method, with different seeds.", min=1)] = 3,
    epochs: Annotated[int, typer.Option(help="Epochs of each run.")] = 60,
    quiet: Quiet = False,
) -> None:
    """Compare all methods on scikit-learn's digits with 40% wrong labels: print a table and write an HTML page."""
    with one_line_errors():
        jobs = [_job(method, seed, epochs) for method in ORDER for seed in range(seeds)]
        engine = Engine(torch.device("cpu"))
        work = Sweep(Folder(out), engine=engine, processes=processes_for(torch.device("cpu")))
        work.folder.create()
        for job in jobs:
            _clear(out / job.folder)
        with progress_bar("runs", quiet) as bar, LocalExecutor(work.processes) as executor:
            task = bar.add_task("digits, 40% wrong labels", total=len(jobs), note="")
            tell = timed_lines(quiet or not bar.disable)
            for number, (job, record) in enumerate(run_on(executor, work, jobs), 1):
                bar.update(task, advance=1, note=job.folder)
                tell(f"{number} of {len(jobs)} runs have ended")
                if record["status"] == "failed":
                    say(f"{job.folder}: {record['reason']}")
        runs = [_load(job, out / job.folder, number) for number, job in enumerate(jobs)]
        results = from_runs(runs, "Digits with 40% wrong labels")
        print(to_text(accuracy_table(results)))
        Folder(out).write_json("summary.json", _summary(list(results.cells.values()), epochs, seeds))
        page = out / "index.html"
        page.write_text(render_report(results), encoding="utf-8")
    print("Accuracy on the 500 test digits. 'oracle' trains with the true weights.")
    print(f"Report with curves and weights: {page}")


def _job(method: str, seed: int, epochs: int) -> Planned:
    settings = resolve({"dataset": "digits", "method": method, "seed": seed, "epochs": epochs})
    return Planned(method, settings.shift, seed, settings, f"{method}-{seed}")


def _clear(folder: Path) -> None:
    """Delete the files of an earlier demo in the folder of a run."""
    for old in folder.glob("*") if folder.is_dir() else ():
        if old.is_file():
            old.unlink()


def _load(job: Planned, folder: Path, number: int) -> Trial:
    """The run in this folder; a missing run counts as unfinished."""
    if (folder / "config.json").exists():
        return read_run(folder, number)
    return Trial({"status": "unfinished", "settings": job.settings.as_dict()}, number)


def _summary(cells: list[Cell], epochs: int, seeds: int) -> dict[str, Any]:
    """The table as a record: figures of every seed, settings, versions, hardware."""
    settings = resolve({"dataset": "digits", "epochs": epochs}).as_dict()
    shared = {key: value for key, value in settings.items() if key not in ("method", "seed")}
    entries = []
    for cell in cells:
        mean, std = cell.figure("accuracy") or (None, None)
        accuracies = list(cell.means("accuracy").values())
        figures = {"mean": mean, "std": std, "seconds_per_epoch": cell.seconds, "accuracies": accuracies}
        entries.append({"method": cell.row, **figures, "note": cell.note})
    return {"rows": entries, "seeds": list(range(seeds)), "settings": shared, **provenance(torch.device("cpu"))}
