"""The pages on plain loops, Lightning and Hugging Face: their code runs as printed and finds the wrong labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.several import under_torchrun

ROOT = Path(__file__).parents[2]


def code(page: str) -> str:
    """The page's blocks of Python, one after the other."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL))


def check(names: dict[str, Any], weights: torch.Tensor) -> None:
    """Wrong labels weigh less than half of right ones."""
    right = names["labels"] == names["truth"]
    assert weights[right].mean() > 2 * weights[~right].mean()


def test_plain_pytorch() -> None:
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(compile(code("plain-pytorch.md"), "plain-pytorch.md", "exec"), names)
    check(names, names["reweight"].weights)


def test_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchrun would start it, but in one process: what several do is tested where they are started."""
    under_torchrun(monkeypatch)
    names: dict[str, Any] = {}
    exec(compile(code("several-processes.md"), "several-processes.md", "exec"), names)
    check(names, names["weights"])


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")  # of Lightning
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval")
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
def test_lightning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightning", reason="needs the extra adiw[lightning]")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(compile(code("lightning.md"), "lightning.md", "exec"), names)
    check(names, names["reweighting"].weights)
    assert names["reweighting"].method.summary().steps == 320  # ten epochs: the second fit went on from eight


def test_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="needs the extra adiw[hf]")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(compile(code("huggingface.md"), "huggingface.md", "exec"), names)
    check(names, names["trainer"].weights)
    assert len(names["reweight"].weights) == 600


@pytest.mark.parametrize("page", ["plain-pytorch.md", "lightning.md", "huggingface.md"])
def test_at_most_five_lines_change_and_files_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert text.count("  # changed") in {4, 5}
    for name in re.findall(r"[`/](\w+\.py)`", text):
        assert (ROOT / "examples" / name).exists(), name
