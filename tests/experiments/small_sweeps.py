"""Small recipes on digits, and comparisons of the files of their sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from adiw.experiments.executors import Executor, run_on
from adiw.experiments.local_executor import LocalExecutor
from adiw.experiments.recipes import Part, Planned, Recipe, load_file, plan
from adiw.experiments.resume import open_sweep
from adiw.experiments.sweep import RESULTS, Sweep
from adiw.experiments.training_run import Engine

Ended = list[tuple[Planned, dict[str, Any]]]
SAME = ("metrics.jsonl", "weights.npy", "weight_history.npy", "labels.npy", "config.json")
TEXT = """
title = "Digits"
about = "Small runs."
trials = 2
[settings]
dataset = "digits"
epochs = 2
[[column]]
label = "much"
shift = "symmetric:0.4"
[[column]]
label = "little"
shift = "pair:0.1"
[[row]]
label = "Uniform"
method = "uniform"
[[row]]
label = "KL"
method = "adiw-kl"
[[row]]
label = "Val-Only"
method = "val-only"
[paper.accuracy]
KL = ["88.73 (0.66)", "-"]
[paper.seconds]
KL = [1, 2.5]
"""
DEAD = '[[row]]\nlabel = "Dies"\nmethod = "uniform"\nlr = 1e6\n'
FAILED = '[[row]]\nlabel = "Fails"\nmethod = "uniform"\nmodel = "missing_networks:build"\n'


def write_recipe(folder: Path, more: str = "", name: str = "mine", text: str = TEXT) -> Path:
    """The recipe with more rows."""
    file = folder / f"{name}.toml"
    file.write_text(text.replace("[paper.accuracy]", f"{more}[paper.accuracy]"))
    return file


def small(folder: Path, more: str = "", text: str = TEXT) -> Recipe:
    return load_file(write_recipe(folder, more, text=text))


def sweep(recipe: Recipe, out: Path, **options: Any) -> Sweep:
    folder = open_sweep(recipe, {}, out)
    return Sweep(folder, None, Engine(torch.device("cpu")), **options)


def finish(work: Sweep, recipe: Recipe, part: Part = Part(), executor: Executor | None = None) -> Ended:  # noqa: B008
    """Run everything that has not ended, write the records, and return them."""
    ended = []
    for job, record in run_on(executor, work, plan(recipe, part)):
        work.write_record(job, record)
        ended.append((job, record))
    return ended


def in_two_processes(work: Sweep, recipe: Recipe, part: Part) -> Ended:
    """``finish`` in two processes."""
    work.processes = 2
    with LocalExecutor(2) as executor:
        return finish(work, recipe, part, executor)


def files(out: Path) -> dict[str, bytes]:
    """The files that do not depend on how a sweep was run: all but those with times."""
    return {str(file.relative_to(out)): file.read_bytes() for file in sorted(out.rglob("*")) if file.name in SAME}


def statuses(work: Sweep) -> list[tuple[str, str, int, str]]:
    return [(r["row"], r["column"], r["trial"], r["status"]) for r in work.records(RESULTS)]
