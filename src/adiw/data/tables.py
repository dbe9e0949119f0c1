"""A user's own table (``csv``): number and text columns and a label column, as CSV, gzipped CSV or parquet.

Read with pandas and prepared with scikit-learn. docs/data-sets.md describes the format.
"""

import csv
import gzip
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import torch
from torch import Tensor

from adiw.data.dataset import Data
from adiw.data.samples import Samples, stratified_split
from adiw.data.source_files import DataError, require_path
from adiw.versions import require

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SUFFIXES = (".csv", ".csv.gz", ".parquet")  # of train and test in a folder; the first one found is read
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null")
TEST_SHARE, SPLIT_SEED = 0.2, 0
MAX_CATEGORIES = 1000  # distinct values of a text column: each becomes one input of the network
MAX_FRACTIONS = 20  # distinct labels that are not whole numbers: more of them are a regression target
MOSTLY = 0.9  # a text column with this share of numbers is probably a number column with a typing error


@dataclass(frozen=True, eq=False)
class Table:
    """One file: features (n, d) and labels (n,), all as text; "" stands for a missing value."""

    path: Path
    features: "DataFrame"
    labels: "Series[str]"

    @property
    def target(self) -> str:
        return str(self.labels.name)

    def refuse(self, row: int, column: str, expected: str, found: str) -> NoReturn:
        """Raise the error for one cell. Rows are counted as in a file of trusted rows."""
        raise DataError(
            f"{self.path}, column {column!r}, row {row} (counted from 0 below the column names): "
            f"expected {expected}, found {found}; correct the value, or remove the row or the column"
        )


def load_table(
    path: Path | None,
    target: str | None = None,
    group: str | None = None,
    train_rows: Sequence[int] | None = None,
    trusted: Path | None = None,
) -> Data:
    """Your own table with a label column, as CSV or parquet: adiw run my.csv, or a folder of tables.

    Vectors (d,) float32: the standardised number columns, then a 0/1 input per value of each text column.

    Medians, means, standard deviations and the values of text columns are those of the training rows.
    One file is split 80/20 within each class, always the same way; its rows ``train_rows``, from 0, are all training
    rows, and a fifth of the others are test rows. Trusted rows in a file of their own, with the same columns, are
    training rows after those of the table.
    """
    path = require_path("csv", path, f"a table ({', '.join(SUFFIXES)}), or a folder with train.csv and test.csv")
    is_folder = path.is_dir()
    if train_rows is not None and is_folder:
        raise DataError(f"{path}: train_rows are for a table that is one file, and this folder has a training file")
    tables = [read_table(_find(path, "train") if is_folder else path, target)]
    others = [*([_find(path, "test")] if is_folder else []), *([] if trusted is None else [trusted])]
    tables += [read_table(other, tables[0].target) for other in others]
    for table in tables[1:]:
        _check_same_columns(tables[0], table)
    classes, numbers = class_names(tables[0]), number_columns(tables[0])
    x, y = [_numeric(table, numbers) for table in tables], [_encode(table, classes) for table in tables]
    groups = [_groups(table, group) for table in tables]
    features, rows, named = tables[0].features, None, None
    if trusted is not None:
        features = _below(features, tables[-1].features)
        named = torch.arange(len(y[0]), len(features))
        x[0], y[0], groups[0] = _below(x[0], x.pop()), torch.cat([y[0], y.pop()]), groups[0] + groups.pop()
    if not is_folder:
        parts = _split(tables[0], y[0], train_rows if named is None else named.tolist())
        x, y, rows = [x[0].iloc[part.numpy()] for part in parts], [y[0][part] for part in parts], parts[0]
        groups = [tuple(groups[0][row] for row in part.tolist()) if groups[0] else () for part in parts]
        named = None if named is None else torch.searchsorted(rows, named)
    given = features.astype("category")  # takes little memory
    transform = _transform(x[0], numbers, path)
    return Data(
        name="csv",
        train=Samples(_to_tensor(transform.fit_transform, x[0], path), y[0]),
        test=Samples(_to_tensor(transform.transform, x[1], path), y[1]),
        classes=classes,
        train_groups=groups[0],
        test_groups=groups[1],
        numbering=f"row of {tables[0].path.name}, from 0 below the column names",
        trusted=named,
        rows=rows,
        describe=lambda i: {str(k): str(v) for k, v in given.iloc[i if rows is None else int(rows[i])].items()},
    )


def _below(first: "DataFrame", second: "DataFrame") -> "DataFrame":
    """The rows of both, numbered anew."""
    from pandas import concat

    return concat([first, second], ignore_index=True)


