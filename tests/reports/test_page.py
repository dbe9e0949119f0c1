"""The page: complete, honest about what did not finish, and safe whatever the names are."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from adiw.reports.page import mean_curve, render, summary
from adiw.reports.results import Result, by_method, load_results
from tests.reports.folders import write_run

HOSTILE = "</script><script>alert(1)</script>"


class Elements(HTMLParser):
    """All elements as a browser would find them, and the text of scripts and cells."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))

    def named(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        wanted = {("class" if key == "kind" else key): value for key, value in attributes.items()}
        return [a for t, a in self.tags if t == tag and wanted.items() <= a.items()]


@pytest.fixture
def results(tmp_path: Path) -> list[Result]:
    write_run(tmp_path / "1", "adiw-kl", [50.0, 70.0, 90.0])
    write_run(tmp_path / "2", "adiw-kl", [60.0, 80.0])
    write_run(tmp_path / "3", "uniform", [30.0, 40.0])
    write_run(tmp_path / "4", "diw", [10.0], "dead")
    write_run(tmp_path / "5", "l2r", [20.0], None)
    write_run(tmp_path / "6", "mw-net", [], None)
    return load_results(tmp_path)


def test_every_method_has_its_line_and_every_run_with_epochs_its_curve(results: list[Result]) -> None:
    page = Elements(render(results, ["uniform", "adiw-kl"], "Five runs"))
    curves = [a["data-name"] for a in page.named("polyline", kind="curve")]
    assert curves == ["uniform", "adiw-kl", "diw", "l2r"]
    assert [a["data-name"] for a in page.named("button", kind="key")] == curves
    cells = [text for tag, text in page.texts if tag == "td"]
    assert cells[:4] == ["uniform", "35.00", "1", "0.500"]
    assert cells[4:8] == ["adiw-kl", "70.00 (0.00)", "2", "0.500"]
    for method, note in (("diw", "1 dead"), ("l2r", "1 unfinished"), ("mw-net", "1 unfinished")):
        at = cells.index(method)
        assert cells[at : at + 5] == [method, "-", "0", "-", note]


def test_the_data_of_the_chart_are_those_of_the_runs(results: list[Result]) -> None:
    page = Elements(render(results, [], "Five runs"))
    content = next(text for tag, text in page.texts if text.startswith("[{"))
    values = {series["name"]: series["values"] for series in json.loads(content)}
    assert values["adiw-kl"] == mean_curve(results, "adiw-kl") == [55.0, 75.0, 90.0]  # the third epoch: one run
    assert values["uniform"] == [30.0, 40.0]


def test_the_data_come_before_the_script_that_reads_them(results: list[Result]) -> None:
    page = render(results, [], "Five runs")
    assert page.index('id="data"') < page.index("getElementById('data')")


def test_a_sentence_says_what_was_run_and_what_did_not_finish(results: list[Result]) -> None:
    text = summary(by_method(results, []))
    assert text == (
        "6 runs of 5 methods. Highest mean accuracy: adiw-kl, 70.00%. "
        "Not finished: diw: 1 dead; l2r: 1 unfinished; mw-net: 1 unfinished."
    )
    assert escaped_in(render(results, [], "t"), text)
    done = [result for result in results if result.status == "done"]
    assert summary(by_method(done, [])).endswith("All finished.")
    assert summary(by_method([r for r in results if r.status != "done"], [])) == "3 runs, none finished."


def escaped_in(page: str, text: str) -> bool:
    return text in unescape(page)


def test_a_page_without_any_epoch(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "diw", [], None)
    page = render(load_results(tmp_path), [], "Nothing yet")
    assert "No epoch has been run yet." in page
    assert not Elements(page).named("polyline")


def test_weights_of_intact_and_mislabelled(tmp_path: Path) -> None:
    write_run(tmp_path / "1", "adiw-kl", [50.0], flipped=[False] * 3 + [True], weights=[1.9, 1.9, 0.0, 0.0])
    write_run(tmp_path / "2", "adiw-kl", [50.0], flipped=[False] * 3 + [True], weights=[0.0] * 4)
    write_run(tmp_path / "3", "adiw-ls", [50.0], flipped=[False] * 4, weights=[1.0] * 4)
    write_run(tmp_path / "4", "uniform", [50.0])
    write_run(tmp_path / "5", "adiw-wa", [50.0], "dead")
    text = render(load_results(tmp_path), [], "t")
    page = Elements(text)
    assert re.findall("<h3>(.*?)</h3>", text) == ["adiw-kl"]  # the first finished run whose truth is known
    assert [a["data-name"] for a in page.named("polygon")] == ["intact", "mislabelled"]
    assert len(page.named("span", kind="name")) == 2


def test_hostile_names_and_titles_stay_text(tmp_path: Path) -> None:
    write_run(tmp_path / "1", f"adiw{HOSTILE}", [50.0, 60.0])
    write_run(tmp_path / "2", '"onclick="alert(1)', [50.0], "dead")
    write_run(tmp_path / "3", "$table ${data}", [50.0])
    text = render(load_results(tmp_path), [], f"Title {HOSTILE}")
    page = Elements(text)
    assert len(page.named("script")) == 2
    assert text.count("</script>") == 2
    assert "alert(1)</script>" not in text
    assert not any("onclick" in attributes for _, attributes in page.tags)
    names = {a["data-name"] for a in page.named("polyline", kind="curve")}
    assert names == {f"adiw{HOSTILE}", '"onclick="alert(1)', "$table ${data}"}
    content = next(part for _, part in page.texts if part.startswith("[{"))
    assert {series["name"] for series in json.loads(content)} == names
    assert escaped_in(text, f"Title {HOSTILE}")


def test_the_page_needs_nothing_from_elsewhere(results: list[Result]) -> None:
    page = Elements(render(results, [], "t"))
    assert not any({"src", "href"} & attributes.keys() for _, attributes in page.tags)
    assert not page.named("link")
