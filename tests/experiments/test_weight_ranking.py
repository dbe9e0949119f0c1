"""The score that ranks samples by their weights over the epochs."""

from __future__ import annotations

import numpy as np
import pytest

from adiw.experiments.weight_ranking import lowest_first, weight_score


def test_the_score_is_the_mean_root_of_the_relative_weight() -> None:
    history = np.array([[1.0, 1.0, 1.0], [4.0, 1.0, 1.0], [0.0, 0.0, 3.0]])
    expected = [(2 / 2**0.5 + 0) / 2, (1 / 2**0.5 + 0) / 2, (1 / 2**0.5 + 3**0.5) / 2]
    assert weight_score(history, [1, 2, 5], history[-1]) == pytest.approx(expected)


def test_the_warm_up_epoch_is_excluded() -> None:
    history = np.array([[9.0, 0.0], [1.0, 3.0]])
    assert weight_score(history, [1, 2], history[-1]) == pytest.approx([0.5**0.5, 1.5**0.5])


def test_epochs_with_large_weights_count_no_more_than_others() -> None:
    history = np.array([[100.0, 300.0], [3.0, 1.0]])
    first, second = weight_score(history, [2, 3], history[-1])
    assert first == pytest.approx(second)


def test_without_a_history_the_last_weights_are_used() -> None:
    weights = np.array([0.0, 2.0])
    for history, epochs in ((np.zeros((0, 0)), []), (np.ones((1, 2)), [1])):
        assert weight_score(history, epochs, weights) == pytest.approx([0, 2**0.5])


@pytest.mark.filterwarnings("error")
def test_epochs_with_infinite_weights_are_excluded() -> None:
    """Earlier versions kept the history in half precision, where weights above 65,504 are infinite."""
    history = np.array([[np.inf, 1.0], [3.0, 1.0]], np.float16)
    assert weight_score(history, [2, 3], history[-1]) == pytest.approx([1.5**0.5, 0.5**0.5])


def test_epochs_without_any_weight_are_excluded() -> None:
    history = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert weight_score(history, [2, 3], history[-1]) == pytest.approx([1, 1])
    assert weight_score(history[:1], [2], history[0]).tolist() == [0, 0]


def test_half_precision_does_not_overflow() -> None:
    history = np.full((2, 70_000), 2.0, np.float16)  # their sum is beyond half precision
    assert weight_score(history, [2, 3], history[-1]) == pytest.approx(np.ones(70_000))


def test_ties_are_broken_by_the_last_weight_then_by_index() -> None:
    scores, weights = np.array([0.5, 0.0, 0.0, 0.0]), np.array([0.0, 0.2, 0.1, 0.1])
    assert lowest_first(scores, weights).tolist() == [2, 3, 1, 0]
