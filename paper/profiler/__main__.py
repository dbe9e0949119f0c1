"""``python -m paper.profiler NAME``: profile a recipe, and print its tables beside the paper's figures."""

from __future__ import annotations

import argparse
from pathlib import Path

from adiw.cli.console import one_line_errors, progress_bar
from adiw.cli.run import device_named
from adiw.experiments.training_run import WORKERS
from adiw.reports.grid import to_text, write_grid
from paper.profiler.plan import Plan, up_to
from paper.profiler.profile import profile_all
from paper.profiler.recipe import ProfileRecipe, chosen, load
from paper.profiler.table import MEASURES, recorded_stages


def main(arguments: list[str] | None = None) -> None:
    given = _parser().parse_args(arguments)
    with one_line_errors():
        recipe = load(given.name, {} if given.path is None else {"path": given.path})
        folder = given.out or Path("runs") / recipe.name
        if not given.tables_only:
            _profile(recipe, given, folder)
        grids = recorded_stages(folder, recipe.title, recipe.paper)
    for grid, name in zip(grids, MEASURES, strict=True):
        print(to_text(grid))
        write_grid(grid, folder / "tables", name)
    print(f"files are in {folder}")


def _profile(recipe: ProfileRecipe, given: argparse.Namespace, folder: Path) -> None:
    """Profile the implementations that are not in the folder yet."""
    window = Plan(up_to(recipe.epochs, given.epochs), given.skip, given.stabilise, given.record, given.iterations)
    device = None if given.device is None else device_named(given.device)
    with progress_bar("epochs", given.quiet) as bar:
        task = bar.add_task(recipe.name, total=max(window.epochs), note="")
        profile_all(
            chosen(recipe, given.implementation),
            window,
            folder,
            given.data_root,
            device,
            given.workers,
            lambda name, epoch: bar.update(task, description=name, completed=epoch),
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m paper.profiler",
        description="Time every stage of a training step, from DIW to ADIW, as in the paper's profile.",
    )
    parser.add_argument("name", help="a recipe profile-* of paper/recipes, or a .toml file")
    parser.add_argument("--implementation", action="append", default=[], help="only this row; repeatable")
    parser.add_argument("--epochs", type=int, help="the last profiled epoch (default: that of the recipe)")
    parser.add_argument("--iterations", type=int, help="end every epoch after this many iterations")
    parser.add_argument(
        "--skip",
        type=int,
        default=Plan.skip,
        help="iterations before the profiler starts (default: %(default)s)",
    )
    parser.add_argument(
        "--stabilise",
        type=int,
        default=Plan.stabilise,
        help="profiled but unrecorded iterations (default: %(default)s)",
    )
    parser.add_argument("--record", type=int, default=Plan.record, help="recorded iterations (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="folder of the results (default: runs/NAME)")
    parser.add_argument("--path", help="folder of images")
    parser.add_argument("--data-root", type=Path, help="folder of the data sets (default: $ADIW_DATA or data)")
    parser.add_argument("--device", help="cpu or cuda (default: cuda if available)")
    parser.add_argument(
        "--workers", type=int, default=WORKERS, help="worker processes of each loader (default: %(default)s)"
    )
    parser.add_argument("--tables-only", action="store_true", help="print the tables of the recorded profile")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


if __name__ == "__main__":
    main()
