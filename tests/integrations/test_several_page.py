"""The page on several processes: its code runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.gloo_processes import under_torchrun

PAGE = Path(__file__).parents[2] / "docs" / "several-processes.md"


def test_the_code_runs_and_finds_the_wrong_labels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In one process with torchrun's variables; other tests start several processes."""
    under_torchrun(monkeypatch)
    monkeypatch.chdir(tmp_path)  # where the checkpoint is written
    names: dict[str, Any] = {}
    exec(
        compile("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)), PAGE.name, "exec"), names
    )
    right = (names["labels"] == names["truth"])[50:]  # the trusted samples come first in x
    weights = names["weights"][: len(right)]
    assert weights[right].mean() > 2 * weights[~right].mean()
