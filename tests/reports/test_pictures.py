"""Pictures on the page: which run they come from, their names and their pixels."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from adiw.reports.folders import read_results
from adiw.reports.pictures import FEWER, MANY, data_uri, galleries, load_pictures
from adiw.reports.report_page import render_report
from tests.reports.elements import Elements
from tests.reports.folders import record, write_pictures, write_run, write_sweep


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_read_back_pixel_by_pixel(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    kind, _, content = data_uri(pixels).partition(",")
    assert kind == "data:image/png;base64"
    found = np.array(Image.open(io.BytesIO(base64.b64decode(content))))
    assert np.array_equal(found.reshape(5, 7, channels), pixels)


def test_pictures_have_their_names(tmp_path: Path) -> None:
    folder = write_pictures(write_run(tmp_path / "a", "adiw-kl", [50.0]), ["ant", "bee"])
    first, *_, last = load_pictures(folder)
    assert (first.given, first.true, first.predicted, first.weight, first.end) == ("ant", "bee", "bee", 0, "lowest")
    assert last.end == "highest"
    (folder / "gallery.npy").unlink()
    assert load_pictures(folder) == []


def test_small_pictures_are_shown_sharp(tmp_path: Path) -> None:
    for side, kind in ((28, "sharp"), (96, "smooth")):
        folder = write_pictures(write_run(tmp_path / kind, "adiw-kl", [50.0]), ["ant", "bee"], 1, side)
        assert f'<img class="{kind}"' in load_pictures(folder)[0].image


def test_each_method_shows_its_first_finished_run_with_pictures(tmp_path: Path) -> None:
    write_pictures(write_run(tmp_path / "1", "adiw-kl", [50.0], "dead"), ["wasp", "wasp"])
    write_run(tmp_path / "2", "adiw-kl", [50.0])
    write_pictures(write_run(tmp_path / "3", "adiw-kl", [50.0]), ["ant", "bee"], 3)
    write_pictures(write_run(tmp_path / "4", "adiw-kl", [50.0]), ["hornet", "hornet"])
    write_pictures(write_run(tmp_path / "5", "diw", [50.0]), ["cat", "dog"], 3)
    text = render_report(read_results(tmp_path))
    page = Elements(text)
    opened = {a["data-name"]: "open" in a for a in page.named("details", kind="of")}
    assert list(opened.items()) == [("diw", True), ("adiw-kl", False)]
    assert page.text("h3") == ["The 3 lowest weights", "The 3 highest weights"] * 2
    assert len(page.named("img")) == len(page.named("figure", kind="picture wrong")) == 12
    assert {" ant", " cat"} <= set(page.text("span"))
    assert "wasp" not in text
    assert "hornet" not in text
    assert "marks a wrong label" in text


def test_pages_with_many_galleries_show_fewer_pictures(tmp_path: Path) -> None:
    for i in range(MANY + 1):
        write_pictures(write_run(tmp_path / str(i), f"m{i}", [50.0]), ["ant", "bee"], FEWER + 5)
    text = render_report(read_results(tmp_path))
    assert set(re.findall("<h3>(.*?)</h3>", text)) == {f"The {FEWER} {end} weights" for end in ("lowest", "highest")}


def test_a_sweep_shows_the_pictures_of_its_runs_if_they_exist(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path, [record("KL", c, 0, [1.0]) for c in ("a", "b")], ["KL"], ["a", "b"])
    assert galleries(read_results(folder)) == []
    write_pictures(write_run(folder / "runs" / "KL-b-0", "adiw-kl", [1.0]), ["ant", "bee"])
    page = Elements(render_report(read_results(folder)))
    assert [a["data-column"] for a in page.named("details", kind="of")] == ["b"]
    assert "KL, b" in page.text("summary")
