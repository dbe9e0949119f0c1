"""Time zones: where their city lies, and whether its clocks change with the season."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from benchmarks.gauntlet.task import MissingError

YEAR = 2015
FILE = Path("/usr/share/zoneinfo/zone1970.tab")


def degrees(text: str) -> float:
    """An angle of ISO 6709: degrees, minutes and perhaps seconds.

    >>> degrees("+4230")
    42.5
    """
    digits = text[1:]
    width = 2 if len(digits) in (4, 6) else 3
    parts = [digits[:width], digits[width : width + 2], digits[width + 2 :] or "0"]
    return (1 if text[0] == "+" else -1) * sum(int(part) / 60**i for i, part in enumerate(parts))


def table() -> pd.DataFrame:
    """One row for each zone."""
    if not FILE.exists():
        raise MissingError(f"{FILE} does not exist: install the system's package tzdata")
    lines = [line.split("\t") for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return pd.DataFrame([_row(place, name) for _, place, name, *_ in lines])


def _row(place: str, name: str) -> dict[str, object]:
    latitude, longitude = re.findall(r"[+-]\d+", place)
    winter, summer = (
        (datetime(YEAR, month, 1, tzinfo=ZoneInfo(name)).utcoffset() or timedelta()).total_seconds() / 3600
        for month in (1, 7)
    )
    return {
        "latitude": degrees(latitude),
        "longitude": degrees(longitude),
        "january": winter,  # hours ahead of UTC
        "region": name.split("/")[0],
        "changes": winter != summer,
    }
