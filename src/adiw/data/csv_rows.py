"""One CSV file to numbers and labels; whatever cannot be a number is named by file, line and column."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from adiw.data.errors import DataError


@dataclass(frozen=True, eq=False)
class Rows:
    """Feature names (d), features (n, d) float64, labels (n) as written, and the target's name."""

    path: Path
    names: tuple[str, ...]
    x: Tensor
    labels: tuple[str, ...]
    target: str


def read_rows(path: Path, target: str | None) -> Rows:
    """Read a comma-separated file whose first line names the columns; target None takes the last one."""
    lines = _lines(path)
    header = next(lines, (0, []))[1]
    _check_header(header, path)
    column = _target_column(header, target, path)
    names = (*header[:column], *header[column + 1 :])
    x: list[list[float]] = []
    labels: list[str] = []
    for line, cells in lines:
        if len(cells) != len(header):
            raise DataError(
                f"{path}, line {line}: expected {len(header)} values as in the first line, "
                f'found {len(cells)}; complete the row, or quote values that contain a comma: "a, b"'
            )
        if not cells[column]:
            _refuse(path, line, header[column], cells[column], "a label")
        labels.append(cells.pop(column))
        x.append([_number(cell, path, line, name) for cell, name in zip(cells, names, strict=True)])
    if not x:
        raise DataError(f"{path}: expected rows below the first line, found none")
    return Rows(path, names, torch.tensor(x, dtype=torch.float64), tuple(labels), header[column])


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and stripped cells of every line that is not blank."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                if cells:
                    yield reader.line_num, [cell.strip() for cell in cells]
    except FileNotFoundError:
        raise DataError(f"{path}: file not found; expected comma-separated text") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, found other bytes ({error}); save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not comma-separated text ({error})") from error


def _check_header(header: list[str], path: Path) -> None:
    if len(header) < 2:
        raise DataError(
            f"{path}: expected a first line that names at least two columns, separated by commas, "
            f"found {header}; save the table with commas"
        )
    if all(_parse(name) is not None for name in header):
        raise DataError(f"{path}: expected column names in the first line, found numbers; add a line of names")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(f"{path}: expected distinct column names, found twice: {', '.join(twice)}; rename one")


def _target_column(header: list[str], target: str | None, path: Path) -> int:
    if target is None:
        return len(header) - 1
    if target not in header:
        raise DataError(f"{path}: no column {target!r} for target; the columns are {', '.join(header)}")
    return header.index(target)


def _parse(text: str) -> float | None:
    """The finite number that text is, else None. Python's own 1_000 is not one.

    >>> _parse("2e3"), _parse("nan"), _parse("1_000")
    (2000.0, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _number(text: str, path: Path, line: int, column: str) -> float:
    value = _parse(text)
    return value if value is not None else _refuse(path, line, column, text, "a number")


def _refuse(path: Path, line: int, column: str, value: str, wanted: str) -> NoReturn:
    found = f"{value!r}" if value else "nothing (a missing value)"
    raise DataError(
        f"{path}, line {line}, column {column!r}: expected {wanted}, found {found}; "
        "correct the value, or remove the row or the column"
    )
