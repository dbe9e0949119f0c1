"""The tables and figures of a sweep's folder: one printed, all of them written."""

from __future__ import annotations

from pathlib import Path

from adiw.cli.console import say
from adiw.reports.grid import to_text, write_grid
from adiw.reports.stage_table import recorded_stages
from adiw.reports.sweeps import Sweep, read_sweep
from adiw.reports.tables import accuracy_table, time_table, write_tables


def show_tables(folder: Path, time: bool) -> None:
    """Print the accuracy table (or the time table), and write both and the figures beside the records."""
    sweep = read_sweep(folder)
    print(to_text(time_table(sweep) if time else accuracy_table(sweep)))
    write_tables(sweep, folder / "tables")
    _draw(sweep, folder / "figures")
    print(f"files are in {folder}")


def show_stages(folder: Path) -> None:
    """Print a profile's stage tables with the paper's figures beside, and write them."""
    grids = recorded_stages(folder)
    for grid, name in zip(grids, ("cpu", "device") if len(grids) == 2 else ("stages",), strict=True):
        print(to_text(grid))
        write_grid(grid, folder / "tables", name)
    print(f"files are in {folder}")


def _draw(sweep: Sweep, folder: Path) -> None:
    """The figures. The records are safe, so that a figure that cannot be drawn is only worth a remark."""
    try:
        from adiw.reports.figures import write_figures

        write_figures(sweep, folder)
    except ImportError:
        say('figures need matplotlib: pip install "adiw[cli]"')
    except Exception as error:
        say(f"figures could not be drawn ({type(error).__name__}: {error})")
