"""The tables and figures of a sweep: one table is printed, all are written."""

from __future__ import annotations

from pathlib import Path

from adiw.cli.console import say
from adiw.reports.folders import read_sweep
from adiw.reports.grid import to_text
from adiw.reports.results import Results
from adiw.reports.tables import accuracy_table, time_table, write_tables


def show_tables(folder: Path, time: bool) -> None:
    """Print the accuracy table (or the time table), and write both and the figures beside the records."""
    results = read_sweep(folder)
    print(to_text(time_table(results) if time else accuracy_table(results)))
    write_tables(results, folder / "tables")
    _draw(results, folder / "figures")
    print(f"files are in {folder}")


def _draw(results: Results, folder: Path) -> None:
    """Write the figures; an error is only reported, since the records and tables are already written."""
    try:
        from adiw.reports.figures import write_figures

        write_figures(results, folder)
    except ImportError:
        say('figures need matplotlib: pip install "adiw[cli]"')
    except Exception as error:
        say(f"figures could not be drawn ({type(error).__name__}: {error})")
