"""mkdocs hook: the reference of the command line, generated from the command when the site is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from adiw.cli.app import app

MARKER = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the commands instead of the marker."""
    if MARKER not in markdown:
        return markdown
    return markdown.replace(MARKER, "\n".join(section(name, command) for name, command in commands()))


def commands(group: Any = None, above: str = "adiw") -> Iterator[tuple[str, Any]]:
    """(name, command) of every command; those of a group follow its name."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above} {name}")
        else:
            yield f"{above} {name}", command


def section(name: str, command: Any) -> str:
    """A command: what it does, and a table of its arguments and options."""
    context = command.make_context(name, [], resilient_parsing=True)
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [f"| `{left.replace('|', ' ')}` | {cell(about)} |" for left, about in filter(None, records)]
    about = " ".join((command.help or "").split())
    return "\n".join([f"## {name}", "", about, "", "| | |", "| --- | --- |", *rows, ""])


def cell(text: str) -> str:
    """A help text for a cell of a table; defaults are in round brackets.

    >>> cell("Processes.  [default: 2]")
    'Processes. (default: 2)'
    """
    text = re.sub(r"\[((?:default|required|x>)[^\]]*)\]", r"(\1)", " ".join(text.split()))
    return re.sub(r"([|<\[])", r"\\\1", text)