def _split(table: Table, y: Tensor, train_rows: Sequence[int] | None) -> tuple[Tensor, Tensor]:
    """The rows of one file for training and for testing, both ascending."""
    train_rows = train_rows or ()
    outside = [row for row in train_rows if not 0 <= row < len(y)]
    if outside:
        raise DataError(
            f"{table.path}: expected trusted rows from 0 to {len(y) - 1}, found {outside[0]}; count the rows below "
            "the column names from 0"
        )
    repeated = [row for row, count in Counter(train_rows).items() if count > 1]
    if repeated:
        raise DataError(f"{table.path}: expected each trusted row once, repeated {repeated[0]}; drop the repeats")
    chosen = torch.zeros(len(y), dtype=torch.bool)
    chosen[list(train_rows)] = True
    others = (~chosen).nonzero().flatten()
    train, test = stratified_split(y[others], round(TEST_SHARE * len(others)), SPLIT_SEED)
    return torch.cat([chosen.nonzero().flatten(), others[train]]).sort().values, others[test]


def _groups(table: Table, column: str | None) -> tuple[str, ...]:
    """The values of the column that names the groups; empty without one."""
    if column is None:
        return ()
    if column == table.target:
        return tuple(table.labels)
    if column not in table.features.columns:
        raise DataError(
            f"{table.path}: no column {column!r} for group; the columns are {', '.join(table.features.columns)}"
        )
    return tuple(table.features[column])


def _find(folder: Path, name: str) -> Path:
    for suffix in SUFFIXES:
        if (folder / f"{name}{suffix}").is_file():
            return folder / f"{name}{suffix}"
    raise DataError(f"{folder}: file not found, expected one of {', '.join(name + suffix for suffix in SUFFIXES)}")


def read_table(path: Path, target: str | None) -> Table:
    """Read one file and separate the label column; target None takes the last column."""
    require("pandas", "2.2", "cli")
    frame = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    _check_names(list(frame.columns), path)
    if target is not None and target not in frame.columns:
        raise DataError(f"{path}: no column {target!r} for target; the columns are {', '.join(frame.columns)}")
    if len(frame) == 0:
        raise DataError(f"{path}: expected rows below the column names, found none")
    frame = frame.apply(lambda column: column.str.strip())
    frame = frame.mask(frame.isin(MISSING), "")
    labels = frame.pop(frame.columns[-1] if target is None else target)
    table = Table(path, frame, labels)
    unlabelled = np.flatnonzero(labels == "")
    if len(unlabelled):
        table.refuse(int(unlabelled[0]), table.target, "a label", "a missing value")
    return table


def _read_csv(path: Path) -> "DataFrame":
    """All values as text. pandas.read_csv is not used: it fills short rows with missing values."""
    import pandas

    opening = gzip.open if path.suffix == ".gz" else open
    rows: list[list[str]] = []
    try:
        with cast(IO[str], opening(path, "rt", encoding="utf-8-sig", newline="")) as file:
            reader = csv.reader(file, strict=True)
            for row in filter(None, reader):
                if rows and len(row) != len(rows[0]):
                    raise DataError(
                        f"{path}, line {reader.line_num}: expected {len(rows[0])} values as in the first line, "
                        f'found {len(row)}; complete the row, or quote values that contain a comma: "a, b"'
                    )
                rows.append(row)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 text, found other bytes ({error}); save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not comma-separated text ({error})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as comma-separated text ({error})") from error
    names = [name.strip() for name in rows[0]] if rows else []
    return cast("DataFrame", pandas.DataFrame(rows[1:], columns=names, dtype=str))


def _read_parquet(path: Path) -> "DataFrame":
    import pandas

    require("pyarrow", "14.0", "cli")
    try:
        frame = pandas.read_parquet(path)
        text = frame.astype(object).where(frame.notna(), "").map(str)  # decodes the values, which may be damaged
    except Exception as error:  # a parser may raise any exception on a damaged file
        raise DataError(f"{path}: expected a parquet file, found one that cannot be read ({error})") from error
    return text.set_axis([str(name).strip() for name in frame.columns], axis=1).reset_index(drop=True)


def _check_names(names: list[str], path: Path) -> None:
    if len(names) < 2:
        raise DataError(
            f"{path}: expected at least two columns, features and a label, found {names}; "
            "the first line of a CSV file names the columns, separated by commas"
        )
    from pandas import Series

    if bool(_numbers(Series(names)).notna().all()):
        raise DataError(f"{path}: expected column names in the first line, found numbers; add a line of names")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{path}: expected distinct column names, found twice: {', '.join(twice)}; rename one")


