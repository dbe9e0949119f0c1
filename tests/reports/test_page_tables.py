"""Tables of a page, cell by cell."""

from __future__ import annotations

from pathlib import Path

from adiw.reports.page_tables import tables
from adiw.reports.records import load_page
from tests.reports.elements import Elements
from tests.reports.folders import record, write_run, write_sweep


def cells(text: str, row: str) -> list[str]:
    """The text of each cell of a row, in one line."""
    line = text.split(f'<th scope="row">{row}</th>')[1].split("</tr>")[0]
    parts = [Elements(cell + "</td>").texts for cell in line.split("</td>")[:-1]]
    return [" ".join(text.strip() for _, text in part) for part in parts]


def test_runs_of_one_setting_have_their_trials_and_times(tmp_path: Path) -> None:
    write_run(tmp_path / "1", "adiw-kl", [50.0, 70.0], seconds=0.25)
    write_run(tmp_path / "2", "adiw-kl", [61.0], seconds=0.5)
    write_run(tmp_path / "3", "diw", [10.0], "dead")
    write_run(tmp_path / "4", "l2r", [], None)
    text = tables(load_page(tmp_path))
    assert Elements(text).text("th")[:4] == ["method", "accuracy % (std)", "trials", "s / epoch"]
    assert cells(text, "adiw-kl") == ["60.50 (0.71)", "2", "0.375"]
    assert cells(text, "diw") == ["- 1 dead", "0", "-"]
    assert cells(text, "l2r") == ["- 1 unfinished", "0", "-"]
    assert text.count("<section") == 1
    assert "in brackets the std between seeds" in text


def test_a_sweep_has_every_planned_cell_and_the_papers_figure(tmp_path: Path) -> None:
    records = [record("KL", "a", 0, [0.0] * 5 + [60.0] * 10), record("KL", "a", 1, [62.0] * 10)]
    records += [record("KL", "b", 0, [10.0], "dead"), record("KL", "b", 1, [], "failed")]
    paper = {"accuracy": {"KL": [[60.5, 0.25], [70, 1]], "New": [None, None]}}
    text = tables(load_page(write_sweep(tmp_path, records, ["KL", "New"], ["a", "b"], paper=paper)))
    assert cells(text, "KL") == [
        "61.00 (1.00) paper 60.50 (0.25) +0.50",
        "- paper 70.00 (1.00) 1 dead, 1 failed",
    ]
    assert cells(text, "New") == ["- 2 missing", "- 2 missing"]
    assert "mean (std) over the last ten epochs of all finished trials" in text
    assert "the paper&#x27;s figure" in text


def test_each_measure_has_its_table_and_the_time_has_one(tmp_path: Path) -> None:
    records = [record("KL", column, 0, [60.0]) for column in ("a", "b")]
    more = {"measures": ["accuracy", "top5"], "paper": {"seconds": {"KL": [12.5, None]}}, "trials": 1}
    folder = write_sweep(tmp_path, records, ["KL"], ["a", "b"], **more)
    assert Elements(tables(load_page(folder))).text("h2") == ["Accuracy", "Top-5 accuracy"]
    (folder / "timing.jsonl").write_text('{"row": "KL", "column": "a", "seconds_per_epoch": 0.125}\n')
    text = tables(load_page(folder))
    assert Elements(text).text("h2") == ["Accuracy", "Top-5 accuracy", "Seconds per epoch"]
    assert cells(text.split("<h2>Top-5 accuracy")[1], "KL") == ["70.00", "70.00"]
    assert cells(text.split("<h2>Seconds per epoch")[1], "KL") == ["0.125 paper 12.50", "-"]
