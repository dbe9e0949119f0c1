"""The pages on plain loops, Lightning and Hugging Face: their code runs with and without the marked lines."""

from __future__ import annotations

import copy
import functools
import re
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.changed_lines import before, count

ROOT = Path(__file__).parents[2]
PAGES = {"plain-pytorch": None, "lightning": "lightning", "huggingface": "transformers"}
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),  # of Lightning
    pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard"),
]


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A page whose framework is installed; its code runs in a temporary folder."""
    if PAGES[request.param] is not None:
        pytest.importorskip(PAGES[request.param], reason="needs the extra adiw[lightning] or adiw[hf]")
    monkeypatch.chdir(tmp_path)
    # aot_eager traces and differentiates like the default backend, whose C++ compiler takes most of a minute.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    torch.manual_seed(0)
    handler = signal.getsignal(signal.SIGTERM)  # which a page changes
    yield str(request.param)
    signal.signal(signal.SIGTERM, handler)


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)


def run(code: str, page: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(code, f"{page}.md", "exec"), names)
    return names


def test_the_code_runs_and_finds_the_wrong_labels(page: str) -> None:
    kept = blocks(page)
    if find_spec("tensorboard") is None:
        kept = [block for block in kept if "open_tracker" not in block]
    names = run("\n".join(kept), page)
    owner = names.get("reweighting") or names.get("trainer") or names["reweight"]
    right = names["labels"] == names["truth"]
    right = right if page == "huggingface" else right[50:]  # the trusted samples come first in x
    weights = owner.weights[: len(right)]
    assert weights[right].mean() > 2 * weights[~right].mean()
    if page == "lightning":
        assert owner.method.summary().steps == 330  # ten epochs: the second fit resumed after eight


@pytest.mark.parametrize("page", ["plain-pytorch"], indirect=True)
def test_the_loop_of_the_page_stops_within_an_epoch_and_goes_on(page: str) -> None:
    first, resume, stop = blocks(page)[:3]
    names = run(first.replace("nn.ReLU()", "nn.ReLU(), nn.Dropout(0.2)") + resume + stop, page)
    parts, train_epoch, random = names["parts"], names["train_epoch"], torch.get_rng_state()
    before = copy.deepcopy({name: part.state_dict() for name, part in parts.items()})
    train_epoch(8)
    expected = names["reweight"].weights.clone()

    for name, part in parts.items():
        part.load_state_dict(before[name])
    torch.set_rng_state(random)
    hook = names["optimizer"].register_step_post_hook(lambda *_: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit):
        train_epoch(8)
    hook.remove()
    names["requested"].clear()
    torch.rand(3)
    states = torch.load("stopped.pt", weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(states[name])
    torch.set_rng_state(states["random"])
    assert states["where"] == (8, 1)
    train_epoch(*states["where"])
    assert torch.equal(names["reweight"].weights, expected)


def test_five_lines_or_fewer_were_changed_in_code_that_worked(page: str) -> None:
    changed = [block for block in blocks(page) if count(block)]
    assert [count(block) for block in changed] == {"huggingface": [5, 5]}.get(page, [5])
    without = "\n".join(before(block) for block in changed)
    assert "adiw" not in without
    run(without, page)
