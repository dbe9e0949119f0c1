"""``python -m benchmarks.gauntlet.verdicts``: how often verdicts are wrong, on the tasks of the gauntlet.

For each task, method and seed, a part of the trusted samples is held out, and the method and the alternatives are
trained on the rest. The verdict is given on the held-out samples, and judged by the test samples, which are many.
With ``--folds K`` every trusted sample is held out once, by K trainings of each.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adiw.experiments.settings import HOLD_OUT
from adiw.reweighting.diagnostics.verdict import answer_of
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.task import Sources, Split
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.watched import Key, chosen, compare, measure, parser, read, share, train_watched
from benchmarks.record import describe

RESULTS = Path(__file__).with_name("verdicts.jsonl")
REFERENCES = ("uniform", "fine-tune", "trusted-only", "mixed")  # the first is what one would do without weights
FIELDS = ("task", "method", "seed", "folds")


def hold_out(split: Split, number: int, folds: int) -> tuple[Split, int]:
    """The split without a part of its trusted samples, which come first among the test samples; their number."""
    m = len(split.y_trusted)
    order = torch.randperm(m, generator=torch.Generator().manual_seed(0))
    out = torch.zeros(m, dtype=torch.bool)
    out[order[: round(HOLD_OUT * m)] if folds == 1 else order[number::folds]] = True
    x, y = split.x_trusted, split.y_trusted
    test = {"x_test": torch.cat([x[out], split.x_test]), "y_test": torch.cat([y[out], split.y_test])}
    return replace(split, x_trusted=x[~out], y_trusted=y[~out], focus=None, **test), int(out.sum())


def judge(key: Key, sources: Sources) -> dict[str, Any]:
    """Train everything for one verdict, and judge it: its record."""
    task, (_, method, seed, folds) = TASKS[key[0]], key
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start, whole = time.process_time(), task.splits(sources, seed)[0]
    held_out: dict[str, list[Tensor]] = {name: [] for name in ("", *REFERENCES)}
    test: dict[str, Tensor] = {}
    targets, watched = [], []
    for number in range(folds):
        split, count = hold_out(whole, number, folds)
        torch.manual_seed(seed)
        watched.append(train_watched(method, split, task))
        outputs = {"": watched[-1].predicted}
        for name in REFERENCES:
            torch.manual_seed(seed)
            outputs[name] = METHODS[name].run(split, task.length).predicted
        targets.append(split.y_test[:count])
        for name, predicted in outputs.items():
            held_out[name].append(predicted[:count])
            test.setdefault(name, predicted[count:])
    pooled, classes = {name: torch.cat(parts) for name, parts in held_out.items()}, whole.num_classes
    given = [compare(name, pooled[""], pooled[name], torch.cat(targets), classes) for name in REFERENCES]
    truth = [compare(name, test[""], test[name], whole.y_test, classes) for name in REFERENCES]
    first = watched[0].verdict
    return {
        **dict(zip(FIELDS, key, strict=True)),
        "answer": answer_of(given),
        "shift": asdict(first.shift),
        "after": None if first.after is None else asdict(first.after),
        "held_out": [asdict(each) for each in given],
        "test": [asdict(each) for each in truth],
        "settings": {"task": task.settings(), "references": REFERENCES},
        "cpu_seconds": round(time.process_time() - start, 2),
        **describe("adiw"),
    }


def summary(found: list[dict[str, Any]]) -> str:
    """Counts of right and wrong verdicts, as text."""

    def sign(row: dict[str, Any]) -> int:
        return (row["low"] > 0) - (row["high"] < 0)

    by = {answer: [r for r in found if r["answer"] == answer] for answer in ("helps", "does no good", "cannot tell")}
    no_help = [r for r in by["helps"] if r["test"][0]["difference"] <= 0]
    good = [
        r
        for r in by["does no good"]
        if all(t["difference"] > 0 for g, t in zip(r["held_out"], r["test"], strict=True) if sign(g) < 0)
    ]
    clear = [r for r in found if sign(r["test"][0]) != 0]
    lines = [
        f"verdicts: {len(found)}; " + ", ".join(f"{name} {len(part)}" for name, part in by.items()),
        f"'helps' is wrong: {share(no_help, by['helps'])}",
        f"'does no good' is wrong: {share(good, by['does no good'])}",
        f"'cannot tell' where the test set differs significantly from uniform: "
        f"{share([r for r in clear if r['answer'] == 'cannot tell'], clear)}",
        *(f"  wrong: {r['task']} {r['method']} {r['seed']}: {r['answer']}" for r in (*no_help, *good)),
    ]
    return "\n".join(lines)


def main(given: list[str] | None = None) -> None:
    made = parser("verdicts", __doc__, RESULTS)
    made.add_argument("--folds", type=int, default=1, help=f"1 holds out {HOLD_OUT:g} of the trusted samples")
    arguments = made.parse_args(given)
    keys: list[Key] = [(*key, arguments.folds) for key in chosen(arguments)]
    measure(judge, keys, FIELDS, arguments)
    found = read(arguments.results, FIELDS)
    print(summary([found[key] for key in keys if key in found]))


if __name__ == "__main__":
    main()
