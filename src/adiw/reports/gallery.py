"""The pictures that a run kept of its lowest and highest weights, as part of a page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adiw.experiments.sealed import read_array, read_json
from adiw.reports.markup import attribute
from adiw.reports.page_model import Page

MANY, FEWER = 6, 12  # with more galleries than this, fewer pictures of each end: pages should stay light
SMALL = 48  # pixels: smaller pictures are shown with sharp pixels


@dataclass(frozen=True)
class Picture:
    """A training sample to look at."""

    index: int
    weight: float
    given: str
    true: str | None
    predicted: str
    end: str  # "lowest" or "highest" weight, or "least trusted"
    pixels: NDArray[np.uint8]  # (height, width, channels)

    @property
    def image(self) -> str:
        """An img element that carries its file."""
        kind = "sharp" if max(self.pixels.shape[:2]) < SMALL else "smooth"
        text = attribute(f"training sample {self.index}, given label {self.given}")
        return f'<img class="{kind}" loading="lazy" src="{data_uri(self.pixels)}" alt={text}>'


def load_gallery(folder: Path) -> list[Picture]:
    """The pictures of a run; none where it kept none."""
    if not all((folder / name).exists() for name in ("gallery.npy", "gallery.json")):
        return []
    pixels = read_array(folder / "gallery.npy")
    entries = read_json(folder / "gallery.json")["pictures"]
    names = class_names(folder)
    return [_picture(entry, one, names) for entry, one in zip(entries, pixels, strict=True)]


def class_names(folder: Path) -> list[str]:
    """The names of a run's labels; none where they were not kept."""
    file = folder / "classes.json"
    return [str(name) for name in read_json(file)] if file.exists() else []


def name_of(label: int, names: list[str]) -> str:
    """A label's name, or its number.

    >>> name_of(1, ["ant", "bee"]), name_of(1, [])
    ('bee', '1')
    """
    return names[label] if label < len(names) else str(label)


def data_uri(pixels: NDArray[np.uint8]) -> str:
    """A (height, width, channels) picture as a PNG inside an address."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError('pictures need Pillow: install it with pip install "adiw[cli]"') from None
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def galleries(page: Page) -> str:
    """A gallery for each row and column, of its first finished trial that kept pictures."""
    found = {}
    for column in page.columns:
        for row in page.rows:
            folders = [t.folder for t in page.of(row, column) if t.status == "done" and t.folder is not None]
            found[row, column] = next((pictures for folder in folders if (pictures := load_gallery(folder))), [])
    shown = {key: pictures for key, pictures in found.items() if pictures}
    if not shown:
        return ""
    each = FEWER if len(shown) > MANY else None
    first = dict(reversed([(column, row) for row, column in shown]))  # one is open in each column
    parts = [_details(page, row, column, shown[row, column], each, first[column] == row) for row, column in shown]
    text = "Training samples with the lowest and the highest weight at the end, of each method's first finished run."
    if any(picture.true is not None for pictures in shown.values() for picture in pictures):
        text += " A coloured frame marks a label that is wrong."
    return f'<section id="gallery"><h2>Samples</h2><p class="quiet">{text}</p>{"".join(parts)}</section>'


def _details(page: Page, row: str, column: str, pictures: list[Picture], each: int | None, opened: bool) -> str:
    name = f"{row}, {column}" if len(page.columns) > 1 else row
    parts = ""
    for end in ("lowest", "highest"):
        chosen = [picture for picture in pictures if picture.end == end][:each]
        parts += f"<h3>The {len(chosen)} {end} weights</h3>"
        parts += f'<div class="pictures">{"".join(map(_figure, chosen))}</div>'
    head = f'<details class="of" data-name={attribute(row)} data-column={attribute(column)}{" open" * opened}>'
    return f"{head}<summary>{escape(name)}</summary>{parts}</details>"


def _figure(picture: Picture) -> str:
    wrong = picture.true is not None and picture.true != picture.given
    lines = [("weight", f"{picture.weight:.3g}"), ("label", picture.given), ("predicted", picture.predicted)]
    lines += [("truth", picture.true)] if picture.true is not None else []
    words = "".join(f"<span><i>{key}</i> {escape(value)}</span>" for key, value in lines)
    head = f'<figure class="picture{" wrong" * wrong}">{picture.image}<figcaption>'
    return f"{head}{words}</figcaption></figure>"


def _picture(entry: dict[str, Any], pixels: NDArray[np.uint8], names: list[str]) -> Picture:
    true = None if entry["true"] is None else name_of(entry["true"], names)
    given, predicted = (name_of(entry[key], names) for key in ("given", "predicted"))
    return Picture(entry["index"], entry["weight"], given, true, predicted, entry["end"], pixels)
