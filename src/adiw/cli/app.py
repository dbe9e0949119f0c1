"""The command ``adiw`` with its subcommands."""

from __future__ import annotations

import typer

from adiw.cli.audit import audit
from adiw.cli.check import check
from adiw.cli.console import BAD_INPUT, fail
from adiw.cli.data import data_app
from adiw.cli.demo import demo
from adiw.cli.listing import list_names
from adiw.cli.report import report
from adiw.cli.run import run
from adiw.cli.sweep import sweep
from adiw.engine.torchrun import process_group, started_by_torchrun

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",  # "rich" would take "[default: ...]" in a help text for a tag and hide it
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(check)
app.command()(run)
app.command()(sweep)
app.command()(report)
app.command()(audit)
app.command(name="list")(list_names)
app.add_typer(data_app, name="data")


@app.callback()
def command(context: typer.Context) -> None:
    """Importance weights for every training sample, estimated while the model trains."""
    name = context.invoked_subcommand
    if started_by_torchrun() and name != "run":
        instead = "use --processes, and start it without torchrun" if name == "sweep" else "start it without torchrun"
        fail(f"{name} works in one process: {instead}", BAD_INPUT)


def start() -> None:
    """Run the command; a usage error is one line, like all other errors."""
    with process_group():
        code = _call()
    raise SystemExit(code)


def _call() -> int:
    """Run the command and return its exit code."""
    try:
        return int(app(prog_name="adiw", standalone_mode=False) or 0)
    except Exception as error:
        explain = getattr(error, "format_message", None)  # usage errors have it; typer has its own copy of click
        if explain is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
            raise SystemExit(BAD_INPUT) from None
        command = getattr(getattr(error, "ctx", None), "command_path", "adiw")  # such as "adiw run"
        fail(f"{explain().rstrip('.')}; see {command} --help", BAD_INPUT)


__all__ = ["app", "start"]
