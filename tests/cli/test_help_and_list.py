"""Help, lists, and usage errors."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from adiw.cli import main
from adiw.data import DATASETS
from adiw.divergences import DIVERGENCES, capabilities
from adiw.experiments.methods import METHODS
from adiw.experiments.recipes import names
from adiw.experiments.settings import Settings, default_text
from adiw.models import MODELS
from adiw.shifts import SHIFTS
from tests.cli.conftest import Command


def test_python_m_adiw_is_the_command() -> None:
    command = [sys.executable, "-m", "adiw", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Usage: adiw " in done.stdout
    assert done.stderr == ""


COMMANDS = ("demo", "run", "sweep", "report", "audit", "list", "data")


def test_help_names_all_commands(adiw: Command) -> None:
    output = adiw("--help")
    assert (output.code, output.err) == (0, "")
    for command in COMMANDS:
        assert f" {command} " in output.out


@pytest.mark.parametrize("command", [*([name] for name in COMMANDS), ["data", "get"]])
def test_every_command_has_help(adiw: Command, command: list[str]) -> None:
    output = adiw(*command, "--help")
    assert output.code == 0
    assert f"Usage: adiw {' '.join(command)} " in output.out


@pytest.mark.parametrize("command", [[], ["data"]])
def test_without_arguments_the_help_is_shown(adiw: Command, command: list[str]) -> None:
    output = adiw(*command)
    assert (output.code, output.err) == (2, "")
    assert "Usage: adiw" in output.out


def test_the_list_has_every_name(adiw: Command) -> None:
    output = adiw("list")
    assert (output.code, output.err) == (0, "")
    words = set(output.out.split())
    assert {*METHODS, *DATASETS, *SHIFTS, *MODELS, *DIVERGENCES, *names()} <= words
    assert "Fashion-MNIST under label noise" in output.out
    assert "; write class-prior:MU,RHO\n" in output.out


@pytest.mark.parametrize("command", [["list"], *([name, "--help"] for name in ("run", "sweep"))])
def test_help_and_list_have_no_stray_spaces(
    adiw: Command, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = adiw(*command).out
    assert not re.search(r"\S \.(?:\s|$)", text)  # where a default in brackets was taken for markup
    if command == ["list"]:
        assert all(line == line.rstrip() for line in text.splitlines())


def test_every_setting_is_an_option_with_its_default(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # one line for each option
    lines = adiw("run", "--help").out.splitlines()
    for field in dataclasses.fields(Settings):
        (line,) = [line for line in lines if line.startswith(f"│ --{field.name.replace('_', '-')} ")]
        assert field.metadata["text"] in line
        default = default_text(field.name)
        assert f"[default: {default}]." in line if default else "[default" not in line


@pytest.mark.parametrize("command", [["run"], ["sweep"], ["list"], ["data", "get"]])
def test_flags_show_no_type(adiw: Command, command: list[str]) -> None:
    lines = [line for line in adiw(*command, "--help").out.splitlines() if "--help" not in line]
    assert not any("<bool>" in line or "BOOL" in line for line in lines)


def test_the_list_as_json_is_the_tables(adiw: Command) -> None:
    output = adiw("list", "--json")
    assert output.out.count("\n") == 1
    assert json.loads(output.out) == {
        "methods": list(METHODS),
        "datasets": list(DATASETS),
        "shifts": list(SHIFTS),
        "networks": list(MODELS),
        "divergences": list(DIVERGENCES),
        "recipes": names(),
        "capabilities": {
            name: json.loads(json.dumps(dataclasses.asdict(capabilities(kind)))) for name, kind in DIVERGENCES.items()
        },
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rum"], "adiw: No such command 'rum'"),
        (["run", "--metod", "diw"], "--method"),
        (["run", "--epochs", "many"], "'--epochs'"),
        (["run", "--epochs"], "'--epochs' requires an argument"),
        (["run", "digits", "wine"], "wine"),
        (["data", "get"], "Missing argument"),
        (["report"], "Missing argument"),
        (["audit", "d", "--top", "0"], "'--top'"),
    ],
)
def test_a_usage_error_is_one_line(adiw: Command, arguments: list[str], message: str) -> None:
    output = adiw(*arguments)
    assert (output.code, output.out) == (2, "")
    assert output.err.startswith("adiw: ")
    assert output.err.count("\n") == 1
    assert message in output.err
    assert "; see adiw" in output.err
    assert output.err.endswith("--help\n")


@pytest.mark.parametrize("package", ["typer", "rich", "sklearn"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in [name for name in sys.modules if name.startswith("adiw.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    error = ModuleNotFoundError(f"No module named {package!r}", name=f"{package}.sub")

    class Missing:
        def find_spec(self, name: str, *rest: object) -> None:
            if name == "adiw.cli.app":
                raise error

    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == f'adiw: the command needs {package}: install it with pip install "adiw[cli]"'
    error = ModuleNotFoundError("No module named 'adiw.oops'", name="adiw.oops")
    with pytest.raises(ModuleNotFoundError, match="oops"):  # an error of the library itself is not a missing package
        main()
