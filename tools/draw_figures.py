"""Draw the figures of the pages: ``python tools/draw_figures.py [FOLDER]``; the folder is docs/figures by default.

Measured figures come from the records under results/ and paper/results/; those of single steps are computed here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor

from adiw import estimate_weights
from adiw.divergences import DIVERGENCES, KL, MMD
from adiw.divergences.protocol import Side
from adiw.reports.figures import INTACT, MISLABELLED, row_styles, styled
from adiw.reports.folders import read_sweep
from adiw.reports.results import Results

ROOT = Path(__file__).parents[1]
NARROW, RIGHT, WIDE = 0.02, 0.5, 10.0
STEPS = 25
OURS = {"fmnist-noise-ours": "Fashion-MNIST", "cifar10-noise-ours": "CIFAR-10"}


def losses() -> tuple[Tensor, Tensor, Tensor]:
    """Simulated losses after some epochs: of 120 correct labels, 80 wrong labels and 100 trusted samples."""
    random = Generator().manual_seed(0)
    right = -0.35 * torch.rand(220, generator=random).log()  # exponential: most are small
    wrong = 3.5 + torch.randn(80, generator=random)
    return right[:120], wrong, right[120:]


def widths() -> Figure:
    """The weights that KL gives with a kernel that is too narrow, about right, and too wide."""
    right, wrong, val = losses()
    z = torch.cat([right, wrong])
    figure = Figure(figsize=(8.4, 2.9), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    names = {"too narrow": NARROW, "about right": RIGHT, "too wide": WIDE}
    for axes, (name, width) in zip(panels, names.items(), strict=True):
        weights, _ = estimate_weights(z, val, KL(width=width), steps=20)
        for label, part, colour, marker in (
            ("right label", slice(0, 120), INTACT, "o"),
            ("wrong label", slice(120, None), MISLABELLED, "^"),
        ):
            axes.plot(z[part], weights[part], marker, color=colour, label=label, markersize=3, markeredgewidth=0)
        axes.set_title(f"{name}: width {width:g}", loc="left")
        axes.set(xlabel="loss")
    panels[0].set(ylabel="weight")
    panels[0].legend(loc="upper right")
    return figure


def ratios() -> Figure:
    """Weights against losses of the divergences that estimate a density ratio."""
    return _family("val")


def distances() -> Figure:
    """Weights against losses of the divergences that match distributions by a distance."""
    return _family("train")


def _family(side: Side) -> Figure:
    """The weights of a batch after twenty steps with the default settings, for divergences with these parameters."""
    names = [name for name, kind in DIVERGENCES.items() if kind.side == side]
    right, wrong, val = losses()
    parts = {"right label": (right[::2], INTACT, "o"), "wrong label": (wrong[::2], MISLABELLED, "^")}
    z = torch.cat([part for part, _, _ in parts.values()])
    columns = -(-len(names) // 2)
    figure = Figure(figsize=(2.8 * columns, 4.6), layout="constrained")
    panels = figure.subplots(2, columns, sharex=True)
    for axes, name in zip(panels.flat, names, strict=False):
        weights, _ = estimate_weights(z, val, name, steps=20)
        for (label, (part, colour, marker)), found in zip(
            parts.items(), weights.split([len(part) for part, _, _ in parts.values()]), strict=True
        ):
            axes.plot(part, found, marker, color=colour, label=label, markersize=3, markeredgewidth=0)
        axes.set_title(name, loc="left")
    for axes in panels[:, 0]:
        axes.set(ylabel="weight")
    for axes in panels[-1]:
        axes.set(xlabel="loss")
    panels.flat[0].legend(loc="upper right")
    return figure


def overshoot() -> Figure:
    """Repeated steps of MMD on losses of which many are nearly equal: the plain step and the local step."""
    right, wrong, val = losses()
    z, val = torch.cat([right / 10, wrong]), val / 10  # as if the network had learnt most samples
    figure = Figure(figsize=(8.4, 2.9), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, step in zip(panels, ("plain", "local"), strict=True):
        divergence = MMD(width=0.1, step=step)
        axes.plot(_means(z, val, divergence, slice(0, 120)), color=INTACT, label="right labels")
        axes.plot(_means(z, val, divergence, slice(120, None)), color=MISLABELLED, label="wrong labels")
        axes.set_title(f'step="{step}"', loc="left")
        axes.set(xlabel="steps on the same batch")
    panels[0].set(ylabel="mean weight")
    panels[1].legend(loc="center right")
    return figure


def _means(z: Tensor, val: Tensor, divergence: MMD, part: slice) -> list[float]:
    """The mean weight of a part of the batch, before and after each step."""
    found, state = [1.0], None
    for _ in range(STEPS):
        weights, state = estimate_weights(z, val, divergence, state=state)
        found.append(float(weights[part].mean()))
    return found


def measured_widths() -> Figure:
    """Accuracy over the width, from the records of digits-widths; "auto" is a mark at the right."""
    sweep = read_sweep(ROOT / "paper" / "results" / "digits-widths")
    numbers = [column for column in sweep.columns if column != "auto"]
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", xlabel="width", ylabel="accuracy (%), selection split")
    at_auto = 4 * float(numbers[-1])
    for row, style in row_styles(sweep.rows).items():
        figures = [_mean(sweep, row, column) for column in numbers]
        (line,) = axes.plot([float(n) for n in numbers], figures, color=style.colour, marker=style.marker, label=row)
        line.set(dashes=style.dashes, markersize=5)
        axes.plot(at_auto, _mean(sweep, row, "auto"), color=style.colour, marker=style.marker, markersize=7)
    axes.set_xticks([*(float(n) for n in numbers), at_auto], [*numbers, "auto"])
    axes.minorticks_off()
    figure.legend(loc="outside right upper", handlelength=3)
    return figure


def _mean(sweep: Results, row: str, column: str) -> float:
    figure = sweep.cells[row, column].figure("accuracy")
    return float("nan") if figure is None else figure.mean


def separation() -> Figure:
    """The mean weight of correct (solid) and wrong labels (dashed) after each epoch."""
    sweep = read_sweep(ROOT / "paper" / "results" / "digits-divergences")
    figure = Figure(figsize=(8.4, 3.3), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    shown = (("ADIW-KL", "ADIW-LS", "ADIW-WA"), ("ADIW-KM", "ADIW-KM, local step"))
    for axes, rows in zip(panels, shown, strict=True):
        for row in rows:
            _curves(axes, sweep, row, row_styles(sweep.rows)[row].colour)
        axes.set(xlabel="epoch", ylim=(0, 3.8))
        axes.legend(loc="upper left", ncols=len(rows))
    panels[0].set(ylabel="mean weight")
    return figure


def _curves(axes: Axes, sweep: Results, row: str, colour: str) -> None:
    """The first trial's mean weights."""
    trial = sweep.cells[row, "40% symmetric"].done[0]
    for name, line in (("weight_intact", "-"), ("weight_mislabelled", "--")):
        curve = trial.curves[name]
        label = row if line == "-" else None
        axes.plot(range(1, len(curve) + 1), curve, color=colour, linewidth=1.2, linestyle=line, label=label)


