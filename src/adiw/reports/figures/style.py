"""The style of figures: a palette for colour-blind readers; dashes, markers and hatches for print in grey."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe and Ito's palette, without its yellow (too light on white) and with a grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2), (3, 1.5, 1, 1.5, 1, 1.5))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++", "ooo", "---")
INTACT, MISLABELLED = "#E69F00", "#009E73"  # orange and green, as in the paper
_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # embed text as text
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.hashsalt": "adiw",
}


@dataclass(frozen=True)
class RowStyle:
    """Colour, dashes, marker and hatch of a row; no two of the first forty rows share both colour and dashes."""

    colour: str
    dashes: tuple[float, ...]
    marker: str
    hatch: str


def row_styles(rows: Sequence[str]) -> dict[str, RowStyle]:
    """The style of each row by its position, so that a row has the same style in all figures of a sweep."""
    return {
        row: RowStyle(
            COLOURS[at % len(COLOURS)],
            DASHES[at % len(DASHES)],
            MARKERS[at % len(MARKERS)],
            HATCHES[(at + at // len(COLOURS)) % len(HATCHES)],
        )
        for at, row in enumerate(rows)
    }


@contextmanager
def styled() -> Iterator[None]:
    """Draw with these settings of matplotlib instead of the user's, which are restored afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PDF and PNG without date or version, so that the bytes are the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.pdf", folder / f"{name}.png"]
    figure.savefig(files[0], metadata={"CreationDate": None, "Creator": None, "Producer": None})
    figure.savefig(files[1], metadata={"Software": None})
    return files
