"""``adiw profile`` on a CUDA device: steps are timed as graphs, and peak memory is measured."""

from __future__ import annotations

import pytest
import torch

from adiw.experiments.run import Engine
from adiw.experiments.settings import resolve
from adiw.experiments.step_time import compare

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and this machine has none"),
]


def test_time_and_peak_memory_of_both() -> None:
    settings = resolve({"dataset": "digits", "method": "adiw-kl"})
    uniform, method = compare(settings, None, Engine(torch.device("cuda"), workers=0), steps=8, rounds=2)
    assert uniform.milliseconds > 0
    assert method.milliseconds > 0
    parameters = 4 * 64 * 10  # bytes that a network on 64 pixels and 10 classes has at least
    assert uniform.peak_bytes is not None
    assert method.peak_bytes is not None
    assert min(uniform.peak_bytes, method.peak_bytes) > parameters
