"""What a loader returns: both splits, and what a model and a training loop need to know about them."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from adiw.data.image_files import ImageFiles
from adiw.data.samples import Samples, check_range
from adiw.data.source_files import DataError


@dataclass(frozen=True, eq=False)
class Data:
    """A named data set.

    classes: the names of the labels 0, 1, ...
    mean, std: per channel, applied after /255 to uint8 images; empty for float vectors, which are already scaled.
    augment: random crop (padding 4) and flip on the device during training.
    picture: (channels, height, width) if the float vectors are images with values in 0 .. 1; else empty.
    train_groups, test_groups: the group of each sample, a value of a column of a table; empty without groups.
    numbering: what ``rows`` counts, such as the rows of a file; by default positions in the training set.
    rows: (n,) the number of each training sample there; None for its position.
    trusted: (t,) the positions of training samples that came as trusted ones, from a table of trusted rows.
    describe: describe(position) is a training sample as its source has it, by column; None without columns.

    >>> import torch
    >>> samples = Samples(torch.zeros(2, 3), torch.tensor([0, 1]))
    >>> data = Data("two", samples, samples, ("no", "yes"))
    >>> data.num_classes, data.input_shape
    (2, (3,))
    """

    name: str
    train: Samples | ImageFiles
    test: Samples | ImageFiles
    classes: tuple[str, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augment: bool = False
    picture: tuple[int, ...] = ()
    train_groups: tuple[str, ...] = ()
    test_groups: tuple[str, ...] = ()
    numbering: str = ""
    rows: Tensor | None = None
    trusted: Tensor | None = None
    describe: Callable[[int], dict[str, str]] | None = None

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise DataError(
                f"{self.name}: expected at least two classes, found {list(self.classes)}; "
                "a classifier needs two or more"
            )
        check_range(self.train.y, self.num_classes, f"{self.name} train")
        check_range(self.test.y, self.num_classes, f"{self.name} test")
        if self.train.input_shape != self.test.input_shape:
            raise DataError(
                f"{self.name}: expected train and test inputs of one shape, "
                f"found {self.train.input_shape} and {self.test.input_shape}"
            )

    def find(self, positions: Tensor) -> tuple[Tensor, str]:
        """(numbers (k,) of training samples in their source, which numbering that is)."""
        numbering = self.numbering or f"position in the training set of {self.name}, from 0"
        return positions if self.rows is None else self.rows[positions], numbering

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one x: (channels, height, width) or (features,)."""
        return self.train.input_shape
