"""The goals for the time of a training step on the GPU, drawn beside the measured ratios and those of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adiw.experiments.recipes import load as load_recipe
from tables import grid, heading, load

RECIPES = {"cifar10": "cifar10-noise", "fashion-mnist": "fmnist-noise", "imagenet": "imagenet-noise"}
COLUMN = "0.4 symmetric"  # of the paper's tables
FULL = "full validation pass"
# (workload, method, variant or "") -> the largest ratio of its step to a uniform one.
GOALS = {
    ("cifar10", "adiw-kl", FULL): 1.30,
    ("cifar10", "adiw-kl", ""): 1.10,
    ("cifar10", "adiw-km", ""): 1.12,
    ("cifar10", "adiw-ls", ""): 1.12,
    ("cifar10", "adiw-wa", ""): 1.12,
    ("cifar10", "l2r", ""): 3.0,
    ("cifar10", "mw-net", ""): 4.0,
    ("fashion-mnist", "adiw-kl", ""): 1.25,
    ("imagenet", "adiw-km", ""): 1.08,
    ("imagenet", "adiw-kl", ""): 1.08,
    ("imagenet", "adiw-ls", ""): 1.08,
    ("imagenet", "adiw-wa", ""): 1.08,
}


def measured(results: Path, workload: str, method: str, variant: str) -> tuple[float, float]:
    """The ratios of a compiled and of a captured step; those of other variants may have their own record."""
    files = [results / f"steps-{workload}-cuda{name}.json" for name in ("-probes", "")]
    rows = [row for file in files for row in (load(file) or {"rows": []})["rows"] if row["method"] == method]
    ratios = {heading(row["variant"]): row.get("ratio") for row in rows}
    return ratios["compiled" + (f", {variant}" if variant else "")], ratios[variant or "captured"]


def of_paper(workload: str, method: str) -> str:
    """The paper's seconds per epoch of a method divided by those of uniform weights; "-" where it has none."""
    recipe = load_recipe(RECIPES[workload])
    at = [column.label for column in recipe.columns].index(COLUMN)
    label = next(row.label for row in recipe.rows if row.settings["method"] == method)
    seconds: dict[str, Any] = recipe.paper["seconds"]
    own, uniform = (seconds[name][at] for name in (label, "Uniform"))
    return f"{own / uniform:.2f}" if own else "-"


def table(results: Path) -> str | None:
    """One row for each goal; None without the records."""
    if not all((results / f"steps-{workload}-cuda.json").is_file() for workload in RECIPES):
        return None
    lines = []
    for (workload, method, variant), goal in GOALS.items():
        name = ", ".join(filter(None, (workload, method, variant)))
        ratios = [f"{ratio:.3f}" for ratio in measured(results, workload, method, variant)]
        lines.append([name, of_paper(workload, method), f"{goal:.2f}", *ratios])
    return grid(["step relative to uniform", "paper", "goal", "compiled", "captured"], lines)
