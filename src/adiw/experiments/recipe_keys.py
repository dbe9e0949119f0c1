"""Reading the tables of a recipe's file: what is not known or not of the right form is an error that names it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adiw.experiments.settings import SettingsError, unknown

_FIGURE = re.compile(r"(\d+(?:\.\d+)?) \((\d+(?:\.\d+)?)\)")
_DEVIATION = ("setting", "rows", "paper", "ours", "chosen")


def check_keys(where: str, given: Iterable[str], known: Sequence[str]) -> None:
    """An error for the first key that is not known, with the ones that are.

    >>> check_keys("paper", ["acuracy"], ["accuracy", "seconds"])
    Traceback (most recent call last):
    adiw.experiments.settings.SettingsError: unknown key of paper 'acuracy': expected one of accuracy, seconds
    """
    for key in given:
        if key not in known:
            raise unknown(f"key of {where}", str(key), known)


def sentence(given: Mapping[str, Any], key: str) -> str:
    """A text that must be there and say something, on one line."""
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise SettingsError(f"{key}: expected a text, came {value!r}")
    return " ".join(value.split())


def table_of(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A table, empty where there is none."""
    value = given.get(key, {})
    if not isinstance(value, dict):
        raise SettingsError(f"{key}: expected a table, written [{key}], came {value!r}")
    return value


def figure(value: Any, measure: str) -> Any:
    """A figure of the paper: [mean, std] from "88.73 (0.66)", a number for seconds, None from "-".

    >>> figure("88.73 (0.66)", "accuracy"), figure(29.63, "seconds"), figure("-", "accuracy")
    ([88.73, 0.66], 29.63, None)
    """
    if value == "-":
        return None
    if measure == "seconds":
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
        raise SettingsError(f'paper.seconds: expected a number, or "-" for none, came {value!r}')
    match = _FIGURE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise SettingsError(f'paper.{measure}: expected "mean (std)" such as "88.73 (0.66)", or "-", came {value!r}')
    return [float(match[1]), float(match[2])]


def check_deviation(deviation: Mapping[str, Any]) -> None:
    """A deviation has exactly its five keys; which setting, of which rows, and how it was chosen must be said."""
    check_keys("deviation", deviation, _DEVIATION)
    for key in _DEVIATION:
        if key not in deviation:
            raise SettingsError(f"[[deviation]] of {deviation.get('setting', '?')}: {key} is missing")
    sentence(deviation, "setting")
    sentence(deviation, "chosen")
    rows = deviation["rows"]
    if rows != "all" and not (isinstance(rows, list) and rows and all(isinstance(row, str) for row in rows)):
        raise SettingsError(f'[[deviation]] of {deviation["setting"]}: rows must be "all" or a list, came {rows!r}')
