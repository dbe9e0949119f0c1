"""Check the shell commands of the pages: commands, options, names and files must exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import typer

from adiw.cli.app import app
from adiw.experiments.methods import find, method_name
from adiw.experiments.recipes import load
from adiw.experiments.settings import Settings, resolve
from adiw.shifts import parse

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def check(line: str) -> None:
    """Raise for a line that does not work; empty lines and comments are fine."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    name, rest = words[0], words[1:]
    if name not in CHECKS:
        raise ValueError(f"{line!r}: no check for the command {name!r}: expected one of {', '.join(CHECKS)}")
    CHECKS[name](rest)


def with_method(settings: dict[str, Any], divergence: str | None) -> dict[str, Any]:
    """The settings with the method of --divergence."""
    return settings if divergence is None else {**settings, "method": method_name(divergence)}


def check_adiw(words: list[str]) -> None:
    """Parse the words with the command's own parser; look up recipes, methods and shifts."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("adiw", [words[0], "--help"], resilient_parsing=True)
    while hasattr(group, "commands"):
        name, group, words = group.resolve_command(context, words)
    given = group.make_context(name, [*words]).params
    if name == "sweep" and not given["name"].endswith(".toml"):
        load(given["name"])
    if name == "run":
        known = given.keys() & Settings.__dataclass_fields__.keys()
        chosen = {key: given[key] for key in known if given[key] is not None}
        chosen["set"] = ",".join(chosen.get("set", ())) or None  # a repeated option
        settings = resolve(with_method(chosen, given["divergence"]))
        parse(settings.shift)
        if ":" not in settings.method:  # a class in a file that the reader writes
            find(settings.method)


def names() -> set[str]:
    """The commands of ``adiw``."""
    return set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def check_make(words: list[str]) -> None:
    """Every word is a target."""
    makefile = (ROOT / "Makefile").read_text()
    for target in words:
        if not re.search(rf"^{target}:", makefile, re.MULTILINE):
            raise ValueError(f"the Makefile has no target {target!r}")


def check_pip(words: list[str]) -> None:
    """``pip install`` of this package, with extras that it has."""
    found = [re.fullmatch(r"(?:\.|adiw)(?:\[([\w,-]+)\])?", word) for word in words[1:]]
    if words[0] != "install" or not found or not all(found):
        raise ValueError(f"expected pip install of . or adiw with extras, got {words}")
    for match in found:
        for extra in (match[1] or "").split(",") if match else ():
            if extra and extra not in EXTRAS:
                raise ValueError(f"there is no extra {extra!r}: expected one of {', '.join(EXTRAS)}")


def check_python(words: list[str]) -> None:
    """A script of the repository, or a module (pytest, or one of ours)."""
    if words[0] == "-m":
        path = words[1].replace(".", "/")
        ours = [ROOT / "src" / f"{path}.py", *(root / path / "__main__.py" for root in (ROOT, ROOT / "src"))]
        known = words[1] == "pytest" or any(file.exists() for file in ours)
    else:
        known = (ROOT / words[0]).is_file()
    if not known:
        raise ValueError(f"python {words}: there is no such script or module here")


def check_torchrun(words: list[str]) -> None:
    """The launched command is adiw, or the reader's own script; the options of torchrun are not checked."""
    own = words.index("adiw") if "adiw" in words else None
    if own is None and words[-1] != "train.py":
        raise ValueError(f"torchrun {words}: expected adiw, or the reader's train.py")
    if own is not None:
        check_adiw(words[own + 1 :])


CHECKS = {
    "torchrun": check_torchrun,
    "adiw": check_adiw,
    "srun": lambda words: check(shlex.join(words)),  # runs a command on SLURM
    "make": check_make,
    "pip": check_pip,
    "python": check_python,
}
