"""The numbers of an audit: ranking, cut-off, suggested labels, its table and the CSV file."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from adiw import audit_cutoff
from adiw.audit_cutoff import Cutoff, Losses, suggest_cutoff
from adiw.label_audit import Audit, ranking_quality

LOSSES = np.array([0.1, 3.0, np.nan, 0.2, 5.0])
GIVEN = np.array([0, 1, 0, 1, 0])


def made(**more: object) -> Audit:
    confidence = np.array([0.9, 0.5, 0.9, 0.9, 0.8])
    base = {"losses": LOSSES, "given": GIVEN, "predicted": 1 - GIVEN, "confidence": confidence}
    return Audit(**(base | more))  # type: ignore[arg-type]


def test_the_largest_mean_loss_comes_first_and_samples_without_one_last() -> None:
    assert made().order.tolist() == [4, 1, 3, 0, 2]
    assert made(is_trusted=np.array([False, False, False, True, True])).order.tolist() == [1, 0, 2]
    assert made().trust[[0, 4]] == pytest.approx(np.exp([-0.1, -5.0]))


def test_a_label_is_suggested_where_the_network_is_confident_of_another_one() -> None:
    suggested = made(predicted=np.array([1, 0, 0, 0, 1])).suggested
    assert suggested is not None
    assert suggested.tolist() == [1, -1, -1, 0, 1]  # not sure of 1, agrees with 2


def cutoff_of(losses: np.ndarray, trusted: np.ndarray) -> Cutoff | None:
    return suggest_cutoff(losses, Losses(losses), Losses(trusted))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_the_cutoff_estimates_how_many_labels_are_wrong(share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    wrong = rng.random(5000) < share
    losses = np.where(wrong, rng.normal(4, 1, 5000), rng.normal(0, 1, 5000))
    found = cutoff_of(losses, rng.normal(0, 1, 400))
    assert found is not None
    assert found.wrong == pytest.approx(wrong.sum(), abs=5000 * 3 * 0.5 / 400**0.5)  # three standard errors
    actual = wrong[np.argsort(-losses)[: found.number]].mean()
    assert actual - 0.15 < found.precision <= actual + 0.05
    assert found.least < found.precision


@pytest.mark.parametrize("seed", range(5))
def test_without_wrong_labels_there_is_no_cutoff(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert cutoff_of(rng.normal(0, 1, 2000), rng.normal(0, 1, 200)) is None


def test_right_labels_that_the_network_has_not_learned_lower_the_precision() -> None:
    rng = np.random.default_rng(0)
    wrong, hard = rng.random(4000) < 0.3, rng.random(4000) < 0.2  # a fifth of the labels is not learned
    unseen = np.where(wrong, rng.normal(3, 1, 4000), rng.normal(0, 1, 4000))
    mean = np.where(wrong | hard, 5.0, 0.0) + rng.random(4000)
    found = suggest_cutoff(mean, Losses(unseen), Losses(rng.normal(0, 1, 200)))
    assert found is not None
    actual = wrong[np.argsort(-mean)[: found.number]].mean()
    assert actual == pytest.approx(0.68, abs=0.05)
    assert actual - 0.15 < found.precision <= actual + 0.05
    assert found.least < found.precision


def test_losses_that_are_known_for_some_samples_only_are_enough() -> None:
    rng = np.random.default_rng(0)
    wrong = rng.random(6000) < 0.3
    losses = np.where(wrong, rng.normal(4, 1, 6000), rng.normal(0, 1, 6000))
    unseen = np.where(rng.random(6000) < 0.4, losses, np.nan)
    found, whole = (suggest_cutoff(losses, Losses(x), Losses(rng.normal(0, 1, 300))) for x in (unseen, losses))
    assert found is not None
    assert whole is not None
    assert found.number == pytest.approx(whole.number, rel=0.1)
    assert suggest_cutoff(losses, Losses(np.full(6000, np.nan)), Losses(np.zeros(0))) is None


@pytest.mark.parametrize("seed", range(20))
def test_few_trusted_samples_promise_little(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wrong = rng.random(400) < 0.3
    losses = np.where(wrong, rng.normal(2.5, 1, 400), rng.normal(0, 1, 400))
    found = cutoff_of(losses, rng.normal(0, 1, 60))
    if found is not None:
        assert found.least <= wrong[np.argsort(-losses)[: found.number]].mean() + 0.15


def test_labels_that_are_wrong_in_one_class_only_are_found() -> None:
    rng = np.random.default_rng(0)
    given = np.repeat([0, 1], 1000)
    wrong = (given == 1) & (rng.random(2000) < 0.5)  # samples of class 0, whose losses are all larger
    losses = np.where(wrong, 3.0, np.where(given == 0, 3.0, 0.0)) + rng.normal(0, 0.5, 2000)
    labels = np.repeat([0, 1], [150, 50])
    trusted = np.where(labels == 0, 3.0, 0.0) + rng.normal(0, 0.5, 200)
    found = suggest_cutoff(losses, Losses(losses, given), Losses(trusted, labels))
    assert found is not None
    assert found.wrong == pytest.approx(wrong.sum(), rel=0.2)
    assert cutoff_of(losses, trusted) is None


def test_two_trusted_samples_are_not_enough_for_a_few_wrong_labels() -> None:
    losses = np.concatenate([np.linspace(0, 1, 95), np.full(5, 9.0)])
    assert cutoff_of(losses, np.array([0.5, 1.0])) is None
    assert cutoff_of(losses, np.array([])) is None
    assert made().cutoff is None  # no trusted sample was trained on


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20))
def test_quality_is_that_of_scikit_learn_and_within_the_orders_of_ties(pairs: list[tuple[int, bool]]) -> None:
    losses, wrong = np.array([float(level) for level, _ in pairs]), np.array([flag for _, flag in pairs])
    area, precision = ranking_quality(losses, wrong)
    if wrong.any() and not wrong.all():
        assert area == pytest.approx(roc_auc_score(wrong, losses))
    else:
        assert np.isnan(area)
    if wrong.any():
        k = int(wrong.sum())
        best = wrong[np.lexsort((~wrong, -losses))][:k].mean()
        worst = wrong[np.lexsort((wrong, -losses))][:k].mean()
        assert worst - 1e-12 <= precision <= best + 1e-12


def read(audit: Audit, top: int | None = None) -> list[dict[str, str]]:
    file = io.StringIO(newline="")
    audit.to_csv(file, top)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


def test_the_file_says_whose_numbers_they_are_and_what_the_rows_are() -> None:
    audit = made(
        source=np.array([7, 5, 3, 1, 9]),
        numbering="row of t.csv",
        names=["ant", "=1+1"],
        columns={4: {"age": "30", "=job": "@x"}},
        neighbour=np.array([-1, 0, -1, -1, 3]),
        distance=np.array([np.nan, 0.5, np.nan, np.nan, 0.01]),
    )
    rows = read(audit, top=2)
    assert [(row["number"], row["numbering"], row["index"]) for row in rows] == [
        ("9", "row of t.csv", "4"),
        ("5", "row of t.csv", "1"),
    ]
    first, second = rows
    assert (first["given"], first["given_name"], first["suggested_name"]) == ("0", "ant", "'=1+1")
    assert (second["suggested"], second["suggested_name"]) == ("", "")
    assert (first["column age"], first["column =job"], second["column age"]) == ("30", "'@x", "")
    assert [first[f"neighbour{key}"] for key in ("", "_label", "_distance")] == ["1", "'=1+1", "0.01"]
    assert (first["near_duplicate"], second["near_duplicate"]) == ("yes", "")
    assert len(read(audit)) == 5


def test_samples_before_the_cutoff_are_marked() -> None:
    losses = np.concatenate([np.linspace(0, 1, 60), np.linspace(4, 5, 40)])
    trusted = np.linspace(0, 1, 100)
    audit = Audit(losses=losses, given=np.zeros(100, int), trusted=Losses(trusted))
    assert audit.cutoff is not None
    assert [row["check"] for row in read(audit)] == ["yes"] * audit.cutoff.number + [""] * (100 - audit.cutoff.number)
    assert str(audit.cutoff).startswith(f"Check the first {audit.cutoff.number}: about ")


def test_targets_of_a_regression_stay_numbers() -> None:
    audit = Audit(losses=np.array([400.0, 100.0]), given=np.array([1.5, -2.0]), predicted=np.array([1.0, 3.0]))
    assert [row["given"] for row in read(audit)] == ["1.5", "-2"]
    assert "given_name" not in read(audit)[0]
    assert audit.trust.tolist() == pytest.approx(np.exp([-400 / 250, -100 / 250]).tolist())


def test_few_trusted_samples_have_to_give_more_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    unseen = np.concatenate([random.normal(0, 1, 600), random.normal(3, 1, 400)])
    numbers = []
    for few in (0.0, audit_cutoff.FEW, 1e6):
        monkeypatch.setattr(audit_cutoff, "FEW", few)
        cutoff = suggest_cutoff(unseen, Losses(unseen), Losses(np.linspace(-2, 2, 30)))
        numbers.append(0 if cutoff is None else cutoff.number)
    assert numbers[0] > numbers[1] > numbers[2] == 0
