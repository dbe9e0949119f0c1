"""Run all checks of this folder, or the named ones: ``python -m torture kills bit_flips``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from torture.commit import commit

FOLDER = Path(__file__).parent


def checks() -> list[str]:
    """The modules of this folder that have a ``main``, except this one."""
    has_main = re.compile(r"^def main\(", re.MULTILINE)
    files = sorted(file for file in FOLDER.glob("*.py") if file.stem != "__main__")
    return [file.stem for file in files if has_main.search(file.read_text(encoding="utf-8"))]


def run(names: list[str]) -> list[str]:
    """Run these checks, each in its own process; return the names of those that fail."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # results must be equal bit for bit
    # The commit is that of the start: the checks write files, which would make the tree dirty.
    given = {**os.environ, **threads, "ADIW_COMMIT": commit()}
    return [name for name in names if subprocess.run([sys.executable, "-m", f"torture.{name}"], env=given).returncode]


if __name__ == "__main__":
    failed = run(sys.argv[1:] or checks())
    sys.exit(f"failed: {', '.join(failed)}; see results/torture" if failed else 0)
