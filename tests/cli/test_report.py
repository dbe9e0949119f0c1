"""``adiw report``: the page of a run, of several runs, or of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.reports.elements import Elements
from tests.reports.folders import record, write_run, write_sweep


def test_a_run_several_runs_and_a_sweep_have_their_page(adiw: Command) -> None:
    write_run(Path("runs/a"), "adiw-kl", [50.0], dataset="digits")
    write_run(Path("runs/b"), "uniform", [40.0], dataset="digits")
    write_sweep(Path("sweep"), [record("KL", "a", 0, [50.0])], ["KL"], ["a"])
    titles = {"runs/a": "adiw-kl on digits", "runs": "digits", "sweep": "Label noise"}
    for folder, title in titles.items():
        output = adiw("report", folder)
        file = Path(folder) / "index.html"
        assert (output.code, output.out, output.err) == (0, f"Written: {file}\n", "")
        assert Elements(file.read_text()).text("h1") == [title]


def test_out_sets_the_file_of_the_page(adiw: Command) -> None:
    write_run(Path("a"), "adiw-kl", [50.0])
    output = adiw("report", "a", "--out", "pages/mine.html", "--quiet")
    assert (output.code, output.out) == (0, f"Written: {Path('pages/mine.html')}\n")
    assert "<h1>adiw-kl on runs</h1>" in Path("pages/mine.html").read_text()
    assert not Path("a/index.html").exists()


def test_a_real_run_has_curves_weights_and_pictures(adiw: Command) -> None:
    assert adiw("run", "--epochs", 3, "--out", "r", "--quiet").code == 0
    assert adiw("report", "r").code == 0
    page = Elements(Path("r/index.html").read_text())
    (cell,) = page.data()["cells"]
    assert [len(curve["mean"]) for curve in cell["curves"].values()] == [3] * 6
    assert set(cell["weights"]["groups"]) == {"intact", "mislabelled"}
    assert len(page.named("img")) == 48


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no runs found below nothing: a run's folder holds a config.json"),
        (["empty"], "no runs found below empty: a run's folder holds a config.json"),
        (["half"], "half has results.jsonl but no recipe.json, which says what was planned"),
        (["a", "--out", "empty"], "empty: Is a directory"),
    ],
)
def test_what_cannot_be_shown_is_an_error_in_one_line(adiw: Command, arguments: list[str], message: str) -> None:
    write_run(Path("a"), "adiw-kl", [50.0])
    for name in ("empty", "half"):
        Path(name).mkdir()
    Path("half/results.jsonl").touch()
    output = adiw("report", *arguments)
    assert (output.code, output.out, output.err) == (2, "", f"adiw: {message}\n")
