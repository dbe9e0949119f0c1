"""The options of runs, made from the fields of ``Settings``, and the argument DATA, which stands for two of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from adiw.data import DATASETS
from adiw.experiments.methods import DIVERGENCE_SETTINGS, divergence_of_method
from adiw.experiments.settings import Settings, SettingsError, default_text, unknown

Command = Callable[..., None]
flag = functools.partial(typer.Option, metavar="")  # typer would show "<bool>" in the help


def settings_options(*names: str) -> Callable[[Command], Command]:
    """Give a command an option for each of these settings, by default for all.

    Its parameter ``given`` gets those on the command line.
    """
    settings = [about for about in fields(Settings) if not names or about.name in names]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters

        @functools.wraps(command)
        def call(**values: Any) -> None:
            given = {about.name: values.pop(about.name) for about in settings}
            repeated = [about.name for about in settings if about.metadata["many"]]
            given |= {name: ",".join(given[name] or ()) or None for name in repeated}
            if "width" in given:
                with suppress(ValueError):  # auto and quantile stay texts
                    given["width"] = None if given["width"] is None else float(given["width"])
            command({name: value for name, value in given.items() if value is not None}, **values)

        parameters = [*map(_option, settings), *(own[name] for name in own if name != "given")]
        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        call.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        return call

    return decorate


def _option(about: Field[Any]) -> inspect.Parameter:
    """The option of a setting. Its value is None if it is not on the command line."""
    hint = get_type_hints(Settings)[about.name]
    kind = next((plain for plain in (bool, str, int, float) if plain in getattr(hint, "__args__", (hint,))), str)
    default = default_text(about.name)
    text = f"{about.metadata['text']} [default: {default}]." if default else f"{about.metadata['text']}."
    option = (flag if kind is bool else typer.Option)(help=text, rich_help_panel=about.metadata["group"])
    annotation: Any = list[str] if about.metadata["many"] else kind
    return inspect.Parameter(
        about.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation | None, option]
    )


def check_used(given: dict[str, Any], method: str) -> None:
    """Raise for an option that this method's divergence does not have."""
    kind = divergence_of_method(method)
    names = [] if kind is None else [field.name for field in fields(kind)]  # type: ignore[arg-type]
    used = [DIVERGENCE_SETTINGS[name] for name in names if name in DIVERGENCE_SETTINGS]
    used += ["width", "solver"] if method == "diw" else []
    unused = [name for name in given if name in {*DIVERGENCE_SETTINGS.values(), "solver"} - set(used)]
    if unused:
        wrong, right = (", ".join(f"--{name.replace('_', '-')}" for name in many) for many in (unused, used))
        raise SettingsError(f"{method} does not use {wrong}; its options are {right or 'none of these'}")


HELP = "A table, a folder of tables or images, or a data set of 'adiw list'"
KINDS = ("csv", "imagefolder")  # of users' own data, which have a path


def with_data(given: dict[str, Any], data: str | None) -> dict[str, Any]:
    """The given settings, and those that ``data`` stands for; an error if some of them say this already."""
    if data is None:
        return given
    named = source(data)
    options = " and ".join(f"--{name}" for name in ("dataset", "path") if name in given)
    if options:
        raise SettingsError(f"{data} and {options} both name the data: give only one of them")
    return {**named, **given}


def source(data: str) -> dict[str, Any]:
    """The settings dataset and path of a data set by name, or of a user's file or folder.

    >>> source("digits"), source("my/table.csv")
    ({'dataset': 'digits'}, {'dataset': 'csv', 'path': 'my/table.csv'})
    """
    path = Path(data)
    if data in KINDS:
        raise SettingsError(f"{data} is a kind of data: name the file or folder itself, such as tables/my.csv")
    if data in DATASETS:
        return {"dataset": data}
    if not path.exists() and not path.suffix:
        raise unknown("data set, file or folder", data, [name for name in DATASETS if name not in KINDS])
    images = path.is_dir() and (path / "train").is_dir()
    return {"dataset": "imagefolder" if images else "csv", "path": data}


def data_name(settings: Settings) -> str:
    """The name of the data set, or of the user's file or folder without its ending.

    >>> data_name(Settings(dataset="csv", path="my/table.csv.gz")), data_name(Settings())
    ('table', 'digits')
    """
    own = "" if settings.path is None else Path(settings.path).resolve().name
    return own.partition(".")[0] or settings.dataset
