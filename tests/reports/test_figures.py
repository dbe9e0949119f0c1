"""The figures of a sweep: their content, distinct styles of rows, and reproducible files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from adiw.reports.figures import (
    curves_figure,
    row_styles,
    save,
    styled,
    time_figure,
    weights_figure,
    write_figures,
)
from adiw.reports.folders import read_sweep
from adiw.reports.results import Results
from tests.reports.sweep_folder import realistic, recipe, result, write


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_sweep(realistic(tmp_path_factory.mktemp("sweep"), epochs=40))


def small(folder: Path, lines: list[dict[str, Any]], *rows: str) -> Results:
    return read_sweep(write(folder, recipe(rows, ["x"]), lines))


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


def test_every_kind_of_figure_is_written_as_pdf_and_png(tmp_path: Path, sweep: Results) -> None:
    one = Results({**sweep.recipe, "columns": sweep.recipe["columns"][:1]}, sweep.cells, sweep.timing, ())
    files = write_figures(one, tmp_path / "figures")
    names = {"accuracy-0.3-pair", "top5-0.3-pair", "weights-0.3-pair", "time"}
    assert {file.name for file in files} == {f"{name}.{kind}" for name in names for kind in ("pdf", "png")}
    for file in files:
        start = file.read_bytes()[:8]
        assert start.startswith(b"%PDF" if file.suffix == ".pdf" else b"\x89PNG")


def test_figures_are_the_same_byte_for_byte(tmp_path: Path, sweep: Results) -> None:
    def made(folder: str) -> list[bytes]:
        with styled():
            return [file.read_bytes() for file in save(weights_figure(sweep, "0.3 pair"), tmp_path / folder, "w")]

    first, second = made("a"), made("b")
    assert first == second
    assert b"CreationDate" not in first[0]
    assert b"matplotlib" not in first[1].lower()


def test_the_users_matplotlib_style_is_neither_used_nor_changed() -> None:
    with mpl.rc_context({"font.size": 31.0}):
        with styled():
            assert mpl.rcParams["font.size"] == 9
        assert mpl.rcParams["font.size"] == 31.0


def test_styles_are_unique_and_differ_in_grey() -> None:
    found = list(row_styles([str(k) for k in range(40)]).values())
    assert len({(look.colour, look.dashes) for look in found}) == 40
    assert len({(style.dashes, style.marker) for style in found}) == 40  # without colour


def test_curves_are_the_mean_of_the_trials_with_a_band(tmp_path: Path) -> None:
    lines = [result("a", "x", 0, [10.0, 20.0, 30.0]), result("a", "x", 1, [20.0, 40.0, 60.0])]
    lines += [result("a", "x", 2, [5.0, 1.0], status="dead")]
    figure = curves_figure(small(tmp_path, lines, "a", "b"), "x")
    assert len(figure.axes) == 1
    mean, dead = figure.axes[0].lines
    assert mean.get_ydata().tolist() == [15.0, 30.0, 45.0]
    assert list(dead.get_ydata()) == [5.0, 1.0]
    assert (dead.get_marker(), dead.get_markevery()) == ("x", [1])
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert {(1.0, 10.0), (3.0, 30.0), (1.0, 20.0), (3.0, 60.0)} <= set(map(tuple, band.tolist()))
    assert "a  30.0" in texts(figure)
    assert not any(text.startswith("b") for text in texts(figure))


def test_trials_of_different_lengths_are_averaged_as_far_as_they_go(tmp_path: Path) -> None:
    lines = [result("a", "x", 0, [10.0, 20.0, 30.0]), result("a", "x", 1, [20.0])]
    (mean,) = curves_figure(small(tmp_path, lines, "a"), "x").axes[0].lines
    assert mean.get_ydata().tolist() == [15.0, 20.0, 30.0]


def test_the_legend_is_beside_the_curves(tmp_path: Path, sweep: Results) -> None:
    with styled():
        figure = curves_figure(sweep, "0.4 symmetric")
        save(figure, tmp_path, "c")
        legend = figure.legends[0].get_window_extent()
        for axes in figure.axes:
            assert not legend.overlaps(axes.get_window_extent())


@pytest.mark.parametrize("epochs", [1, 2, 9])
def test_short_runs_are_drawn_too(tmp_path: Path, epochs: int) -> None:
    lines = [result(row, "x", 0, [50.0] * epochs) for row in "abc"]
    files = write_figures(small(tmp_path, lines, "a", "b", "c"), tmp_path / "figures")
    assert {file.stem for file in files} == {"accuracy-x", "time"}


def test_without_any_result_there_is_no_figure(tmp_path: Path) -> None:
    assert write_figures(small(tmp_path, [], "a"), tmp_path / "figures") == []
    dead = [result("a", "x", 0, [1.0], status="dead", seconds_per_epoch=None)]
    assert write_figures(small(tmp_path, dead, "a"), tmp_path / "figures") == []


def test_bars_show_their_values(sweep: Results) -> None:
    figure = time_figure(sweep)
    assert figure.axes[0].get_xscale() == "log"
    ends = [round(bar.get_x() + bar.get_width(), 6) for bar in figure.axes[0].containers[2]]
    assert ends[sweep.rows.index("DIW")] == 1.1
    assert ends[sweep.rows.index("MW-Net")] == 0  # not timed
    assert texts(figure).count("1.1") == 3


def test_boxes_and_histograms_of_the_weights(sweep: Results) -> None:
    figure = weights_figure(sweep, "0.3 pair")
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["DIW", "ADIW-KM", "ADIW-KL", "ADIW-LS", "ADIW-WA"]  # the others' weights are all one
    assert len(figure.axes) == 2 * len(titles)
    record = sweep.cells["DIW", "0.3 pair"].done[0].record["weights"]
    boxes, histogram = figure.axes[0], figure.axes[len(titles)]
    medians = [line.get_ydata()[0] for line in boxes.lines[4::5]]  # two whiskers, two caps, the median
    assert medians == [record["groups"][name]["box"][2] for name in ("intact", "mislabelled")]
    shares = histogram.patches[0].get_data().values
    assert np.allclose(shares, np.array(record["groups"]["intact"]["histogram"]) / 36000)
    assert boxes.get_ylim()[1] >= max(group["box"][-1] for group in record["groups"].values())
    assert {"intact", "mislabelled"} <= set(texts(figure))


def test_weights_without_a_known_truth_are_one_group(tmp_path: Path) -> None:
    group = {"count": 4, "box": [0.0, 0.5, 1.0, 1.5, 2.0], "mean": 1.0, "histogram": [2, 2]}
    lines = [result("a", "x", 0, [50.0], weights={"edges": [0, 1, 2], "groups": {"all": group}})]
    assert "all" in texts(weights_figure(small(tmp_path, lines, "a"), "x"))
