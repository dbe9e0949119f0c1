"""The examples of other tasks: the weights help by the margin that each script states."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
# Whether higher is better: an error must fall to the margin times itself, a score must rise by the margin.
SCORES = {
    "covariate_shift": False,
    "detection": True,
    "language_model": False,
    "multi_label": True,
    "regression": False,
    "segmentation": True,
    "text": True,
    "token_labels": True,
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", SCORES)
def test_weights_help_by_the_stated_margin(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "covariate_shift":
        pytest.importorskip("sklearn", reason="needs the extra adiw[classic]")
    if name == "language_model":
        pytest.importorskip("transformers", reason="needs the extra adiw[hf]")
    example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    figures, margin = example["main"](), example["MARGIN"]
    assert set(figures) == {"plain", "weighted"}
    if SCORES[name]:
        assert margin > 0
        assert figures["weighted"] >= figures["plain"] + margin
    else:
        assert 0 < margin < 1
        assert figures["weighted"] <= margin * figures["plain"]
    assert "weighted" in capsys.readouterr().out