def accuracy_by_epoch() -> Figure:
    """Test accuracy with our settings at 0.4 symmetric noise: means over the trials and over every five epochs."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, title) in zip(panels, OURS.items(), strict=True):
        sweep = read_sweep(ROOT / "results" / name)
        for row, style in row_styles(sweep.rows).items():
            trials = sweep.cells[row, "0.4 symmetric"].done
            if trials:
                means = torch.tensor([trial.curves["accuracy"] for trial in trials]).mean(0).view(-1, 5).mean(1)
                (line,) = axes.plot(range(5, 5 * len(means) + 1, 5), means, color=style.colour, label=row)
                line.set(dashes=style.dashes, linewidth=1.2)
        axes.set_title(title, loc="left")
        axes.set(xlabel="epoch", ylim=(50, 92))
    panels[0].set(ylabel="test accuracy (%)")
    shown = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown.keys(), loc="outside right upper", handlelength=3)
    return figure


def overview() -> Figure:
    """Digits with 40% wrong labels: test accuracy without and with weights, and the mean weights, by epoch."""
    sweep = read_sweep(ROOT / "paper" / "results" / "digits-divergences")
    figure = Figure(figsize=(8.4, 2.9), layout="constrained")
    accuracy, weight = figure.subplots(1, 2)
    for row, name in (("Uniform", "uniform"), ("ADIW-KL", "adiw")):
        _mean_curve(accuracy, sweep, row, "accuracy", name, row_styles(sweep.rows)[row].colour)
    _mean_curve(weight, sweep, "ADIW-KL", "weight_intact", "right labels", INTACT)
    _mean_curve(weight, sweep, "ADIW-KL", "weight_mislabelled", "wrong labels", MISLABELLED)
    for axes, title in ((accuracy, "test accuracy (%)"), (weight, "mean weight")):
        axes.set_title(title, loc="left")
        axes.set(xlabel="epoch")
        axes.legend(loc="center right")
    return figure


def _mean_curve(axes: Axes, sweep: Results, row: str, measure: str, label: str, colour: str) -> None:
    """The mean over the finished trials, by epoch."""
    curves = torch.tensor([trial.curves[measure] for trial in sweep.cells[row, "40% symmetric"].done])
    axes.plot(range(1, curves.shape[1] + 1), curves.mean(0), color=colour, label=label)


FIGURES: dict[str, Callable[[], Figure]] = {
    "overview": overview,
    "widths": widths,
    "ratios": ratios,
    "distances": distances,
    "overshoot": overshoot,
    "measured-widths": measured_widths,
    "separation": separation,
    "accuracy-by-epoch": accuracy_by_epoch,
}


def main(folder: Path) -> list[Path]:
    """Draw every figure as SVG, identical in every run; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.svg" for name in FIGURES]
    with styled():
        mpl.rcParams.update({"svg.fonttype": "none", "font.family": "sans-serif"})  # keep text as text
        for file, draw in zip(files, FIGURES.values(), strict=True):
            draw().savefig(file, metadata={"Date": None, "Creator": None})
            file.write_text(re.sub(r"[ \t]+\n", "\n", file.read_text()))
    return files


if __name__ == "__main__":
    for file in main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "figures"):
        print(file)
