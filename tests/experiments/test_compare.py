"""A run beside its simple alternatives: the same held-out samples, one verdict, resumable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adiw.data import Samples
from adiw.experiments.best_epoch import right_in_other_parts
from adiw.experiments.compare import alternatives, compared_folds, comparison_rows, run_alternatives
from adiw.experiments.run import Interrupted, run
from adiw.experiments.settings import Settings, SettingsError, resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine

CPU = Engine(torch.device("cpu"))


def settings(**given: Any) -> Settings:
    return resolve({"epochs": 6, "hold_out": 0.3, "fine_tune_epochs": 2, **given})


def test_the_alternatives_share_everything_but_the_method() -> None:
    given = resolve({"method": "adiw-kl", "set": "width=0.4", "seed": 3})
    found = alternatives(given)
    assert list(found) == ["uniform", "fine-tune", "val-only"]
    for method, changed in found.items():
        assert changed.as_dict() == {k: v for k, v in given.as_dict().items() if k != "set"} | {"method": method}
    assert list(alternatives(settings(method="uniform"))) == ["fine-tune", "val-only"]
    assert "mixed" in alternatives(settings(trusted_folder="checked"))
    held_out = [load_splits(each).held_out for each in (given, *found.values()) if each.hold_out]
    assert all(torch.equal(part.y, held_out[0].y) for part in held_out[1:])  # type: ignore[union-attr]


def test_a_run_is_compared_on_its_held_out_samples(tmp_path: Path) -> None:
    given = settings()
    first = run(given, tmp_path, engine=CPU)
    assert first["verdict"]["answer"] == "not compared"
    assert first["verdict"]["shift"]["found"] is True
    result = run_alternatives(given, tmp_path, None, CPU)
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert (result["verdict"]["shift"], result["accuracy"]) == (first["verdict"]["shift"], first["accuracy"])
    rights = {}
    for name, folder in [("adiw", tmp_path), *((n, tmp_path / "compare" / n) for n in alternatives(given))]:
        right = torch.from_numpy(np.load(folder / "held_out.npy"))
        rights[name] = right_in_other_parts(right, warmup=int(name == "adiw")).double().mean().item()
    assert result["verdict"]["score"] == pytest.approx(100 * rights["adiw"])
    for each in result["verdict"]["comparison"]:
        assert each["score"] == pytest.approx(100 * rights[each["method"]])
        assert each["difference"] == pytest.approx(100 * (rights["adiw"] - rights[each["method"]]))
        assert each["low"] <= each["difference"] <= each["high"]
        assert each["n"] == result["held_out"]
    rows = comparison_rows(tmp_path, result, given)
    assert [row["method"] for row in rows] == ["adiw", "uniform", "fine-tune", "val-only"]
    alone = run(alternatives(given)["uniform"], tmp_path / "alone", engine=CPU)
    assert rows[1]["accuracy"] == alone["accuracy"]


def test_stopped_alternatives_are_resumed_and_ended_ones_kept(tmp_path: Path) -> None:
    given = settings(epochs=3)
    run(given, tmp_path, engine=CPU)
    rows: list[str] = []
    with pytest.raises(Interrupted):
        run_alternatives(given, tmp_path, None, CPU, 1, lambda name, row: rows.append(name), lambda: len(rows) == 5)
    assert rows == ["uniform"] * 3 + ["fine-tune"] * 2
    rows.clear()
    result = run_alternatives(given, tmp_path, None, CPU, 1, lambda name, row: rows.append(name))
    assert rows == ["fine-tune"] * 3 + ["val-only"] * 3
    assert len(result["verdict"]["comparison"]) == 3


def test_without_held_out_samples_nothing_is_compared(tmp_path: Path) -> None:
    given = settings(hold_out=0.0, epochs=1, fine_tune_epochs=1)
    run(given, tmp_path, engine=CPU)
    verdict = run_alternatives(given, tmp_path, None, CPU)["verdict"]
    assert (verdict["answer"], verdict["comparison"], verdict["score"]) == ("not compared", None, None)


def test_no_sample_judges_the_epoch_that_it_chose() -> None:
    """With random predictions the best epoch is above one half on the samples that chose it, and not on others."""
    generator = torch.Generator().manual_seed(0)
    chosen, judged = [], []
    for _ in range(200):
        right = torch.rand(30, 40, generator=generator) < 0.5
        chosen.append(right.double().mean(1).max().item())
        judged.append(right_in_other_parts(right).double().mean().item())
    assert sum(chosen) / 200 > 0.6
    assert sum(judged) / 200 == pytest.approx(0.5, abs=4 * 0.5 / (40 * 200) ** 0.5)


def test_a_verdict_does_not_choose_an_epoch_of_the_warm_up() -> None:
    right = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
    assert [int(right_in_other_parts(right, warmup=epochs).sum()) for epochs in (0, 1)] == [4, 0]
    assert bool(right_in_other_parts(right[:1], warmup=1).all())  # there is no other epoch


def test_with_folds_every_trusted_sample_judges_once(tmp_path: Path) -> None:
    given = settings(epochs=2, fine_tune_epochs=1, seed=1)
    parts = [load_splits(resolve({**given.as_dict(), "fold": f"{k}/3"})) for k in (1, 2, 3)]
    everything = load_splits(settings(hold_out=0.0, seed=1))
    held_out = torch.cat([part.held_out.x for part in parts if part.held_out is not None])  # type: ignore[union-attr]
    assert isinstance(everything.trusted, Samples)
    assert torch.equal(held_out.sort(0).values, everything.trusted.x.sort(0).values)
    for part in parts:
        assert len(part.trusted) + len(part.held_out or ()) == len(everything.trusted)
        assert len(part.train) == len(everything.train) - len(part.held_out or ())
        assert len(part.trusted.y.unique()) == 10
    run(given, tmp_path, engine=CPU)
    result = run_alternatives(given, tmp_path, None, CPU, folds=3)
    assert [each["n"] for each in result["verdict"]["comparison"]] == [len(everything.trusted)] * 3
    assert compared_folds(tmp_path) == 3
    assert (compared_folds(tmp_path / "compare"), compared_folds(tmp_path / "none")) == (None, None)
    rows = comparison_rows(tmp_path, result, given, 3)
    folder = tmp_path / "compare" / "adiw"
    accuracies = [json.loads((folder / f"fold-{k}-3" / "result.json").read_text())["accuracy"] for k in (1, 2, 3)]
    assert rows[0]["accuracy"] == pytest.approx(sum(accuracies) / 3)
    with pytest.raises(SettingsError, match="fold must be a part and the number of parts, such as 2/5, got 4/3"):
        settings(fold="4/3")
    with pytest.raises(SettingsError, match="is empty: use fewer folds"):
        load_splits(settings(fold="101/101", trusted=100))
