"""A user's own table: numeric features and a label column, in one CSV file or in train.csv and test.csv."""

from pathlib import Path

import torch
from torch import Tensor

from adiw.data.csv_rows import Rows, read_rows
from adiw.data.dataset import Data
from adiw.data.errors import DataError
from adiw.data.options import Options
from adiw.data.samples import Samples
from adiw.data.split import stratified_split

TEST_SHARE = 0.2


def load_csv(root: Path, options: Options) -> Data:
    """Vectors (d,) float32, standardised with the training rows' mean and standard deviation.

    One file is split 80/20 by options.seed within each class; root is not used.
    """
    options.only("csv", "path", "target", "seed")
    path = options.require_path("csv", "a .csv file, or a folder that holds train.csv and test.csv")
    if path.is_dir():
        train, test = _two_files(path, options.target)
        classes = _class_names(train)
        x_train, y_train = train.x, _encode(train, classes)
        x_test, y_test = test.x, _encode(test, classes)
    else:
        rows = read_rows(path, options.target)
        classes = _class_names(rows)
        y = _encode(rows, classes)
        chosen, held_out = stratified_split(y, round(TEST_SHARE * len(y)), options.seed)
        x_train, y_train = rows.x[chosen], y[chosen]
        x_test, y_test = rows.x[held_out], y[held_out]
    return Data(
        name="csv",
        train=Samples(_standardise(x_train, x_train, path), y_train),
        test=Samples(_standardise(x_test, x_train, path), y_test),
        classes=classes,
    )


def _two_files(folder: Path, target: str | None) -> tuple[Rows, Rows]:
    train = read_rows(folder / "train.csv", target)
    test = read_rows(folder / "test.csv", train.target)
    if train.names != test.names:
        raise DataError(
            f"{test.path}: expected the columns of train.csv in the same order, {', '.join(train.names)}; "
            f"found {', '.join(test.names)}"
        )
    return train, test


def _class_names(rows: Rows) -> tuple[str, ...]:
    """Distinct labels, sorted as numbers when all are integers, else as text."""
    distinct = set(rows.labels)
    if len(distinct) < 2:
        raise DataError(
            f"{rows.path}, column {rows.target!r}: expected at least two classes, "
            f"found only {rows.labels[0]!r}; name the label column with target"
        )
    if len(distinct) > len(rows.labels) / 2:
        raise DataError(
            f"{rows.path}, column {rows.target!r}: expected labels that repeat, "
            f"found {len(distinct)} different values in {len(rows.labels)} rows; name the label column with target"
        )
    try:
        return tuple(sorted(distinct, key=lambda label: (int(label), label)))
    except ValueError:
        return tuple(sorted(distinct))


def _encode(rows: Rows, classes: tuple[str, ...]) -> Tensor:
    """Labels as positions in classes, (n,) int64."""
    position = {name: label for label, name in enumerate(classes)}
    unknown = sorted(set(rows.labels) - set(classes))
    if unknown:
        raise DataError(
            f"{rows.path}, column {rows.target!r}: found classes that train.csv does not have: "
            f"{', '.join(unknown)}; correct them, or add training rows"
        )
    return torch.tensor([position[label] for label in rows.labels], dtype=torch.int64)


def _standardise(x: Tensor, x_train: Tensor, path: Path) -> Tensor:
    """(x - mean) / std over the training rows, (n, d) float64 -> float32; a constant column becomes 0.

    >>> x = torch.tensor([[0.0, 5.0], [2.0, 5.0]])
    >>> _standardise(x, x, Path("x.csv"))
    tensor([[-1.,  0.],
            [ 1.,  0.]])
    """
    mean, std = x_train.mean(0), x_train.std(0, correction=0)
    scaled = ((x - mean) / torch.where(std > 0, std, 1.0)).float()
    if not bool(scaled.isfinite().all()):
        raise DataError(f"{path}: expected numbers that float32 can hold, found far larger ones; rescale them")
    return scaled
