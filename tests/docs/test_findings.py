"""What the pages conclude about the divergences holds in the records."""

from __future__ import annotations

from pathlib import Path

from adiw.reports.folders import read_sweep

ROOT = Path(__file__).parents[2]
ADIW = ("ADIW-KL", "ADIW-KM", "ADIW-LS", "ADIW-WA")
NOISE = ("20% symmetric", "40% symmetric", "60% symmetric", "30% pair")
PRIOR = "class prior, 10 to 1"


def accuracies(sweep: str) -> dict[tuple[str, str], float]:
    """(row, column) -> mean accuracy."""
    (folder,) = (path for path in (ROOT / "results" / sweep, ROOT / "paper" / "results" / sweep) if path.is_dir())
    figures = {place: cell.figure("accuracy") for place, cell in read_sweep(folder).cells.items()}
    return {place: figure[0] for place, figure in figures.items() if figure is not None}


def test_every_divergence_helps_against_label_noise_and_the_true_weights_help_more() -> None:
    found = accuracies("digits-divergences")
    gains = [found[row, column] - found["Uniform", column] for row in ADIW for column in NOISE]
    assert 5 < min(gains) < max(gains) < 40
    for column in NOISE:
        assert found["ADIW-LS", column] == min(found[row, column] for row in ADIW)
        assert found["Oracle", column] > max(found[row, column] for row in ADIW)
        assert max(found[row, column] for row in ADIW) - found["ADIW-KL", column] < 2.5
    for column in NOISE[:2]:
        assert found["ADIW-WA", column] == max(found[row, column] for row in ADIW)
    for column in NOISE[2:]:
        assert found["ADIW-WA", column] < min(found["ADIW-KL", column], found["ADIW-KM", column])
    for column in (*NOISE, PRIOR):
        assert found["ADIW-KM, local step", column] > found["ADIW-KM", column]
        assert found["ADIW-LS, width 0.1", column] > found["ADIW-LS", column]


def test_a_changed_class_mix_needs_features_and_label_noise_does_not() -> None:
    found = accuracies("digits-divergences")
    features = "ADIW-KL on features, class by class"
    assert found["ADIW-KL", PRIOR] < found["Uniform", PRIOR] - 5
    assert found[features, PRIOR] == max(value for (_, column), value in found.items() if column == PRIOR)
    assert abs(found[features, PRIOR] - found["Oracle", PRIOR]) < 0.5
    weighted = [row for row, column in found if column == NOISE[1] and row.startswith("ADIW")]
    for column in NOISE[1:]:
        assert found[features, column] == min(found[row, column] for row in weighted)


def test_the_divergences_are_close_on_fashion_mnist() -> None:
    found = accuracies("fmnist-choices-2")
    best = [max(value for (row, _), value in found.items() if row.startswith(kind)) for kind in ADIW]
    assert max(best) - min(best) < 1


def test_a_range_of_widths_works_and_auto_is_in_it() -> None:
    found = accuracies("digits-widths")
    rows = {row for row, _ in found}
    at = {row: {column: value for (one, column), value in found.items() if one == row} for row in rows}
    for row in rows:
        tried = {float(column): value for column, value in at[row].items() if column != "auto"}
        near = [width for width, value in tried.items() if value > max(tried.values()) - 2]
        assert max(near) >= 4 * min(near) or row == "ADIW-KL"
        assert at[row]["auto"] > max(tried.values()) - 1.5
        assert row == "ADIW-WA" or tried[10.0] == min(tried.values())
    assert at["ADIW-KL"]["0.5"] == max(at["ADIW-KL"].values())
    assert max(at["ADIW-LS"]["0.1"], at["ADIW-LS"]["0.5"]) > at["ADIW-LS"]["0.01"] + 1
    assert set(at["ADIW-WA"]).isdisjoint({"0.001", "0.01"})  # all of these runs are dead
