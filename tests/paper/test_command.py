"""``python -m paper.profiler``: the stage tables beside the paper's figures, and errors in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from adiw.experiments.settings import SettingsError
from adiw.reports.grid import NONE
from paper.profiler.__main__ import main
from paper.profiler.implementations import IMPLEMENTATIONS
from paper.profiler.plan import Plan
from paper.profiler.recipe import load
from paper.profiler.stages import STAGES

FIGURES = ", ".join(['"1.00 (10.00)"'] * 11)
TEXT = f"""
title = "Where the time goes"
about = "A short profile."
epochs_profiled = [1, 2, 5]
[settings]
dataset = "digits"
batch = 32
exact = true
[[row]]
label = "DIW"
method = "diw"
solver = "gpu"
[[row]]
label = "ADIW_GPU"
method = "adiw-km"
[paper.cpu]
DIW = [{FIGURES}]
ADIW_GPU = [{FIGURES}]
"""
QUICK = ("--device", "cpu", "--workers", 0)
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command with these arguments, in a folder with stages.toml: (exit code, output, error)."""
    monkeypatch.chdir(tmp_path)
    Path("stages.toml").write_text(TEXT)

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            main(list(map(str, arguments)))
        except SystemExit as ended:
            return int(ended.code or 0), *capsys.readouterr()
        return 0, *capsys.readouterr()

    return call


def test_the_stages_are_beside_the_papers(profiler: Command) -> None:
    code, out, _ = profiler("stages.toml", *QUICK, "--implementation", "ADIW_GPU", "--epochs", 1, "--iterations", 22)
    assert code == 0
    cpu, device = out.split("\nWhere the time goes: device time")
    assert cpu.startswith("Where the time goes: CPU time (seconds; percent in brackets)\n")
    lines = cpu.splitlines()
    assert lines[2].split() == ["DIW", "ADIW_GPU"]
    assert lines[5].split()[:5] == ["fetch", "train", NONE, "1.00", "(10.00)"]  # DIW is not profiled
    assert "No GPU was used" in device
    assert out.endswith("files are in runs/stages\n")
    content = json.loads(Path("runs/stages/profile.json").read_text())
    assert list(content["implementations"]) == ["ADIW_GPU"]
    assert (content["plan"]["epochs"], content["plan"]["iterations"]) == ([1], 22)
    names = {file.name for file in Path("runs/stages/tables").iterdir()}
    assert names == {f"{name}.{ending}" for name in ("cpu", "device") for ending in ("txt", "md", "tex", "csv")}

    code, more, _ = profiler("stages.toml", *QUICK, "--epochs", 1, "--iterations", 22)
    assert code == 0
    after = json.loads(Path("runs/stages/profile.json").read_text())["implementations"]
    assert list(after) == ["ADIW_GPU", "DIW"]
    assert after["ADIW_GPU"] == content["implementations"]["ADIW_GPU"]
    assert profiler("stages.toml", "--tables-only") == (0, more, "")


def test_a_folder_with_another_profile_is_refused(profiler: Command) -> None:
    window = ("--skip", 1, "--stabilise", 1, "--record", 1, "--epochs", 1, "--implementation", "ADIW_GPU")
    assert profiler("stages.toml", *QUICK, *window)[0] == 0
    Path("stages.toml").write_text(TEXT.replace("batch = 32", "batch = 64"))
    code, _, error = profiler("stages.toml", *QUICK, *window)
    assert code == 2
    assert "batch of ADIW_GPU was 32, is 64): choose another folder, or delete the file" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--implementation", "ADIW_CPU"], "unknown implementation 'ADIW_CPU': expected one of ADIW_GPU, DIW"),
        (["--epochs", 0], "from 1, got 0"),
        (["--iterations", 5], "but an epoch has 5: use smaller batches"),
        (["--record", 0], "record must be at least 1"),
        (["--workers", -1], "num_workers option should be non-negative"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--tables-only"], "no profile found in runs/stages: expected a profile.json"),
    ],
)
def test_errors_are_one_line(profiler: Command, arguments: list[object], message: str) -> None:
    code, out, error = profiler("stages.toml", *QUICK, *arguments)
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[1, 2, 5]", "1", "epochs_profiled: expected a list of whole numbers, got 1"),
        ("[1, 2, 5]", "[1.5]", "epochs_profiled: expected a list of whole numbers, got"),
        ('label = "DIW"', 'label = "DIV"', "unknown implementation 'DIV': expected one of DIW, "),
        ('"diw"', '"uniform"', "DIW needs the method diw, got uniform"),
        ('"adiw-km"', '"diw"', "ADIW_GPU needs the method one of the ADIW methods, such as adiw-km, got diw"),
        (f"DIW = [{FIGURES}]\nA", 'DIW = ["1.00 (10.00)"]\nA', "paper.cpu of DIW: expected 11 figures, got 1"),
        ("[paper.cpu]", "[paper.gpu]", "unknown key of paper 'gpu': expected one of "),
        ("title =", "titel =", "unknown key of the profile 'titel': expected one of title, "),
        ("batch = 32", "bach = 32", "unknown setting 'bach'"),
    ],
)
def test_a_bad_file_is_an_error_that_names_it(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    (tmp_path / "mine.toml").write_text(TEXT.replace(old, new))
    with pytest.raises(SettingsError, match=f"^mine.toml: {message}"):
        load(str(tmp_path / "mine.toml"))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="unknown profile 'profile-cifar': expected one of profile-cifar10, "):
        load("profile-cifar")


@pytest.mark.parametrize("name", ["profile-cifar10", "profile-imagenet"])
def test_the_recipes_of_the_paper(name: str) -> None:
    recipe = load(name, {"path": "images"})
    assert list(recipe.settings) == list(IMPLEMENTATIONS)
    assert Plan(recipe.epochs).window == 22
    for settings in recipe.settings.values():
        assert (settings.shift, settings.exact, settings.path) == ("symmetric:0.4", True, "images")
    for device in ("cpu", "cuda"):
        assert list(recipe.paper[device]) == list(IMPLEMENTATIONS)
        for figures in recipe.paper[device].values():
            assert len(figures) == len(STAGES) + 1
            for k in (0, 1):  # each of the ten is rounded to two digits
                stages = [figure[k] for figure in figures]
                assert sum(stages[:-1]) == pytest.approx(stages[-1], abs=10 * 0.0051)


@pytest.mark.parametrize("name", ["profile-cifar10", "profile-imagenet"])
def test_the_committed_profile_is_that_of_its_recipe(name: str) -> None:
    file = Path(__file__).parents[2] / "paper" / "results" / name / "profile.json"
    entries, recipe = json.loads(file.read_text())["implementations"], load(name)
    assert entries.keys() == recipe.settings.keys()
    for label, settings in recipe.settings.items():
        recorded = entries[label]["settings"]
        older = {"step": None} if recorded["step"] is None else {}  # the default of that time, which is named today
        assert recorded == settings.as_dict() | {"path": recorded["path"]} | older
        assert list(entries[label]["stages"]) == list(STAGES)
