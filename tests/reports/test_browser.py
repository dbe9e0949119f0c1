"""The page in a real browser: no errors, readable charts, a filter, and a layout that fits a phone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from adiw.reports.folders import read_results
from adiw.reports.report_page import render_report
from tests.reports.browser import OVERFLOWING, evaluate, needs_chromium
from tests.reports.folders import record, write_pictures, write_run, write_sweep

pytestmark = needs_chromium
HOSTILE = "<script>alert(1)</script>"

SHOWN = """
const visible = query => [...document.querySelectorAll(query)].filter(e => e.getClientRects().length);
const names = query => visible(query).map(e => e.dataset.name);
const shown = () => ({rows: names('tr.of'), keys: names('.key'), galleries: names('details.of'),
  curves: [...new Set(names('[data-curves=accuracy] .curve'))].sort(),
  histograms: visible('#histograms figcaption').map(e => e.textContent)});
const readout = chart => chart.querySelector('.readout').textContent;
"""


@pytest.fixture
def runs(tmp_path: Path) -> str:
    folder = tmp_path / "runs"
    four: dict[str, Any] = {"flipped": [False, False, True, True], "weights": [1.5, 1.5, 0.1, 0.1]}
    first = write_run(folder / "1", "adiw-kl", [50.0, 70.0, 80.0], **four)
    write_pictures(first, [HOSTILE, "bee"], labels=False)
    write_run(folder / "2", "adiw-kl", [60.0, 72.0, 90.0])
    write_run(folder / "3", "adiw-wa", [20.0, 30.0])
    write_run(folder / "4", "uniform", [30.0, 40.0, 45.5], weights=[1.0, 1.0])
    write_run(folder / "5", HOSTILE, [10.0], "dead")
    return render_report(read_results(folder))


def sweep(tmp_path: Path) -> str:
    rows, columns = ["Uniform", "ADIW-KL", "A method with quite a long name"], ["0.3 pair", "0.4 symmetric", "0.5"]
    records = [
        record(row, column, 0, [1.0] + [10.0 * (r + 1) + c] * 11)
        for r, row in enumerate(rows)
        for c, column in enumerate(columns)
    ]
    paper = {"accuracy": {row: [[50.0, 0.1]] * 3 for row in rows}}
    more = {"paper": paper, "about": "A word" * 30, "trials": 1}
    return render_report(read_results(write_sweep(tmp_path / "sweep", records, rows, columns, **more)))


def test_the_charts_are_drawn_with_all_methods(runs: str, tmp_path: Path) -> None:
    script = (
        SHOWN
        + """
      const drawn = visible('figure[data-curves] .curve').filter(e => e.getTotalLength() > 0).length;
      return {...shown(), drawn, bands: visible('.band').length,
      dead: visible('[data-curves=accuracy] .other').length,
      steps: names('.steps'), images: visible('img').filter(e => e.naturalWidth === 4).length};"""
    )
    result = evaluate(runs, script, tmp_path)
    methods = ["uniform", "adiw-kl", "adiw-wa", HOSTILE]
    assert result["rows"] == result["keys"] == methods
    assert result["curves"] == sorted(methods)
    assert result["drawn"] >= 6
    assert (result["bands"], result["dead"]) == (1, 1)
    assert result["histograms"] == ["adiw-kl", "adiw-wa"]
    assert result["steps"] == ["intact", "mislabelled"] * 2
    assert result["images"] == 4


def test_names_and_text_hide_and_show_methods_everywhere(runs: str, tmp_path: Path) -> None:
    script = (
        SHOWN
        + """
      const steps = {}, input = document.getElementById('filter');
      const type = text => { input.value = text; input.dispatchEvent(new Event('input')); };
      const key = name => [...document.querySelectorAll('.key')].find(e => e.dataset.name === name);
      type('ADIW'); steps.typed = shown();
      key('adiw-kl').click(); steps.clicked = shown(); steps.pressed = key('adiw-kl').getAttribute('aria-pressed');
      type('script, uni'); steps.either = shown();
      type('nothing'); steps.nothing = [shown().rows, visible('#empty').length];
      type(''); steps.cleared = shown();
      document.getElementById('none').click(); steps.none = shown().rows;
      document.getElementById('all').click(); steps.all = shown().rows;
      return steps;"""
    )
    steps = evaluate(runs, script, tmp_path)
    assert steps["typed"] == {
        "rows": ["adiw-kl", "adiw-wa"],
        "keys": ["adiw-kl", "adiw-wa"],
        "galleries": ["adiw-kl"],
        "curves": ["adiw-kl", "adiw-wa"],
        "histograms": ["adiw-kl", "adiw-wa"],
    }
    assert steps["clicked"] == {
        "rows": ["adiw-wa"],
        "keys": ["adiw-kl", "adiw-wa"],
        "galleries": [],
        "curves": ["adiw-wa"],
        "histograms": ["adiw-wa"],
    }
    assert steps["pressed"] == "false"
    assert steps["either"]["rows"] == ["uniform", HOSTILE]
    assert steps["nothing"] == [[], 1]
    assert steps["cleared"]["rows"] == ["uniform", "adiw-wa", HOSTILE]  # the click is remembered
    assert (steps["none"], len(steps["all"])) == ([], 4)


def test_mouse_touch_and_keys_read_values(runs: str, tmp_path: Path) -> None:
    script = (
        SHOWN
        + """
      const chart = document.querySelector('[data-curves=accuracy]'), plot = chart.querySelector('.plot'), texts = [];
      const box = plot.getBoundingClientRect();
      const point = (kind, clientX, pointerType = 'mouse') => {
        plot.dispatchEvent(new PointerEvent(kind, {clientX, clientY: box.top + 50, pointerType}));
        texts.push(readout(chart));
      };
      texts.push(readout(chart));
      point('pointermove', box.left + 50); point('pointermove', box.left + box.width / 2); point('pointerleave', 0);
      point('pointerdown', box.left + 50, 'touch');
      plot.focus();
      const heard = () => ['role', 'aria-valuenow', 'aria-valuetext'].map(name => plot.getAttribute(name));
      for (const key of ['ArrowRight', 'End', 'Home', 'PageUp'])
        { plot.dispatchEvent(new KeyboardEvent('keydown', {key})); texts.push(readout(chart)); }
      const bars = document.querySelector('#histograms figure'), inside = bars.querySelector('.plot');
      const clientX = inside.getBoundingClientRect().left + 45;
      texts.push(readout(bars));
      inside.dispatchEvent(new PointerEvent('pointermove', {clientX}));
      texts.push(readout(bars));
      texts.push(heard());
      return texts;"""
    )
    texts = evaluate(runs, script, tmp_path)
    first, second = "Epoch 1adiw-kl 55.0uniform 30.0adiw-wa 20.0", "Epoch 2adiw-kl 71.0uniform 40.0adiw-wa 30.0"
    last = "Epoch 3adiw-kl 85.0uniform 45.5"
    assert texts[:5] == [last, first, second, last, first]
    assert texts[5:9] == [second, last, first, second]
    assert texts[9] == "Meanintact 1.50mislabelled 0.10"
    assert texts[10].startswith("0 to 0.04intact 0.0%")
    assert texts[11] == ["slider", "2", "Epoch 2, adiw-kl 71.0, uniform 40.0, adiw-wa 30.0"]


def test_a_sweeps_charts_are_of_the_chosen_setting(tmp_path: Path) -> None:
    script = (
        SHOWN
        + """
      const chart = document.querySelector('[data-curves=accuracy]'), texts = [readout(chart)];
      document.querySelectorAll('#columns input')[1].click();
      texts.push(readout(chart));
      const ticks = () => [...chart.querySelectorAll('text')].map(e => e.textContent);
      const before = ticks(); chart.querySelector('.zoom input').click();
      const pair = readout(document.querySelector('[data-curves~=weight_intact]'));
      return {texts, before, after: ticks(), pair};"""
    )
    result = evaluate(sweep(tmp_path), script, tmp_path)
    long = "A method with quite a long name"
    assert result["texts"] == [
        f"Epoch 12{long} 30.0ADIW-KL 20.0Uniform 10.0",
        f"Epoch 12{long} 31.0ADIW-KL 21.0Uniform 11.0",
    ]
    assert result["before"][0] == "0"
    assert float(result["after"][0]) >= 10
    assert result["pair"].startswith("Epoch 12Uniform 1.50 / 0.25")


def test_a_setting_without_runs_has_a_text_and_no_readout(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep", [record("KL", "b", 0, [50.0] * 12)], ["KL"], ["a", "b"])
    script = (
        SHOWN
        + """
      const chart = document.querySelector('[data-curves=accuracy]'), plot = chart.querySelector('.plot');
      const look = () => {
        plot.dispatchEvent(new PointerEvent('pointermove', {clientX: 300}));
        return [plot.querySelectorAll('.curve').length, readout(chart).slice(0, 5), plot.getAttribute('role'),
          plot.hasAttribute('aria-valuetext')];
      };
      const texts = [look()];
      for (const i of [0, 1]) { document.querySelectorAll('#columns input')[i].click(); texts.push(look()); }
      document.querySelectorAll('#columns input')[0].click();
      return [...texts, plot.textContent];"""
    )
    drawn = [1, "Epoch", "slider", True]
    nothing = "The selected methods have no curve in this setting."
    assert evaluate(render_report(read_results(folder)), script, tmp_path) == [
        drawn,
        [0, "", "img", False],
        drawn,
        nothing,
    ]


@pytest.mark.parametrize("width", [390, 768, 1000])
def test_nothing_overflows(runs: str, tmp_path: Path, width: int) -> None:
    assert evaluate(runs, OVERFLOWING, tmp_path, width) == []
    assert evaluate(sweep(tmp_path), OVERFLOWING, tmp_path, width) == []


def test_a_page_without_curves_opens_without_errors(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "1", "diw", [], None)
    assert (
        evaluate(
            render_report(read_results(tmp_path / "runs")),
            "return document.querySelectorAll('.plot').length",
            tmp_path,
        )
        == 0
    )


def test_names_of_lines_at_nearly_the_same_height_do_not_cover_each_other(tmp_path: Path) -> None:
    for name, last in (("uniform", 80.0), ("val-only", 80.4), ("adiw", 95.0)):
        write_run(tmp_path / "runs" / name, name, [60.0, last])
    script = """return [...document.querySelectorAll('[data-curves=accuracy] .reference-name')]
      .map(e => [e.textContent, e.getBoundingClientRect().top, e.getBoundingClientRect().bottom]);"""
    names = sorted(evaluate(render_report(read_results(tmp_path / "runs")), script, tmp_path), key=lambda box: box[1])
    assert len(names) >= 2
    assert all(below[1] >= above[2] - 2 for above, below in pairwise(names))


def test_five_methods_are_told_apart_without_colour(tmp_path: Path) -> None:
    """As many as --compare trains beside a folder of trusted images."""
    rows = [f"method {number}" for number in range(5)]
    records = [record(row, "here", 0, [10.0 * (place + 1)] * 3) for place, row in enumerate(rows)]
    page = render_report(read_results(write_sweep(tmp_path / "sweep", records, rows, ["here"], trials=1)))
    script = "return [...document.querySelectorAll('[data-curves=accuracy] .curve')].map(e => e.style.strokeDasharray"
    script += " || e.getAttribute('stroke-dasharray'));"
    assert len(set(evaluate(page, script, tmp_path))) == len(rows)
