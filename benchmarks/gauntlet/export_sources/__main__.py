"""``python -m benchmarks.gauntlet.export_sources DEST``: write DEST/confirmation/, for machines without the packages.

The versions of the packages decide what the files hold: ``confirmation.sha256`` has the digests of those in use.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.gauntlet.export_sources import characters, fragments, languages, python_code, zones

TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "characters": characters.properties,
    "functions": python_code.table,
    "code": python_code.texts,
    "languages": languages.names,
    "zones": zones.table,
}
ARRAYS: dict[str, Callable[[], dict[str, Any]]] = {"glyphs": characters.glyphs, "fragments": fragments.pieces}


def export(folder: Path) -> None:
    """Write all files. The same data give the same bytes: no time is recorded in them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make_table in TABLES.items():
        text = make_table().to_csv(index=False)
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    for name, make_arrays in ARRAYS.items():
        file = BytesIO()
        np.savez_compressed(file, **make_arrays())
        (folder / f"{name}.npz").write_bytes(file.getvalue())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m benchmarks.gauntlet.export_sources DEST, for example data")
    export(Path(sys.argv[1]) / "confirmation")
