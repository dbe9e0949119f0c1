"""mkdocs hook: the build fails unless every public name has a docstring and is in the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[1]
# Modules whose names users import. Without __all__, the public classes and functions that a module defines.
MODULES = (
    "adiw",
    "adiw.divergences",
    "adiw.testing",
    "adiw.matching.projections",
    "adiw.classic",
    "adiw.baselines",
    "adiw.integrations.lightning",
    "adiw.integrations.huggingface",
    "adiw.integrations.sklearn",
    "adiw.integrations.trackers",
    "adiw.data",
    "adiw.shifts",
    "adiw.models",
)
TORCH = {"get_extra_state", "set_extra_state"}  # part of state_dict and load_state_dict, which users call


def on_pre_build(config: Any) -> None:
    """Stop the build with a list of what is missing."""
    pages = [page.read_text() for page in sorted(Path(config.docs_dir, "api").glob("*.md"))]
    problems = missing(load(ROOT / "src"), re.findall(r"^::: (\S+)", "\n".join(pages), re.MULTILINE))
    if problems:
        raise PluginError("the reference is not complete:\n  " + "\n  ".join(problems))


def load(source: Path) -> Any:
    """The package, parsed without importing it."""
    return griffe.load("adiw", search_paths=[str(source)])


def missing(package: Any, shown: list[str], modules: tuple[str, ...] = MODULES) -> list[str]:
    """A line for each public name without a docstring or without a page."""
    found = []
    promised = protocol_methods(package)
    shown_paths = {
        at(package, name).canonical_path for name in shown
    }  # a name that several modules export is shown once
    for module in modules:
        for name in public_names(package, module):
            path, thing = f"{module}.{name}", at(package, f"{module}.{name}")
            if thing.is_module:
                continue
            found += [] if thing.has_docstring else [f"{path} has no docstring"]
            known = module in shown or thing.canonical_path in shown_paths
            found += [] if known else [f"{path} is on no page of docs/api"]
            found += [f"{path}.{method} has no docstring" for method in bare_methods(thing, promised)]
    return found


def at(package: Any, path: str) -> Any:
    """The object at this path, with aliases resolved."""
    thing = package if path == package.name else package[path.removeprefix(f"{package.name}.")]
    return thing.final_target if thing.is_alias else thing


def public_names(package: Any, module: str) -> list[str]:
    """The names that the module exports in __all__, or else those that it defines."""
    thing = at(package, module)
    if thing.exports is not None:
        return [str(name) for name in thing.exports]
    members = ((name, member) for name, member in thing.members.items() if not name.startswith("_"))
    return [name for name, member in members if not member.is_alias and (member.is_class or member.is_function)]


def bare_methods(thing: Any, promised: set[str]) -> Iterator[str]:
    """Public methods and properties without a docstring, unless a protocol or torch documents them."""
    for name, member in thing.members.items() if thing.is_class else ():
        described = member.is_alias or member.has_docstring or name in promised | TORCH
        is_method = not member.is_alias and (member.is_function or "property" in member.labels)
        if is_method and not name.startswith("_") and not described:
            yield name


def protocol_methods(package: Any) -> set[str]:
    """The methods that the protocols of the package document for all classes."""
    names: set[str] = set()
    for module in walk(package):
        for thing in module.classes.values():
            if not thing.is_alias and any(str(base) == "Protocol" for base in thing.bases):
                names |= {name for name, member in thing.members.items() if member.has_docstring}
    return names


def walk(module: Any) -> Iterator[Any]:
    yield module
    for inner in module.modules.values():
        if not inner.is_alias:
            yield from walk(inner)