def _check_same_columns(train: Table, test: Table) -> None:
    expected, found = list(train.features.columns), list(test.features.columns)
    if expected != found:
        raise DataError(
            f"{test.path}: expected the columns of {train.path.name} in the same order, {', '.join(expected)}; "
            f"found {', '.join(found)}"
        )


def class_names(table: Table) -> tuple[str, ...]:
    """Distinct labels, sorted as numbers when all are numbers, else as text."""
    where = f"{table.path}, column {table.target!r}"
    distinct = table.labels.drop_duplicates()
    values = _numbers(distinct)
    if len(distinct) < 2:
        raise DataError(
            f"{where}: expected at least two classes, found only {distinct.iloc[0]!r}; "
            "name the label column with target"
        )
    fractions = bool(values.notna().all()) and int((values % 1 != 0).sum()) > MAX_FRACTIONS
    if fractions or len(distinct) > len(table.labels) / 2:
        raise DataError(
            f"{where}: expected class labels that repeat, found {len(distinct)} different values in "
            f"{len(table.labels)} rows; name the label column with target. A regression target cannot be used "
            "here: bin it into classes, or call adiw.ADIW in your own training loop"
        )
    if bool(values.notna().all()):
        return tuple(sorted(distinct, key=lambda label: (float(label), label)))
    return tuple(sorted(distinct))


def _encode(table: Table, classes: tuple[str, ...]) -> Tensor:
    """Labels as positions in classes, (n,) int64."""
    unknown = sorted(set(table.labels) - set(classes))
    if unknown:
        raise DataError(
            f"{table.path}, column {table.target!r}: found classes that the training file does not have: "
            f"{', '.join(unknown)}; correct them, or add training rows"
        )
    position = {name: label for label, name in enumerate(classes)}
    return torch.tensor([position[label] for label in table.labels], dtype=torch.int64)


def _numbers(text: "Series[str]") -> "Series[float]":
    """The values as float64; NaN where the text is not a number."""
    from pandas import to_numeric

    return to_numeric(text.astype(object), errors="coerce").astype(float)


def number_columns(table: Table) -> list[str]:
    """Names of the columns whose values, as far as present, are all numbers; the other columns are text."""
    found = []
    for name, column in table.features.items():
        present = column[column != ""]
        is_number = _numbers(present).notna()
        if bool(is_number.all()):
            found.append(str(name))
        elif is_number.mean() >= MOSTLY:
            row = int(is_number.idxmin())
            warnings.warn(
                f"{table.path}, column {name!r} is read as text, because row {row} (counted from 0) holds "
                f"{column[row]!r}; if it is a number column, correct the value or leave it empty",
                stacklevel=2,
            )
    return found


def _numeric(table: Table, numbers: list[str]) -> "DataFrame":
    """The features with number columns as float64, NaN where a value is missing."""
    features = table.features.copy()
    for name in numbers:
        text, values = features[name], _numbers(features[name])
        wrong = np.flatnonzero((values.isna() & (text != "")) | values.abs().eq(np.inf))
        if len(wrong):
            table.refuse(int(wrong[0]), name, "a finite number", repr(text[wrong[0]]))
        features[name] = values
    return features


def _transform(x_train: "DataFrame", numbers: list[str], path: Path) -> Any:
    """scikit-learn's preprocessing for these columns, not yet fitted."""
    require("scikit-learn", "1.6", "cli")
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    texts = [name for name in x_train.columns if name not in numbers]
    for name in texts:
        count = x_train[name].nunique()
        if count > MAX_CATEGORIES:
            raise DataError(
                f"{path}, column {name!r}: expected at most {MAX_CATEGORIES} different texts, found {count}; "
                "remove the column, or group its values"
            )
    scale = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    # A missing value is the category "". A category that occurs only in the test rows is ignored.
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([("numbers", scale, numbers), ("texts", one_hot, texts)], sparse_threshold=0)


def _to_tensor(apply: Any, x: "DataFrame", path: Path) -> Tensor:
    """The transformed features, (n, d) float32."""
    with np.errstate(all="ignore"):  # an overflow is reported below
        scaled = torch.from_numpy(np.asarray(apply(x), dtype=np.float32))
    if not bool(scaled.isfinite().all()):
        raise DataError(f"{path}: expected numbers that float32 can hold, found far larger ones; rescale them")
    return scaled
