"""The audit's page in a real browser: it sorts, it filters, and it fits a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from adiw.reports.audit import load_audit, render_audit
from adiw.reports.pictures import load_pictures
from tests.reports.browser import OVERFLOWING, evaluate, needs_chromium
from tests.reports.folders import write_audit, write_pictures
from tests.reports.test_audit import audited

pytestmark = needs_chromium
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def page(tmp_path: Path) -> str:
    folder = write_pictures(audited(tmp_path / "run"), ["ant", HOSTILE], count=1, labels=False)
    columns = {"2": {"age": "30"}, "1": {"age": "4"}}
    write_audit(folder, [0.1, 2.0, 3.0, 0.5], source=[10, 11, 12, 13], columns=columns)
    return render_audit(load_audit(folder), 4, pictures=load_pictures(folder))


def test_headings_sort_and_filters_hide(page: str, tmp_path: Path) -> None:
    script = """
      const all = query => [...document.querySelectorAll(query)];
      const rows = () => all('tbody tr').filter(e => !e.hidden).map(e => +e.dataset.number);
      const head = text => all('th button').find(e => e.textContent === text);
      const set = (id, value) => {
        const e = document.getElementById(id);
        e.value = value;
        e.dispatchEvent(new Event('input'));
      };
      const found = {start: rows()};
      head('number').click(); found.index = rows();
      head('number').click(); found.down = rows(); found.order = head('number').closest('th').ariaSort;
      head('label').click(); found.given = rows();
      head('age').click(); found.age = rows();
      head('#').click(); found.rank = rows();
      set('label', '<script>alert(1)<' + '/script>'); found.label = rows();
      found.count = document.getElementById('count').textContent;
      set('label', ''); set('filter', 'ALERT'); found.text = rows();
      set('filter', '12'); found.number = rows(); set('filter', '');
      document.getElementById('differ').click(); found.differ = rows();
      return found;"""
    found = evaluate(page, script, tmp_path)
    assert found["start"] == found["rank"] == [12, 11, 13, 10]
    assert found["index"] == [10, 11, 12, 13]
    assert (found["down"], found["order"]) == ([13, 12, 11, 10], "descending")
    assert found["given"] in ([12, 10, 11, 13], [11, 13, 12, 10])  # by name, then by rank
    assert (found["label"], found["count"]) == ([11, 13], "2 of 4 samples")
    assert found["text"] == [11, 13, 10]  # given, predicted or true
    assert found["number"] == [12]
    assert found["age"] == [11, 12, 13, 10]  # as numbers; samples without one come last
    assert found["differ"] == [11, 10]


def test_it_shows_pictures_lines_and_names_as_text(page: str, tmp_path: Path) -> None:
    script = """
      const all = query => [...document.querySelectorAll(query)], name = '<script>alert(1)<' + '/script>';
      return {
        names: all('td').filter(e => e.textContent === name).length, scripts: all('td script').length,
        images: all('img').filter(e => e.naturalWidth).length,
        lines: all('.spark polyline').filter(e => e.getTotalLength() > 100).length};"""
    assert evaluate(page, script, tmp_path) == {"names": 6, "images": 2, "scripts": 0, "lines": 4}


@pytest.mark.parametrize("width", [390, 1000])
def test_nothing_overflows(page: str, tmp_path: Path, width: int) -> None:
    assert evaluate(page, OVERFLOWING, tmp_path, width) == []
