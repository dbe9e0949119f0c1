"""Whole image sets, here small made-up ones on the CPU: what is wrong with them, and that every method runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from adiw.data import Data, Samples
from benchmarks.gauntlet import alternatives, running, tasks_whole
from benchmarks.gauntlet.corruptions import rarer_confusions
from benchmarks.gauntlet.methods import METHODS, fits
from benchmarks.gauntlet.task import ImageLength, Pool, Sources, Split
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.tasks_whole import SETS, draw

SHORT = ImageLength(steps=6, batch=32, rate=1e-3)
CLASSES = tuple("abcdefghij")
FEW_STEPS = partial(rarer_confusions, steps=10)


def images(count: int, shape: tuple[int, ...], seed: int) -> Samples:
    """Noise, brighter for every second class, in rows that differ by class."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(10, (count,), generator=generator)
    x = torch.randint(100, (count, *shape), generator=generator).to(torch.uint8)
    for k in range(10):
        x[y == k, :, 2 * k : 2 * k + 4] += 60 + 60 * (k % 2)
    return Samples(x, y)


@pytest.fixture(autouse=True)
def _small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_set(sources: Sources, images_of: tasks_whole.ImageSet) -> Data:
        gray = images_of.data == "fashion-mnist"
        shape, scale = ((1, 28, 28), (0.5,)) if gray else ((3, 32, 32), (0.5,) * 3)
        return Data(images_of.data, images(1200, shape, 0), images(40, shape, 1), CLASSES, scale, scale)

    monkeypatch.setattr(tasks_whole, "load_set", load_set)
    monkeypatch.setattr(tasks_whole, "TRUSTED", 64)


def split_of(name: str, seed: int = 0) -> Split:
    """A draw with a weak network that sees 100 images; that of CIFAR-10 makes ten steps."""
    whole, shift = TASKS[name].draw.args  # type: ignore[attr-defined]
    rare = whole == SETS["cifar-50k"]
    return draw(replace(whole, teacher=100, **({"confusions": FEW_STEPS} if rare else {})), shift, Sources(), seed)


WHOLE = [task.name for task in tasks_whole.TASKS]


@pytest.mark.parametrize("name", WHOLE)
def test_labels_are_wrong_where_they_are_said_to_be_and_no_image_is_in_two_parts(name: str) -> None:
    split, again = split_of(name), split_of(name)
    rows = np.concatenate([split.rows_train, split.rows_trusted, split.rows_test])
    assert len(np.unique(rows)) == len(rows)
    assert torch.equal(split.y_train, again.y_train)
    assert split.x_train.dtype == torch.uint8
    assert len(split.y_trusted) == 64
    assert len(split.x_train) == len(split.truth)
    assert abs(split.wrong.float().mean() - 0.4) <= 4 * (0.24 / len(split.truth)) ** 0.5  # four standard deviations
    whole = tasks_whole.load_set(Sources(), TASKS[name].draw.args[0])  # type: ignore[attr-defined]
    assert torch.equal(split.truth, whole.train.y[split.rows_train])
    assert torch.equal(split.y_trusted, whole.train.y[split.rows_trusted])
    assert torch.equal(split.y_test, whole.test.y)


def test_rarer_confusions_are_as_many_as_asked_for() -> None:
    """A network without training knows nothing of the classes: of two, it is wrong on half the samples."""
    rng = np.random.default_rng(0)
    y = np.arange(4000) % 2
    pool = Pool(rng.random((4000, 4)).astype(np.float32), y, y)
    given = rarer_confusions(pool, pool, 0.3, 2, rng, steps=0)
    assert abs((given != y).mean() - 0.3) < 0.04
    with pytest.raises(ValueError, match="take fewer steps"):
        rarer_confusions(pool, pool, 0.99, 2, rng, steps=0)


@pytest.mark.parametrize("method", tasks_whole.METHODS)
def test_every_method_trains_lenet(method: str) -> None:
    split = split_of("fashion-60k-symmetric")
    torch.manual_seed(0)
    outcome = METHODS[method].run(split, SHORT)
    assert outcome.predicted.shape == split.y_test.shape
    if outcome.weights is not None:
        assert outcome.weights.shape == split.y_train.shape


def test_resnet_trains_on_augmented_images() -> None:
    split = split_of("cifar-50k-instance")
    torch.manual_seed(0)
    length = replace(SETS["cifar-50k"].length, steps=2, batch=4)
    assert METHODS["mmd"].run(split, length).predicted.shape == split.y_test.shape


def test_the_engine_learns_clean_images() -> None:
    split = split_of("fashion-60k-symmetric")
    torch.manual_seed(0)
    outcome = alternatives.uniform(replace(split, y_train=split.truth), replace(SHORT, steps=80))
    assert (outcome.predicted == split.y_test).float().mean() > 0.8


def test_one_training_serves_the_three_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alternatives, "FINE_TUNE_EPOCHS", 2)
    monkeypatch.setattr(alternatives, "CHECKS", 2)  # after steps 3 and 6
    split, apart = split_of("fashion-60k-symmetric"), {}
    length = replace(SHORT, steps=7, rate=1e-2)
    for name in running.AFTER_UNIFORM:
        torch.manual_seed(0)
        apart[name] = METHODS[name].run(split, length).predicted
    torch.manual_seed(0)
    together = alternatives.after_uniform(split, length)
    assert together.keys() == apart.keys()
    for name, predicted in apart.items():
        assert torch.equal(together[name].predicted, predicted), name
    assert not torch.equal(apart["uniform"], apart["early-stopping"])
    assert not torch.equal(apart["uniform"], apart["fine-tune"])


def test_runs_after_one_training_are_one_unit_and_have_a_record_each(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "fashion-60k-symmetric"
    keys = running.plan([name, "wine"], ["uniform", "kl", "fine-tune"], [0], {}, None)
    found = running.units(keys)
    assert found == [
        [(name, "uniform", 0), (name, "fine-tune", 0)],
        *[[(name, "kl", 0)], [("wine", "uniform", 0)], [("wine", "kl", 0)], [("wine", "fine-tune", 0)]],
    ]
    monkeypatch.setitem(TASKS, name, replace(TASKS[name], length=SHORT))
    made = running.run_unit(found[0], Sources())
    assert [(r["method"], r["seed"]) for r in made if isinstance(r, dict)] == [("uniform", 0), ("fine-tune", 0)]
    assert all(r["settings"]["task"]["steps"] == SHORT.steps for r in made if isinstance(r, dict))


def test_whole_image_sets_have_methods_of_their_own() -> None:
    assert fits("cleanlab", TASKS["fashion-60k-symmetric"])
    assert not fits("cleanlab", TASKS["cifar-50k-symmetric"])
    assert not fits("squared", TASKS["fashion-60k-symmetric"])
    assert fits("squared", TASKS["fashion-symmetric"])
