"""The time of a training step of every method relative to a uniform one, measured side by side.

    python benchmarks/steps.py fashion-mnist [--device cuda] [--quick] [--budget 60] [--out benchmarks/results]

The workloads are in workloads.py, the columns of the table in cases.py. Images are generated before timing starts.
A step is complete: gather the batch, forward, weights, backward, update. Epochs of up to 1.5 seconds are timed as a
whole; the time of longer epochs is the time of a step multiplied by the steps of an epoch of the real data set.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import timing
from cases import BASE, METHODS, ON_CPU, ON_GPU, QUICK, Case, Variant, collect
from record import RESULTS, Record, describe, first_line
from timing import Plan, Timed
from workloads import WORKLOADS, Workload

SKIPPED = "there was no time left"
SHORT = 1.5  # seconds: shorter epochs are timed as a whole
Row = dict[str, Any]


@dataclass
class Bench:
    """One workload on one device: its data, and the uniform cases that the others are compared with."""

    workload: Workload
    device: torch.device
    plan: Plan
    folder: Path
    workers: int = 1
    deadline: float = math.inf
    bases: dict[str, Case | Row] = field(default_factory=dict)  # by engine; a row with the error where it failed
    known: dict[tuple[str, str], Row] = field(default_factory=dict)  # by engine and settings

    def __post_init__(self) -> None:
        self.splits = self.workload.make(self.workload, self.device, self.folder)
        if self.device.type == "cuda":
            torch.cuda.synchronize()  # each run uses its own stream

    def rows(self, title: str, variant: Variant) -> Iterator[list[Row]]:
        """Measure a variant in groups of methods; yield the rows of each group."""
        others = [method for method in variant.methods if method != BASE]
        size = max(1, self.workload.together - 1)
        for start in range(0, len(others), size):
            methods = others[start : start + size]
            if time.monotonic() + variant.costs > self.deadline:
                yield [_row(title, variant, method, skipped=SKIPPED) for method in methods]
            else:
                yield self._group(title, variant, methods, start == 0 and BASE in variant.methods)
            collect()

    def _group(self, title: str, variant: Variant, methods: list[str], with_base: bool) -> list[Row]:
        """The rows of uniform and of these methods, timed alternately."""
        base = self._base(variant)
        cases: dict[str, Case] = {BASE: base} if isinstance(base, Case) else {}
        rows: dict[str, Row] = {} if isinstance(base, Case) else {BASE: base}
        for method in methods:
            case = self._start(title, variant, method)
            (cases if isinstance(case, Case) else rows)[method] = case  # type: ignore[assignment]
        timed = timing.interleave(cases, self.plan, self.deadline)
        for method, case in cases.items():
            rows[method] = self._measured(title, variant, method, case, timed)
            self.known.setdefault((variant.engine, case.in_words), rows[method])
        return [rows[method] | {"variant": title} for method in ([BASE] if with_base else []) + methods]

    def _base(self, variant: Variant) -> Case | Row:
        if variant.engine not in self.bases:
            self.bases[variant.engine] = self._start("", Variant(variant.engine, (BASE,)), BASE)
        return self.bases[variant.engine]

    def _start(self, title: str, variant: Variant, method: str) -> Case | Row:
        """A case that is ready to be timed, or a row with the reason why there is none."""
        given = {**METHODS[method], **variant.given(self.workload.settings({}).val_batch)}
        try:
            case = Case(self.workload.settings(given), self.splits, self.device, variant.engine, self.workers)
            same = self.known.get((variant.engine, case.in_words))
            if same is not None and method != BASE:
                return {**same, "same_as": same["variant"]}
            case.warm_up()
        except Exception as error:
            return _row(title, variant, method, error=first_line(error))
        return case

    def _measured(self, title: str, variant: Variant, method: str, case: Case, timed: dict[str, Timed]) -> Row:
        mine, base, base_case = timed[method], timed.get(BASE, Timed()), self.bases[variant.engine]
        if mine.median is None:
            return _row(title, variant, method, error=mine.error)
        uniform_peak = base_case.peak if isinstance(base_case, Case) else None
        return _row(
            title,
            variant,
            method,
            ms=1000 * mine.median,
            uniform_ms=None if base.median is None else 1000 * base.median,
            ratio=mine.over(base),
            rounds_ms=[1000 * seconds for seconds in mine.seconds],
            steps_each_round=mine.per_round or len(case.loader),
            **self._epoch(case, mine.median),
            peak_mib=None if case.peak is None else case.peak / 2**20,
            peak_ratio=case.peak / uniform_peak if case.peak and uniform_peak else None,
            captured=case.captured,
            settings=case.in_words,
            notes=case.log,
        )

    def _epoch(self, case: Case, step: float) -> Row:
        """Seconds of an epoch: timed where it is short and the data set is complete, otherwise extrapolated."""
        shape = self.workload.shape
        steps = shape.epoch // case.settings.batch
        if shape.count == shape.epoch and steps * step < SHORT:
            return {"seconds_per_epoch": case.whole_epoch(), "epoch_measured": True}
        return {"seconds_per_epoch": steps * step, "epoch_measured": False}


def _row(title: str, variant: Variant, method: str, **found: Any) -> Row:
    return {"method": method, "variant": title, "engine": variant.engine, **found}


def measure(bench: Bench, variants: dict[str, Variant], record: Record) -> None:
    """Measure all variants; the record is written after each group."""
    for title, variant in variants.items():
        for rows in bench.rows(title, variant):
            record.add(*rows)
            for row in rows:
                print(_line(row), flush=True)


def chosen_variants(workload: Workload, device: torch.device, quick: bool) -> dict[str, Variant]:
    """The columns for a workload."""
    table = ON_GPU if device.type == "cuda" else ON_CPU
    if quick and device.type == "cuda":
        table = {title: table[title] for title in QUICK}
    if not workload.compiled:
        table = {title: variant for title, variant in table.items() if variant.engine != "compiled"}
    return table


def _line(row: Row) -> str:
    name = f"{row['variant']:14s} {row['method']:24s}"
    if row.get("ms") is None:
        return f"{name} {row.get('error') or row.get('skipped')}"
    ratio = "" if row["ratio"] is None else f"x{row['ratio']:.3f}"
    same = f"(as {row['same_as']})" if row.get("same_as") else ""
    return f"{name} {row['ms']:9.3f} ms  {ratio} {same} {'; '.join(row['notes'])}"


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="fewer columns, rounds and steps")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no case is started")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--variants", nargs="*", help="only these columns")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--times", type=int, help="steps of a case in all rounds together")
    parser.add_argument("--images", type=int, help="number of training images, for a smaller run")
    parser.add_argument("--batch", type=int, help="batch size, instead of that of the workload")
    return parser.parse_args(given)


def plan_of(options: argparse.Namespace, loader: bool) -> Plan:
    """The plan of the options; a loader is timed by two whole epochs."""
    plan = timing.QUICK if options.quick else Plan()
    if options.device == "cpu":  # other processes disturb it: more and shorter rounds
        plan = Plan(rounds=5, times=25, limit=1.0, least=3) if options.quick else Plan(11, 99, 3.0, least=3)
    if loader:
        plan = Plan(rounds=2, times=0)
    return replace(plan, rounds=options.rounds or plan.rounds, times=plan.times and (options.times or plan.times))


def columns(options: argparse.Namespace, workload: Workload, loader: bool) -> dict[str, Variant]:
    """The variants of the options; through a loader only the first, as the loader takes most of the time."""
    variants = chosen_variants(workload, torch.device(options.device), options.quick)
    if loader:
        variants = dict(list(variants.items())[:1])
    unknown = set(options.variants or ()) - variants.keys()
    if unknown:
        raise SystemExit(f"unknown column {', '.join(sorted(unknown))}: expected some of {', '.join(variants)}")
    chosen = options.variants or list(variants)
    return {title: variant for title, variant in variants.items() if title in chosen}


def main(given: list[str] | None = None) -> None:
    options = arguments(given)
    deadline = time.monotonic() + options.budget
    device, loader = torch.device(options.device), options.workload.endswith("folder")
    workload = WORKLOADS[options.workload].cut(options.images, options.batch)
    variants = columns(options, workload, loader)
    workers = min(16, os.cpu_count() or 1)
    heading = {
        "title": workload.title,
        "images": workload.shape.count,
        "batch": workload.settings({}).batch,
        "workers": workers if loader else None,
    }
    name = f"steps-{options.workload}-{device.type}.json"
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(workload, device, plan_of(options, loader), Path(folder), workers, deadline)
        measure(bench, variants, Record(options.out / name, **heading, **describe(device=device.type)))


if __name__ == "__main__":
    main()
