"""The audit's page: its rows and sentences, and escaped names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adiw.reports.audit import load_audit
from adiw.reports.audit_page import quality_line, render_audit, sentences
from tests.reports.elements import Elements
from tests.reports.folders import write_history, write_pictures, write_run
from tests.reports.test_audit import LABELS, audited

HOSTILE = "<script>alert(1)</script>"


def test_a_row_for_each_of_the_least_trusted(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a", dataset="insects")
    (folder / "classes.json").write_text('["ant", "bee"]')
    page = Elements(render_audit(load_audit(folder), top=3))
    rows = [attributes for tag, attributes in page.tags if tag == "tr"][1:]
    assert [(row["data-rank"], row["data-index"], row["data-given"]) for row in rows] == [
        ("1", "12", "ant"),
        ("2", "11", "bee"),
        ("3", "13", "bee"),
    ]
    assert page.text("h1") == ["Label audit: adiw-kl on insects"]
    assert [a["value"] for a in page.named("option")] == ["", "0", "1"]
    assert len(page.named("svg", kind="spark")) == 3
    assert "3 of 4 samples" in page.text("p")
    assert not page.named("img")


def test_pictures_are_beside_their_samples(tmp_path: Path) -> None:
    folder = write_pictures(audited(tmp_path / "a"), ["ant", "bee"], count=1)  # of samples 0 and 1
    text = render_audit(load_audit(folder), top=4)
    assert len(Elements(text).named("img")) == 2
    line = next(part for part in text.split("<tr ") if 'data-index="11"' in part)
    assert 'alt="training sample 11, given label ant"' in line


def test_true_labels_are_shown_if_they_are_known(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    audit = load_audit(folder)
    assert quality_line(audit).startswith("1 labels are known to be wrong: AUROC 0.6667; 0.0% of the 1 least")
    assert "true label" in Elements(render_audit(audit, 4)).text("button")
    np.save(folder / "labels.npy", np.array([LABELS[0], LABELS[1], LABELS[1], LABELS[3]]))
    audit = load_audit(folder)
    assert quality_line(audit).startswith("AUROC and precision are not known")
    page = Elements(render_audit(audit, 4))
    assert "true label" not in page.text("button")
    assert quality_line(audit) in page.text("li")


def test_the_page_explains_the_sample_numbers(tmp_path: Path) -> None:
    assert any("training set as loaded, before" in text for text in sentences(load_audit(audited(tmp_path / "a"))))
    assert any("after the selection split" in t for t in sentences(load_audit(audited(tmp_path / "b", selection=5))))


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = write_pictures(audited(tmp_path / "a", f"adiw{HOSTILE}", dataset=HOSTILE), [HOSTILE, '" onload="x'])
    text = render_audit(load_audit(folder), 4)
    page = Elements(text)
    assert len(page.named("script")) == 1
    assert "<script>alert" not in text
    assert not any("onload" in attributes for _, attributes in page.tags)
    assert HOSTILE in page.text("td")


def drawn(folder: Path, history: list[list[float]]) -> tuple[str | None, str | None, str | None]:
    """Points, height of the line at one, and text of the first sample's sparkline."""
    epochs = list(range(1, len(history) + 1))
    write_history(write_run(folder, "adiw-kl", [50.0] * 3), epochs, history, [row[:2] for row in LABELS])
    page = Elements(render_audit(load_audit(folder), 2))
    line = next(a for a in page.named("tr") if a.get("data-index") == "10")
    at = [a.get("data-index") for a in page.named("tr")[1:]].index(line["data-index"])
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
