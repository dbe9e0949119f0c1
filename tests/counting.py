"""A backend for torch.compile that counts graphs and their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Counting:
    """Runs graphs without compiling them, and counts them and their calls."""

    def __init__(self) -> None:
        self.graphs = self.calls = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1

        def run(*arguments: Any) -> Any:
            self.calls += 1
            return graph(*arguments)

        return run
