"""The pictures that a run kept of its lowest and highest weights and of its least trusted samples."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from adiw.experiments.audit_files import class_names
from adiw.experiments.checked_io import read_array, read_json
from adiw.reports.results import Results
from adiw.versions import require

MANY, FEWER = 6, 12  # above this many galleries, each shows fewer pictures, so that pages stay small
SMALL = 48  # pixels: smaller pictures are shown without smoothing


@dataclass(frozen=True)
class Picture:
    """A training sample: its positions, its weight, the names of its labels, and its pixels."""

    index: int  # in the run
    original: int  # in the training set before the shift
    weight: float
    given: str
    true: str | None
    predicted: str
    end: str  # "lowest" or "highest" weight, or "least trusted"
    pixels: NDArray[np.uint8]  # (height, width, channels)

    @property
    def image(self) -> Markup:
        """An img element that contains the file."""
        kind = "sharp" if max(self.pixels.shape[:2]) < SMALL else "smooth"
        text = f"training sample {self.original}, given label {self.given}"
        return Markup('<img class="{}" loading="lazy" src="{}" alt="{}">').format(kind, data_uri(self.pixels), text)


@dataclass(frozen=True)
class Gallery:
    """The pictures of a row in a column, by end."""

    row: str
    column: str
    ends: dict[str, list[Picture]]
    opened: bool


def load_pictures(folder: Path) -> list[Picture]:
    """The pictures of a run; an empty list where it kept none."""
    if not all((folder / name).exists() for name in ("gallery.npy", "gallery.json")):
        return []
    about, names = read_json(folder / "gallery.json"), class_names(folder)
    weights, all_labels = read_array(folder / "weights.npy"), read_array(folder / "labels.npy")
    shown = [(end, i) for end, index in about["ends"].items() for i in index]
    found = []
    for (end, i), pixels in zip(shown, read_array(folder / "gallery.npy"), strict=True):
        original, *labels = all_labels[:, i].tolist()
        given, true, predicted = (names[label] for label in labels)
        true = true if about["truth_known"] else None
        found.append(Picture(i, original, float(weights[i]), given, true, predicted, end, pixels))
    return found


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """A (height, width, channels) picture as a data URI of a PNG file."""
    require("pillow", "10", "cli")
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def galleries(results: Results) -> list[Gallery]:
    """For each cell the pictures of its first finished trial that kept some; one gallery of each column is open."""
    found: dict[tuple[str, str], list[Picture]] = {}
    for place, cell in results.cells.items():
        kept = filter(None, (load_pictures(trial.folder) for trial in cell.shown if trial.folder is not None))
        if any(_ends(pictures := next(kept, []), None).values()):
            found[place] = pictures
    ordered = sorted(found, key=lambda place: results.columns.index(place[1]))
    each = FEWER if len(found) > MANY else None
    first = dict(reversed([(column, row) for row, column in ordered]))
    return [Gallery(row, column, _ends(found[row, column], each), first[column] == row) for row, column in ordered]


def _ends(pictures: list[Picture], each: int | None) -> dict[str, list[Picture]]:
    return {end: [picture for picture in pictures if picture.end == end][:each] for end in ("lowest", "highest")}
