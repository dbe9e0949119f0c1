"""The audit's page: its rows and sentences, and escaped names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adiw.audit_cutoff import Losses
from adiw.label_audit import Audit
from adiw.reports.audit import load_audit, render_audit, save
from adiw.reports.pictures import load_pictures
from tests.reports.elements import Elements
from tests.reports.folders import write_audit, write_history, write_pictures, write_run
from tests.reports.test_audit import LABELS, audited

HOSTILE = "<script>alert(1)</script>"


def test_a_row_for_each_of_the_least_trusted(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a", dataset="insects")
    (folder / "classes.json").write_text('["ant", "bee"]')
    page = Elements(render_audit(load_audit(folder), 3, "Labels of insects"))
    rows = [attributes for tag, attributes in page.tags if tag == "tr"][1:]
    assert [(row["data-rank"], row["data-number"], row["data-given"]) for row in rows] == [
        ("1", "12", "ant"),
        ("2", "11", "bee"),
        ("3", "13", "bee"),
    ]
    assert page.text("h1") == ["Labels of insects"]
    assert [a.get("value") for a in page.named("option")] == ["", None, None]
    assert {"ant", "bee"} <= set(page.text("option"))
    assert len(page.named("svg", kind="spark")) == 3
    assert "3 of 4 samples" in page.text("p")
    assert not page.named("img")


def test_pictures_are_beside_their_samples(tmp_path: Path) -> None:
    folder = write_pictures(audited(tmp_path / "a"), ["ant", "bee"], count=1, labels=False)  # of samples 0 and 1
    text = render_audit(load_audit(folder), 4, pictures=load_pictures(folder))
    assert len(Elements(text).named("img")) == 2
    line = next(part for part in text.split("<tr ") if 'data-number="11"' in part)
    assert 'alt="training sample 11, given label bee"' in line


def test_true_labels_are_shown_if_they_are_known(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    audit = load_audit(folder)
    assert "true label" in Elements(render_audit(audit, 4)).text("button")
    np.save(folder / "labels.npy", np.array([LABELS[0], LABELS[1], LABELS[1], LABELS[3]]))
    audit = load_audit(folder)
    page = Elements(render_audit(audit, 4))
    assert "true label" not in page.text("button")


def test_the_verdict_is_first_and_the_row_of_a_table_is_shown(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    write_audit(folder, [0.1, 2.0, 3.0, 0.5], columns={"2": {"age": "30", "job": "none"}})
    save(load_audit(folder), tmp_path / "out", run=folder)
    page = Elements((tmp_path / "out" / "audit.html").read_text())
    assert page.text("p")[0].startswith("No cut-off is suggested")
    assert {"age", "job"} <= set(page.text("button"))
    assert len(page.named("th", kind="text")) == 2  # aligned as the cells below
    assert {"30", "none"} <= set(page.text("td"))
    assert "column age" in (tmp_path / "out" / "audit.csv").read_text().splitlines()[0].split(",")


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = write_pictures(
        audited(tmp_path / "a", f"adiw{HOSTILE}", dataset=HOSTILE), [HOSTILE, '" onload="x'], labels=False
    )
    text = render_audit(load_audit(folder), 4, HOSTILE, load_pictures(folder))
    page = Elements(text)
    assert len(page.named("script")) == 1
    assert "<script>alert" not in text
    assert not any("onload" in attributes for _, attributes in page.tags)
    assert HOSTILE in page.text("td")


def drawn(folder: Path, history: list[list[float]]) -> tuple[str | None, str | None, str | None]:
    """Points, height of the line at one, and text of the first sample's sparkline."""
    epochs = list(range(1, len(history) + 1))
    write_history(write_run(folder, "adiw-kl", [50.0] * 3), epochs, history, [row[:2] for row in LABELS])
    write_audit(folder, [1.0, 0.5], source=[10, 11])
    page = Elements(render_audit(load_audit(folder), 2))
    line = next(a for a in page.named("tr") if a.get("data-number") == "10")
    at = [a.get("data-number") for a in page.named("tr")[1:]].index(line["data-number"])
    texts = [a["aria-label"] for a in page.named("svg", kind="spark")]
    return page.named("polyline")[at]["points"], page.named("line")[at]["y1"], texts[at]


def test_a_sparkline_stays_within_its_box(tmp_path: Path) -> None:
    points, one, text = drawn(tmp_path / "a", [[0.0, 1.0], [4.0, 1.0], [2.0, 1.0]])
    assert (points, one) == ("0.0,26.0 60.0,2.0 120.0,14.0", "20.0")
    assert text == "from 0.00 to 2.00, at most 4.00"
    assert drawn(tmp_path / "b", [[1.0, 0.5]])[0] == "0.0,14.0 120.0,14.0"


def test_a_run_without_a_history_has_no_sparkline(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    np.save(folder / "weight_history.npy", np.zeros((0, 0), np.float16))
    (folder / "weight_history.json").write_text('{"epochs": []}')
    assert not Elements(render_audit(load_audit(folder), 4)).named("svg", kind="spark")


def test_the_page_has_all_samples_before_the_cutoff(tmp_path: Path) -> None:
    losses = np.concatenate([np.linspace(0, 1, 600), np.linspace(4, 5, 400)])
    given, known = np.zeros(1000, int), {"predicted": np.zeros(1000, int), "confidence": np.ones(1000)}
    audit = Audit(losses=losses, given=given, trusted=Losses(np.linspace(0, 1, 200)), **known)
    assert audit.cutoff is not None
    for top, rows in ((None, audit.cutoff.number), (5, 5)):
        save(audit, tmp_path, top)
        page = Elements((tmp_path / "audit.html").read_text())
        assert len([tag for tag, _ in page.tags if tag == "tr"]) == rows + 1
