"""All checks of this folder one after another, or those that are named: ``python -m torture kills flips``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from torture.commit import commit

FOLDER = Path(__file__).parent


def checks() -> list[str]:
    """The modules of this folder that have a ``main``, other than this one."""
    has_main = re.compile(r"^def main\(", re.MULTILINE)
    files = sorted(file for file in FOLDER.glob("*.py") if file.stem != "__main__")
    return [file.stem for file in files if has_main.search(file.read_text(encoding="utf-8"))]


def run(names: list[str]) -> list[str]:
    """Run these checks, each in a process of its own: the names of those that found something."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # bit for bit, and kind to others
    alone["ADIW_COMMIT"] = commit()  # as it is now, for all of them
    return [name for name in names if subprocess.run([sys.executable, "-m", f"torture.{name}"], env=alone).returncode]


if __name__ == "__main__":
    failed = run(sys.argv[1:] or checks())
    sys.exit(f"something went wrong in {', '.join(failed)}: see results/torture" if failed else 0)
