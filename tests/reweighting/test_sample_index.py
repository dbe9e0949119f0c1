"""Values stored by index: writes, masks and invalid indices."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from adiw.matching import groups
from adiw.reweighting import sample_index
from adiw.reweighting.sample_index import PADDING, check_index, mask_bad, mean_of_duplicates, write_by_index
from tests.simulated_gpu import PretendCuda


def test_values_are_written_at_their_index_and_nowhere_else() -> None:
    slots = torch.ones(6)
    write_by_index(slots, torch.tensor([4, 1]), torch.tensor([0.25, 0.75]))
    assert slots.tolist() == [1.0, 0.75, 1.0, 1.0, 0.25, 1.0]


def test_an_index_that_occurs_twice_gets_the_mean() -> None:
    slots = torch.ones(4)
    write_by_index(slots, torch.tensor([2, 0, 2, 2]), torch.tensor([1.0, 7.0, 2.0, 6.0]))
    assert slots.tolist() == [7.0, 1.0, 3.0, 1.0]


def test_masked_values_are_not_written_and_do_not_count_in_the_mean() -> None:
    slots = torch.ones(5)
    nan = float("nan")
    write_by_index(
        slots,
        torch.tensor([0, 1, 1, 3, 3]),
        torch.tensor([nan, 4.0, float("inf"), 2.0, 3.0]),
        torch.tensor([False, True, False, True, True]),
    )
    assert slots.tolist() == [1.0, 4.0, 1.0, 2.5, 1.0]  # nor are they kept in the last slot


def test_a_write_with_all_values_masked_changes_nothing() -> None:
    slots = torch.rand(5, generator=torch.Generator().manual_seed(0))
    slots[-1] = 1
    before = slots.clone()
    write_by_index(slots, torch.tensor([0, 0, 3]), torch.tensor([5.0, 6.0, float("nan")]), torch.zeros(3).bool())
    assert torch.equal(slots, before)


@given(data=st.data(), size=st.integers(1, 12))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_against_a_dictionary(data: st.DataObject, size: int) -> None:
    entry = st.tuples(st.integers(0, size - 1), st.floats(0, 50, width=32), st.booleans())
    slots, expected = torch.ones(size + 1, dtype=torch.float64), [1.0] * size
    for _ in range(3):
        batch = data.draw(st.lists(entry, min_size=1, max_size=10))
        index, values, mask = (list(column) for column in zip(*batch, strict=True))
        write_by_index(slots, torch.tensor(index), torch.tensor(values, dtype=torch.float64), torch.tensor(mask))
        for i in set(index):
            kept = [v for j, v, m in batch if j == i and m]
            expected[i] = sum(kept) / len(kept) if kept else expected[i]
        torch.testing.assert_close(slots[:-1], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_equal_indices_get_bitwise_equal_values() -> None:
    generator = torch.Generator().manual_seed(1)
    index = torch.randint(7, (200,), generator=generator)
    mean = mean_of_duplicates(index, torch.rand(200, generator=generator))
    for i in range(7):
        assert len(mean[index == i].unique()) == 1


def test_a_single_value_is_exact_beside_large_duplicates() -> None:
    values = torch.tensor([1e30, 1e30, 0.1, 0.3], dtype=torch.float64)
    assert mean_of_duplicates(torch.tensor([0, 0, 1, 2]), values)[2:].tolist() == [0.1, 0.3]


def test_a_single_value_is_exact_in_a_large_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "FEW_ON_CPU", 0)
    values = torch.tensor([1e30, 0.1, 1e30, 0.3], dtype=torch.float64)
    assert mean_of_duplicates(torch.tensor([0, 1, 0, 2]), values).tolist() == [1e30, 0.1, 1e30, 0.3]


def test_sorted_means_of_singles_are_summed_in_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "FEW_ON_CPU", 0)
    index, values = torch.tensor([0, 0, 1, 1]), torch.tensor([3e7, 3e7, 0.5, 1.0])
    mean = mean_of_duplicates(index, values)
    assert mean.dtype == torch.float32
    assert mean.tolist() == [3e7, 3e7, 0.75, 0.75]


def test_distinct_skips_the_search_for_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = torch.ones(4)
    monkeypatch.delattr(sample_index, "mean_of_duplicates")
    write_by_index(slots, torch.tensor([2, 0]), torch.tensor([5.0, 4.0]), distinct=True)
    assert slots.tolist() == [4.0, 1.0, 5.0, 1.0]
    with pytest.raises(NameError):  # without the promise duplicates are searched for
        write_by_index(slots, torch.tensor([2, 0]), torch.tensor([5.0, 4.0]))


def test_values_take_the_dtype_of_the_slots() -> None:
    for dtype in (torch.float32, torch.float64):
        slots = torch.ones(3, dtype=dtype)
        write_by_index(slots, torch.tensor([0]), torch.tensor([1 / 3], dtype=torch.float64))
        assert slots[0] == torch.tensor(1 / 3, dtype=dtype)


@pytest.mark.parametrize("bad", [-1, 10, 2**40])
def test_an_index_out_of_range_is_an_error_that_names_it(bad: int) -> None:
    with pytest.raises(IndexError, match=rf"index {bad} is not in the training set: num_train is 10"):
        check_index(torch.tensor([3, bad, 2]), 3, 10)


def test_the_first_and_the_last_sample_are_in_the_set() -> None:
    index, checked = check_index(torch.tensor([0, 9]), 2, 10)
    assert index.tolist() == [0, 9]
    assert checked is True


def test_on_a_gpu_bad_indices_are_written_to_the_last_slot_and_counted() -> None:
    index, checked = check_index(torch.tensor([9, 10, -1, 0]).as_subclass(PretendCuda), 4, 10)
    assert index.tolist() == [9, 10, -1, 0]
    assert checked is False
    masked, bad = mask_bad(index, 10)
    assert masked.tolist() == [9, 10, 10, 0]
    assert int(bad) == 2


def test_padding_is_masked_but_not_bad() -> None:
    masked, bad = mask_bad(torch.tensor([PADDING, 3, 2**40, PADDING]), 10)
    assert masked.tolist() == [10, 3, 10, 10]
    assert int(bad) == 1


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        (torch.tensor([0.0, 1.0]), "float32"),
        (torch.tensor([True, False]), "bool"),
        ([0, 1], "list"),
    ],
)
def test_an_index_that_is_not_an_integer_tensor(index: Tensor, kind: str) -> None:
    with pytest.raises(TypeError, match=f"tensor of integers, got .*{kind}"):
        check_index(index, 2, 10)


@pytest.mark.parametrize("shape", [(3,), (2, 1), ()])
def test_an_index_of_another_length(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"index has shape .* but there are 2 losses"):
        check_index(torch.zeros(shape, dtype=torch.long), 2, 10)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_any_integer_type_is_an_index(dtype: torch.dtype) -> None:
    # 1000 does not fit in 8 bits and must not overflow in the comparison
    index, checked = check_index(torch.tensor([0, 100, 120], dtype=dtype), 3, 1000)
    assert index.tolist() == [0, 100, 120]
    assert index.dtype == torch.int64
    assert checked is True
    high = torch.tensor([250], dtype=torch.uint8)
    assert check_index(high, 1, 1000)[0].tolist() == [250]


@pytest.mark.parametrize("size", [200, 3000])
def test_pairs_and_sorting_give_the_same_means(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    index = torch.randint(size // 2, (size,), generator=generator)
    values = torch.rand(size, generator=generator, dtype=torch.float64)
    found = []
    for small in (0, size):
        monkeypatch.setattr(groups, "FEW_ON_CPU", small)
        found.append(mean_of_duplicates(index, values))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("index", [[1, 7, 4, 7], [7, 1, 7, 4, 9], [0, 3, 7, 7]])
def test_a_repeated_sample_is_an_error_that_names_it(index: list[int]) -> None:
    with pytest.raises(ValueError, match="sample 7 is twice in a batch"):
        check_index(torch.tensor(index), len(index), 10, repeats=False)
    once = torch.tensor(sorted(set(index)))
    assert check_index(once, len(once), 10, repeats=False)[1] is True


def test_on_a_gpu_repeats_are_not_searched_for() -> None:
    """Reading the index would stall the step."""
    index = torch.tensor([3, 3]).as_subclass(PretendCuda)
    assert check_index(index, 2, 10, repeats=False)[1] is False


@pytest.mark.parametrize("distinct", [False, True])
def test_the_last_slot_keeps_nothing(distinct: bool) -> None:
    """Masked values and bad indices are written to it, and it is then reset to one."""
    slots = torch.ones(4)
    write_by_index(slots, torch.tensor([0, 1]), torch.tensor([2.0, 4.0]), torch.tensor([True, False]), distinct)
    assert slots.tolist() == [2.0, 1.0, 1.0, 1.0]
    write_by_index(slots, torch.tensor([3, 1]), torch.tensor([5.0, 6.0]))
    assert slots.tolist() == [2.0, 6.0, 1.0, 1.0]


def test_the_error_names_the_index_that_is_bad() -> None:
    with pytest.raises(IndexError, match="index 7 is not in the training set"):
        check_index(torch.tensor([0, 7]), 2, 5, True)
