"""Text and data inside a page: whatever came from outside stays text."""

from __future__ import annotations

import json
import math
from html import escape
from importlib.resources import files
from string import Template
from typing import Any


def fill(*, title: str, body: str, data: Any, scripts: tuple[str, ...]) -> str:
    """A whole page: style, scripts and data are part of it, so that it needs nothing from elsewhere.

    body is HTML, made with ``escape``; scripts are names of files in assets, and read ``data`` as JSON.
    """
    return Template(asset("page.html")).substitute(
        title=escape(title),
        style=asset("page.css"),
        body=body,
        data=script_json(data),
        script="\n".join(asset(name) for name in scripts),
    )


def asset(name: str) -> str:
    """A file that is part of every page."""
    return files("adiw.reports").joinpath("assets", name).read_text(encoding="utf-8")


def script_json(value: Any) -> str:
    """JSON that cannot end the script element that it stands in.

    >>> script_json(["</script>", 1.5])
    '["\\\\u003c/script>",1.5]'
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def attribute(value: str) -> str:
    """A value in quotes, for an attribute."""
    return f'"{escape(value, quote=True)}"'


def rounded(value: float | None, digits: int = 5) -> float | None:
    """A number as short as a chart needs it; None for what is not a number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")
