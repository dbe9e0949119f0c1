"""Tasks: the same for the same seed, right where they say so, wrong where they say so, and no row in two parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from benchmarks.gauntlet import tasks_exported, tasks_functions, tasks_glyphs, tasks_images, tasks_tables, tasks_text
from benchmarks.gauntlet.corruptions import symmetric
from benchmarks.gauntlet.halves import read_halves
from benchmarks.gauntlet.task import MissingError, Sources, Split
from benchmarks.gauntlet.tasks import TASKS

SOURCES = Sources()
PARTS = ("train", "trusted", "test")
BUNDLED = [name for name in TASKS if name.startswith(("digits", "cancer", "wine", "diabetes"))]
NOISE = {  # expected share of wrong targets
    "digits-symmetric": 0.4,
    "digits-pair": 0.3,
    "digits-mix-symmetric": 0.4,
    "digits-one-rest": 0.3,
    "digits-hundred": 0.4,
    "fashion-symmetric": 0.4,
    "fashion-pair": 0.3,
    "fashion-mix-symmetric": 0.4,
    "fashion-one-rest": 0.3,
    "fashion-instance": 0.35,
    "cancer": 0.35,
    "wine": 0.4,
    "adult-flipped": 0.4,
    "diabetes-units": 0.3,
    "hours-units": 0.3,
    "docstrings": 0.4,
    "glyphs-symmetric": 0.4,
    "glyphs-mix-symmetric": 0.4,
    "glyphs-instance": 0.35,
    "characters-pair": 0.3,
    "functions-flipped": 0.4,
    "functions-rare": 0.3,
    "zones": 0.35,
    "fragments-units": 0.3,
    "languages": 0.4,
    "code-pair": 0.3,
}
EXPORTED = read_halves()["confirmation"]
WHOLE = read_halves()["gpu"]  # see test_whole.py


@pytest.fixture(autouse=True)
def _few_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_text, "LIBRARIES", ("numpy", "sklearn"))  # parsing all five takes seconds
    monkeypatch.setattr(tasks_text, "EACH", 900)


def draw(name: str, seed: int = 0) -> Split:
    try:
        return TASKS[name].draw(SOURCES, seed)
    except MissingError as reason:
        pytest.skip(str(reason))


def test_every_task_is_in_one_half() -> None:
    halves = read_halves()
    assert sorted(name for names in halves.values() for name in names) == sorted(TASKS)
    assert {TASKS[name].kind for name in halves["confirmation"]} == {TASKS[name].kind for name in TASKS}


def test_the_confirmation_half_reads_no_data_of_the_development_half(tmp_path: Path) -> None:
    for name in EXPORTED:
        with pytest.raises(MissingError, match=r"confirmation/\w+\.(csv\.gz|npz) is not in the folder of --data"):
            TASKS[name].draw(Sources(tmp_path, SOURCES.tables), 0)


@pytest.mark.parametrize("name", [name for name in TASKS if name not in WHOLE])
def test_parts_share_no_row_and_wrong_targets_are_where_they_are_said_to_be(name: str) -> None:
    split = draw(name)
    rows = [getattr(split, f"rows_{part}") for part in PARTS]
    assert len(np.unique(np.concatenate(rows))) == sum(map(len, rows))
    for part, own in zip(PARTS, rows, strict=True):
        assert len(getattr(split, f"x_{part}")) == len(getattr(split, f"y_{part}")) == len(own)
        assert getattr(split, f"x_{part}").isfinite().all()
    assert torch.equal(split.wrong, split.y_train != split.truth)
    expected = NOISE.get(name, 0.0)
    bound = 4 * (expected * (1 - expected) / len(split.truth)) ** 0.5  # four standard deviations
    assert abs(split.wrong.float().mean().item() - expected) <= bound


@pytest.mark.parametrize("name", [*BUNDLED, *EXPORTED])
def test_the_same_seed_draws_the_same_samples(name: str) -> None:
    first, again, other = draw(name, 3), draw(name, 3), draw(name, 4)
    for part in PARTS:
        assert torch.equal(getattr(first, f"x_{part}"), getattr(again, f"x_{part}"))
        assert torch.equal(getattr(first, f"y_{part}"), getattr(again, f"y_{part}"))
    assert not np.array_equal(first.rows_test, other.rows_test)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        *((name, load_digits) for name in ("digits-symmetric", "digits-mix", "digits-mix-symmetric", "digits-clean")),
        ("cancer", load_breast_cancer),
        ("wine", load_wine),
        ("diabetes-units", load_diabetes),
        ("diabetes-shift", load_diabetes),
    ],
)
def test_trusted_and_test_targets_are_those_of_the_source(name: str, source: object) -> None:
    split = draw(name)
    target = source().target  # type: ignore[operator]
    for y, rows in ((split.y_trusted, split.rows_trusted), (split.y_test, split.rows_test)):
        # A regression's targets are centred: differences are in the source's units.
        found = (y - y[0]).double().numpy() * split.unit
        np.testing.assert_allclose(found, target[rows] - target[rows[0]], atol=1e-3)
        if split.num_classes:
            assert np.array_equal(y.numpy(), target[rows])
    assert (split.truth - split.truth[0]).double().numpy() * split.unit == pytest.approx(
        target[split.rows_train] - target[split.rows_train[0]], abs=1e-3
    )


def test_a_pair_of_digits_has_the_class_of_its_digits() -> None:
    split, target = draw("digits-hundred"), load_digits().target
    for y, rows in ((split.y_trusted, split.rows_trusted), (split.y_test, split.rows_test)):
        left, right = rows // len(target), rows % len(target)
        assert np.array_equal(y.numpy(), 10 * target[left] + target[right])
    assert torch.equal(torch.bincount(split.y_trusted, minlength=100), torch.full((100,), 5))
    others = np.concatenate([split.rows_train, split.rows_trusted])
    images = [set(rows // len(target)) | set(rows % len(target)) for rows in (others, split.rows_test)]
    assert not images[0] & images[1]


def test_half_the_classes_are_cut_to_a_tenth() -> None:
    counts = torch.bincount(draw("digits-mix").y_train, minlength=10).sort().values
    assert counts[4] < 25
    assert counts[5] > 100


def test_one_against_the_rest_is_imbalanced() -> None:
    split = draw("digits-one-rest")
    assert 0.05 < split.y_test.float().mean() < 0.15
    assert split.num_classes == 2


@pytest.mark.parametrize("name", ["fashion-instance", "glyphs-instance"])
def test_instance_dependent_errors_follow_the_sample(name: str) -> None:
    """Some classes are confused more often than others, and a wrong label is not any other class alike."""
    split = draw(name)
    confused = torch.zeros(10, 10).index_put_((split.truth, split.y_train), torch.ones(()), accumulate=True)
    off = confused.fill_diagonal_(0) / confused.sum(1, keepdim=True)
    assert off.max() > 0.3  # 1 / 9 for symmetric errors


def test_most_rich_women_are_missing_and_all_of_the_test_file_are_in_focus() -> None:
    split = draw("adult-women")
    train, test = tasks_tables.read_adult(SOURCES)
    rich_women = ((train["sex"] == "Female") & (train["income"] == ">50K")).to_numpy()
    assert 0.1 < rich_women[split.rows_train].sum() / rich_women.sum() < 0.3
    assert split.focus is not None
    assert split.focus.sum() == ((test["sex"] == "Female") & (test["income"] == ">50K")).sum()


@pytest.mark.parametrize("name", ["glyphs-symmetric", "glyphs-mix-symmetric", "glyphs-instance"])
def test_no_character_is_both_in_test_and_in_other_images(name: str) -> None:
    split = draw(name)
    pool, character = tasks_glyphs.glyph_pool(SOURCES)
    others = np.concatenate([split.rows_train, split.rows_trusted])
    assert not set(character[others]) & set(character[split.rows_test])
    assert np.array_equal(split.y_test, pool.y[split.rows_test])


def test_most_documented_private_functions_are_missing_and_those_for_testing_are_in_focus() -> None:
    split = draw("functions-missing")
    table = tasks_functions.read_functions(SOURCES)
    affected = (table["documented"] & (table["visibility"] == "private")).to_numpy()
    all_but_test = np.setdiff1d(np.arange(len(table)), split.rows_test)
    assert 0.1 < affected[split.rows_train].sum() / affected[all_but_test].sum() < 0.3
    assert split.focus is not None
    assert np.array_equal(split.focus, affected[split.rows_test])


@pytest.mark.parametrize(
    ("name", "column", "positive"),
    [("functions-flipped", "documented", [True]), ("functions-clean", "visibility", ["private"])],
)
def test_functions_have_the_labels_of_their_column(name: str, column: str, positive: list[object]) -> None:
    split, table = draw(name), tasks_functions.read_functions(SOURCES)
    for y, rows in ((split.truth, split.rows_train), (split.y_trusted, split.rows_trusted)):
        assert np.array_equal(y, table[column].isin(positive)[rows])


def test_one_function_in_ten_catches_errors() -> None:
    assert 0.05 < draw("functions-rare").y_test.float().mean() < 0.15


def test_pieces_of_a_file_are_all_for_testing_or_none() -> None:
    split = draw("fragments-units")
    with np.load(SOURCES.file("data", "confirmation/fragments.npz")) as file:
        number, packed = file["number"], file["packed"]
    others = np.concatenate([split.rows_train, split.rows_trusted])
    assert not set(number[others]) & set(number[split.rows_test])
    found = (split.y_test - split.y_test[0]).double().numpy() * split.unit
    np.testing.assert_allclose(found, packed[split.rows_test] - packed[split.rows_test[0]], atol=0.01)


def test_code_does_not_name_its_library() -> None:
    assert tasks_exported.without_names("pd.concat(networkx.Graph, mlflow_x, cpd)").split() == [
        *(".concat(", ".Graph,", "_x,", "c", ")"),
    ]


@pytest.mark.parametrize("name", ["diabetes-shift", "hours-shift", "functions-shift"])
def test_covariate_shift_moves_the_inputs_and_no_target(name: str) -> None:
    split = draw(name)
    assert not split.wrong.any()
    gap = split.x_train.mean(0) - split.x_test.mean(0)
    assert gap.abs().max() > 0.5  # in standard deviations of the training rows


def test_columns_are_fitted_on_training_rows() -> None:
    split = draw("cancer")
    torch.testing.assert_close(split.x_train.mean(0), torch.zeros(30), atol=1e-5, rtol=0)
    assert split.x_test.mean(0).abs().max() > 1e-3


def test_docstrings_do_not_name_their_library() -> None:
    text = tasks_text.without_names("Uses numpy arrays.\n>>> import scipy\nSee torch.nn and ``np.add``.")
    assert text.split() == ["Uses", "arrays.", "See", ".nn", "and", "``", ".add``."]


def test_missing_data_are_reported_by_name(tmp_path: Path) -> None:
    nowhere = Sources(tmp_path, tmp_path)
    with pytest.raises(MissingError, match=r"adult/train\.csv\.gz is not in the folder of --tables"):
        TASKS["adult-clean"].draw(nowhere, 0)
    with pytest.raises(MissingError, match=r"confirmation/zones\.csv\.gz .* benchmarks\.gauntlet\.export_sources"):
        TASKS["zones"].draw(nowhere, 0)
    with pytest.raises(MissingError, match=r"fashion-mnist/train-images-idx3-ubyte\.gz .* --data"):
        tasks_images.fashion_pool(nowhere)


def test_small_sets_are_split_often_enough_for_two_thousand_predictions() -> None:
    for name in [*BUNDLED, "zones"]:
        assert 5 * TASKS[name].length.splits * len(draw(name).y_test) >= 2000, name


def test_symmetric_errors_never_keep_the_label() -> None:
    y = np.arange(1000) % 7
    assert (symmetric(y, 1.0, 7, np.random.default_rng(0)) != y).all()
