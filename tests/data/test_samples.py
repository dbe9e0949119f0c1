import pytest
import torch
from torch.utils.data import DataLoader

from adiw.data import DataError, Samples


def samples() -> Samples:
    return Samples(torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 2, 1]))


def test_items_and_loader():
    assert len(samples()) == 4
    x, y = samples()[2]
    assert x.tolist() == [6.0, 7.0, 8.0]
    assert y.item() == 2
    (batch,) = DataLoader(samples(), batch_size=4)
    assert torch.equal(batch[0], samples().x)
    assert torch.equal(batch[1], samples().y)


def test_subset_chooses_rows_and_replaces_labels():
    chosen = samples().subset(torch.tensor([3, 3, 0]), torch.tensor([5, 6, 7]))
    assert torch.equal(chosen.x, samples().x[[3, 3, 0]])
    assert chosen.y.tolist() == [5, 6, 7]


def test_subset_keeps_its_own_labels_and_refuses_another_number_of_them():
    assert samples().subset(torch.tensor([3, 0])).y.tolist() == [1, 0]
    with pytest.raises(DataError, match=r"shape \(2,\)"):
        samples().subset(torch.tensor([0, 1]), torch.tensor([0]))
    with pytest.raises(IndexError):
        samples().subset(torch.tensor([4]))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64)),
        (torch.zeros(2, 3), torch.zeros(2)),
        (torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2, 28, 28, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int64)),
    ],
)
def test_shapes_and_types_are_checked(x, y):
    with pytest.raises(DataError, match="expected"):
        Samples(x, y)


def test_samples_are_frozen():
    with pytest.raises(AttributeError):
        samples().x = torch.zeros(1, 1)  # type: ignore[misc]


def test_a_value_that_is_not_a_tensor_is_refused():
    x, y = torch.zeros(2, 3), torch.tensor([0, 1])
    with pytest.raises(DataError, match=r"expected x as a tensor \(n, \.\.\.\), found list"):
        Samples([[0.0]], y)
    with pytest.raises(DataError, match=r"expected labels y as a tensor \(2,\) of int64, found list"):
        Samples(x, [0, 1])
