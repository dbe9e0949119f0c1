import pytest
import torch

from adiw.data import Data, DataError, Samples


def images(labels, channels=1):
    return Samples(torch.zeros(len(labels), channels, 4, 4, dtype=torch.uint8), torch.tensor(labels))


def test_shape_and_class_count():
    data = Data("toy", images([0, 1]), images([1]), ("a", "b"), (0.5,), (0.2,))
    assert data.num_classes == 2
    assert data.input_shape == (1, 4, 4)
    assert data.augment is False


@pytest.mark.parametrize("label", [2, -1])
def test_labels_out_of_range(label):
    with pytest.raises(DataError, match=f"toy test: expected labels from 0 to 1, found {label}"):
        Data("toy", images([0, 1]), images([0, label]), ("a", "b"), (0.5,), (0.2,))


def test_one_class_is_refused():
    with pytest.raises(DataError, match="at least two classes"):
        Data("toy", images([0]), images([0]), ("a",), (0.5,), (0.2,))


def test_empty_split_is_refused():
    with pytest.raises(DataError, match="toy test: expected samples, found none"):
        Data("toy", images([0, 1]), images([0]).subset(torch.tensor([0])[:0], torch.tensor([0])[:0]), ("a", "b"))


def test_splits_must_agree_in_shape():
    with pytest.raises(DataError, match="one shape"):
        Data("toy", images([0, 1]), images([0, 1], channels=3), ("a", "b"), (0.5,), (0.2,))
