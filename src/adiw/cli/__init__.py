"""The command ``adiw``: one file for each of its commands."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; if a package is missing, name the extra to install."""
    try:
        from adiw.cli.app import start
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("typer", "rich", "click", "sklearn"):
            raise
        sys.exit(f'adiw: the command needs {missing}: install it with pip install "adiw[cli]"')
    start()
