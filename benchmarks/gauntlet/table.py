"""The gauntlet's table: means and standard errors, and how a chosen default compares, paired over seeds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from adiw import DIVERGENCES
from benchmarks.gauntlet.halves import Half, shown
from benchmarks.gauntlet.methods import METHODS, fits
from benchmarks.gauntlet.records import Key, Record
from benchmarks.gauntlet.tasks import TASKS

ALTERNATIVES = [name for name, method in METHODS.items() if method.group == "alternative"]
WORSE = {"accuracy": -0.3, "rmse": -1.0}  # a method is worse than uniform if its interval lies wholly below this gain
CLOSE = -0.5  # gain over the best alternative that counts as no loss


# The data of this task are made from the installed packages: other versions are other data.
FROM_PACKAGES, PACKAGES = "docstrings", ("torch", "numpy", "scikit-learn")


def comparable(records: dict[Key, Record]) -> dict[Key, Record]:
    """The records without those whose data differ from those of ``uniform`` with the same seed."""

    def versions(key: Key) -> list[str]:
        return [records[key]["versions"][name] for name in PACKAGES] if key in records else []

    return {
        (task, method, seed): record
        for (task, method, seed), record in records.items()
        if task != FROM_PACKAGES or versions((task, method, seed)) == versions((task, "uniform", seed))
    }


@dataclass(frozen=True)
class Gain:
    """Mean gain over another method, paired over seeds, with the half-width of its 95% interval (nan for one seed).

    A gain is in points of accuracy, or in percent of the other's RMSE; above zero is better.
    """

    mean: float
    half: float
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:+.2f}" + ("" if math.isnan(self.half) else f" ± {self.half:.2f}")


def values(records: dict[Key, Record], task: str, method: str) -> dict[int, float]:
    """Seed -> the task's metric."""
    metric = TASKS[task].metric
    return {key[2]: record["metrics"][metric] for key, record in records.items() if key[:2] == (task, method)}


def gain(ours: dict[int, float], theirs: dict[int, float], metric: str) -> Gain | None:
    """Of one method over another, over the seeds that both have; None where there is none.

    >>> print(gain({0: 90.0, 1: 92.0}, {0: 89.0, 1: 90.0}, "accuracy"))
    +1.50 ± 6.35
    """
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    a, b = np.array([ours[s] for s in seeds]), np.array([theirs[s] for s in seeds])
    differences = a - b if metric == "accuracy" else 100 * (1 - a / b)
    n = len(seeds)
    half = stats.t.ppf(0.975, n - 1) * differences.std(ddof=1) / math.sqrt(n) if n > 1 else math.nan
    return Gain(float(differences.mean()), float(half), n)


def best(records: dict[Key, Record], task: str, methods: Iterable[str]) -> str | None:
    """The method with the best mean on a task, of those that have records."""
    means = {m: float(np.mean(list(v.values()))) for m in methods if (v := values(records, task, m))}
    if not means:
        return None
    return (min if TASKS[task].metric == "rmse" else max)(means, key=means.__getitem__)


def means_table(records: dict[Key, Record], tasks: list[str], methods: list[str]) -> str:
    """Methods in rows, tasks in columns: mean (standard error over seeds), the best of a task in bold."""
    methods = [m for m in methods if any(values(records, t, m) for t in tasks)]
    rows = [["", *(f"{t}{' (RMSE)' if TASKS[t].metric == 'rmse' else ''}" for t in tasks)]]
    top = {t: best(records, t, methods) for t in tasks}
    for method in methods:
        rows.append([method, *(_cell(values(records, t, method), top[t] == method) for t in tasks)])
    return markdown(rows)


def _cell(found: dict[int, float], bold: bool) -> str:
    if not found:
        return "-"
    numbers = np.array(list(found.values()))
    error = f" ({numbers.std(ddof=1) / math.sqrt(len(numbers)):.2f})" if len(numbers) > 1 else ""
    mean = f"{numbers.mean():.2f}"
    return (f"**{mean}**" if bold else mean) + error


def compare(records: dict[Key, Record], task: str, method: str) -> tuple[Gain, str, Gain] | None:
    """Gain over uniform, the best alternative with the same network, gain over it; None without records."""
    ours, metric = values(records, task, method), TASKS[task].metric
    other = best(records, task, ALTERNATIVES)
    over_uniform = gain(ours, values(records, task, "uniform"), metric)
    over_other = gain(ours, values(records, task, other), metric) if other else None
    if other is None or over_uniform is None or over_other is None:
        return None
    return over_uniform, other, over_other


