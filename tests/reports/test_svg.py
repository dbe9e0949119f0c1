"""Charts: well-formed, every value where it belongs."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from adiw.reports import svg


def parse(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def points(element: ElementTree.Element) -> list[tuple[float, float]]:
    found = []
    for pair in element.attrib["points"].split():
        x, y = pair.split(",")
        found.append((float(x), float(y)))
    return found


def test_curves_go_from_left_to_right_and_up_with_the_value() -> None:
    chart = parse(svg.line_chart({"a": [10.0, 50.0, 90.0], "b": [20.0]}, "epoch", "accuracy (%)"))
    first, second = chart.findall("polyline")
    assert (first.attrib["data-name"], second.attrib["data-name"]) == ("a", "b")
    (x1, y1), (x2, y2), (x3, y3) = points(first)
    assert x1 == svg.LEFT
    assert x3 == svg.WIDTH - svg.RIGHT
    assert x2 == pytest.approx((x1 + x3) / 2, abs=0.1)
    assert svg.HEIGHT - svg.BOTTOM > y1 > y2 > y3 > svg.TOP  # up is smaller in SVG
    assert y2 == pytest.approx((y1 + y3) / 2, abs=0.1)


def test_a_single_epoch_is_drawn_as_a_dot() -> None:
    curve = parse(svg.line_chart({"a": [10.0]}, "epoch", "accuracy (%)")).find("polyline")
    assert curve is not None
    assert len(points(curve)) == 2
    assert len(set(points(curve))) == 1
    assert curve.attrib["stroke-linecap"] == "round"


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(1, ["1"]), (2, ["1", "2"]), (5, ["1", "2", "3", "4", "5"]), (400, ["1", "101", "200", "300", "400"])],
)
def test_each_epoch_is_marked_once(epochs: int, expected: list[str]) -> None:
    chart = parse(svg.line_chart({"a": [float(k) for k in range(epochs)]}, "epoch", "accuracy (%)"))
    below = [t.text for t in chart.findall("text") if t.attrib.get("y") == f"{svg.HEIGHT - svg.BOTTOM + 16:.1f}"]
    assert below == expected


def test_shares_stand_over_their_bins() -> None:
    chart = parse(svg.histogram({"intact": [0.25, 0.75], "wrong": [1.0, 0.0]}, [0.0, 1.0, 2.0], "weight"))
    intact, wrong = chart.findall("polygon")
    bottom, top = svg.HEIGHT - svg.BOTTOM, svg.TOP
    heights = [(bottom - y) / (bottom - top) for _, y in points(intact)]
    assert heights == pytest.approx([0, 0.25, 0.25, 0.75, 0.75, 0], abs=0.001)
    assert points(wrong)[1] == (svg.LEFT, svg.TOP)


def test_colours_and_dashes_tell_eleven_methods_apart() -> None:
    names = [f"m{k}" for k in range(11)]
    keys = parse(f"<p>{svg.buttons(names)}</p>")
    looks = [(line.attrib["stroke"], line.attrib["stroke-dasharray"]) for line in keys.iter("line")]
    assert len(set(looks)) == len(looks) == 11
    curves = parse(svg.line_chart({name: [1.0, 2.0] for name in names}, "x", "y")).findall("polyline")
    assert [(c.attrib["stroke"], c.attrib["stroke-dasharray"]) for c in curves] == looks


def test_only_buttons_can_be_pressed() -> None:
    assert "aria-pressed" in svg.buttons(["a"])
    assert not re.search("aria-pressed|button|class=.key", svg.legend(["a"]))


def test_names_are_escaped() -> None:
    hostile = '"><script>alert(1)</script>'
    texts = [svg.line_chart({hostile: [1.0]}, hostile, hostile), svg.buttons([hostile]), svg.legend([hostile])]
    texts.append(svg.histogram({hostile: [1.0]}, [0.0, 1.0], hostile))
    for text in texts:
        assert "<script" not in text
        parse(f"<p>{text}</p>")
