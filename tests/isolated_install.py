"""A folder with only some packages installed, as links into this environment; nothing is downloaded."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
TOOLS = {"all", "dev", "docs", "torture"}  # collections of extras, and tools of this repository


def closure(requirements: list[str]) -> dict[str, metadata.Distribution]:
    """The packages that ``pip install`` of these would install: normalised name -> package.

    They are read from the metadata of the installed packages; a missing one raises PackageNotFoundError.
    """
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    todo = [(Requirement(text), "") for text in requirements]
    while todo:
        requirement, requested_extra = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": requested_extra}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                found[name] = metadata.distribution(name)
                todo += [(Requirement(text), extra) for text in found[name].requires or []]
    return found


def install(folder: Path, requirements: list[str]) -> Path:
    """Link this project's package and the requirements' closure into ``folder``."""
    folder.mkdir()
    (folder / "adiw").symlink_to(ROOT / "src" / "adiw")
    for package in closure(requirements).values():
        for top in {file.parts[0] for file in package.files or [] if file.parts[0] != ".."}:
            link = folder / top
            if top != "__pycache__" and not link.exists():
                link.symlink_to(Path(str(package.locate_file(top))))
    return folder


def run(folder: Path, statement: str) -> subprocess.CompletedProcess[str]:
    """Run a statement in a Python that imports only the standard library and the packages in ``folder``."""
    environment = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    environment["OMP_NUM_THREADS"] = "1"  # the tests run in parallel
    command = [sys.executable, "-S", "-c", statement]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)
