"""Unicode: images of characters in the fonts of matplotlib, and a table of the properties of all characters."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from fontTools.ttLib import TTFont
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

SCRIPTS = (
    *("LATIN", "GREEK", "CYRILLIC", "ARABIC", "CANADIAN"),
    *("BRAILLE", "GEORGIAN", "ARMENIAN", "HEBREW", "LAO"),
)
SIDE = 28  # pixels
EACH = 1600  # images of a script, at most
CATEGORIES = ("Lo", "So", "Ll", "Mn", "Lu", "Sm", "No", "Nd", "Po", "Mc", "Lm", "Nl")


def glyphs() -> dict[str, NDArray[Any]]:
    """``images`` (n, 784) bytes, ``script`` (n,) and ``character`` (n,) code points: a character in several fonts."""
    found: dict[str, list[tuple[Path, int]]] = {script: [] for script in SCRIPTS}
    for font in sorted((Path(matplotlib.get_data_path()) / "fonts/ttf").glob("DejaVu*.ttf")):
        for point in TTFont(font).getBestCmap():
            found.get(unicodedata.name(chr(point), "?").split()[0], []).append((font, point))
    rng = np.random.default_rng(0)
    chosen = [
        (label, *cells[i])
        for label, cells in enumerate(found.values())
        for i in sorted(rng.permutation(len(cells))[:EACH])
    ]
    fonts = {font: ImageFont.truetype(font, 20) for font in {font for _, font, _ in chosen}}
    return {
        "images": np.stack([_image(chr(point), fonts[font]) for _, font, point in chosen]),
        "script": np.array([label for label, _, _ in chosen], np.int64),
        "character": np.array([point for _, _, point in chosen], np.int64),
    }


def _image(character: str, font: ImageFont.FreeTypeFont) -> NDArray[Any]:
    image = Image.new("L", (SIDE, SIDE))
    ImageDraw.Draw(image).text((SIDE / 2, SIDE / 2), character, fill=255, font=font, anchor="mm")
    return np.asarray(image).reshape(-1)


def properties() -> pd.DataFrame:
    """One row for each named character outside the two scripts that name theirs by a rule."""
    points = (p for p in range(sys.maxunicode + 1) if unicodedata.category(chr(p)) in CATEGORIES)
    rows = [_row(p, name) for p in points if (name := unicodedata.name(chr(p), ""))]
    table = pd.DataFrame(rows)
    return table[~table.pop("first").isin(["CJK", "HANGUL"])]


def _row(point: int, name: str) -> dict[str, Any]:
    character = chr(point)
    return {
        "category": unicodedata.category(character),
        "first": name.split()[0],
        "point": point,
        "in_block": point % 256,
        "bidirectional": unicodedata.bidirectional(character),
        "width": unicodedata.east_asian_width(character),
        "mirrored": str(bool(unicodedata.mirrored(character))),
        "decomposition": unicodedata.decomposition(character).count(" "),
        "bytes": len(character.encode()),
        "name_letters": len(name),
        "name_words": name.count(" ") + 1,
        "name_hyphens": name.count("-"),
        "name_digits": sum(letter.isdigit() for letter in name),
    }