def default_table(records: dict[Key, Record], tasks: list[str], default: str) -> str:
    """A chosen default against uniform, and against the best alternative, task by task."""
    rows = [["task", "seeds", default, "gain over uniform", "best alternative", "gain over it"]]
    for task in tasks:
        compared = compare(records, task, default)
        if compared is not None:
            over_uniform, other, over_other = compared
            mean = float(np.mean(list(values(records, task, default).values())))
            verdict = " (worse)" if is_worse(over_uniform, TASKS[task].metric) else ""
            seeds = str(over_uniform.seeds)
            rows.append([task, seeds, f"{mean:.2f}", f"{over_uniform}{verdict}", other, str(over_other)])
    return markdown(rows) if len(rows) > 1 else f"No records of {default} yet."


def is_worse(over_uniform: Gain, metric: str) -> bool:
    """Whether the 95% interval lies wholly below what the goals allow to lose; False for one seed."""
    return over_uniform.mean + over_uniform.half < WORSE[metric]


HEAD = ["method", "tasks", "seeds", "points over uniform", "% RMSE", "worst task", "worse than uniform"]
HEAD += ["points over the best alternative", "% RMSE", "above it", "above it less 0.5"]


def ranking(records: dict[Key, Record], tasks: list[str], methods: list[str]) -> str:
    """Methods by their mean gain in accuracy over the best alternative: those with records of every fitting task.

    Points of accuracy and percents of RMSE are averaged apart: a unit error makes the latter as large as it likes.
    """
    lines = [row for method in methods if (row := _ranked(records, tasks, method))]
    return markdown([HEAD, *sorted(lines, key=lambda row: math.inf if row[7] == "-" else -float(row[7]))])


def divergence_table(records: dict[Key, Record], tasks: list[str]) -> str:
    """The gains of the divergences over uniform weights, in the order of the library's table."""
    found = [_ranked(records, tasks, name) or [name] + ["-"] * 6 for name in DIVERGENCES]
    return markdown([row[:7] for row in (["divergence", *HEAD[1:]], *found)])


def _ranked(records: dict[Key, Record], tasks: list[str], method: str) -> list[str] | None:
    """The row of a method below ``HEAD``; None without records of a fitting task."""
    fitting = [task for task in tasks if fits(method, TASKS[task])]
    compared = {task: found for task in fitting if (found := compare(records, task, method))}
    if not compared or len(compared) < len(fitting):
        return None
    over_uniform = {task: found[0].mean for task, found in compared.items()}
    over_other = {task: found[2].mean for task, found in compared.items()}
    worst = min(over_uniform, key=over_uniform.__getitem__)
    worse = sum(is_worse(found[0], TASKS[task].metric) for task, found in compared.items())
    seeds = sorted({found[0].seeds for found in compared.values()})
    row = [method, str(len(compared)), f"{seeds[0]}-{seeds[-1]}" if len(seeds) > 1 else str(seeds[0])]
    row += [*_means(over_uniform), f"{over_uniform[worst]:+.2f} ({worst})", str(worse)]
    row += [*_means(over_other), str(sum(g > 0 for g in over_other.values()))]
    return [*row, str(sum(g >= CLOSE for g in over_other.values()))]


def _means(gains: dict[str, float]) -> list[str]:
    """Mean gain on tasks that are measured by accuracy, and on those measured by RMSE; "-" where there is none."""
    parts = ([g for task, g in gains.items() if TASKS[task].metric == metric] for metric in ("accuracy", "rmse"))
    return [f"{np.mean(part):+.2f}" if part else "-" for part in parts]


_MARKED = re.compile(r"(<!-- gauntlet: (\w+) -->\n).*?(<!-- end of gauntlet -->)", re.DOTALL)


DEFAULT = "default"  # the method of the last table of a half: the default of the library


def draw(text: str, records: dict[Key, Record], halves: dict[Half, list[str]], tuned: str) -> str:
    """The page with the tables that it marks: of a half, as far as the default has run on its tasks, or of a kind."""
    records = comparable(records)

    def tables(match: re.Match[str]) -> str:
        if match[2] in ("tuned", "divergences"):
            drawn = tuned if match[2] == "tuned" else divergence_table(records, halves["development"])
            return f"{match[1]}\n{drawn}\n\n{match[3]}"
        tasks, methods = [task for task in halves[match[2]] if values(records, task, DEFAULT)], shown(match[2])
        parts = [means_table(records, tasks, methods), ranking(records, tasks, methods)]
        parts.append(default_table(records, tasks, DEFAULT))
        return "\n\n".join([match[1].rstrip(), *parts, match[3]])

    return _MARKED.sub(tables, text)


def markdown(rows: list[list[str]]) -> str:
    """Rows, the head first, as a Markdown table with numbers to the right."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "| --- |" + " ---: |" * (len(rows[0]) - 1), *body])
