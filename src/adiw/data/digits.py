"""Handwritten digits: 1797 images of 8 x 8 pixels that come with scikit-learn, so nothing is downloaded."""

import torch

from adiw.data.dataset import Data
from adiw.data.samples import Samples, stratified_split
from adiw.versions import require

TEST_ROWS = 500
SPLIT_SEED = 0  # part of the data set's definition, not of an experiment


def load_digits() -> Data:
    """1297 training and 500 test images of 8 x 8 pixels from scikit-learn; nothing is downloaded.

    Vectors (64,) float32 in 0 .. 1, always with the same split.

    >>> data = load_digits()
    >>> len(data.train), len(data.test), data.input_shape
    (1297, 500, (64,))
    """
    require("scikit-learn", "1.6", "cli")
    from sklearn import datasets

    bunch = datasets.load_digits()
    x = torch.from_numpy(bunch.data).float() / 16
    y = torch.from_numpy(bunch.target).long()
    train, test = stratified_split(y, TEST_ROWS, SPLIT_SEED)
    return Data(
        name="digits",
        train=Samples(x[train], y[train]),
        test=Samples(x[test], y[test]),
        classes=tuple(str(digit) for digit in range(10)),
        picture=(1, 8, 8),
    )
