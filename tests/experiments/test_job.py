"""What of a job torch.compile translates."""

from __future__ import annotations

import pytest
import torch

from adiw.dynamic import ADIW
from adiw.experiments.job import Job
from adiw.experiments.settings import resolve
from adiw.experiments.task import prepare


@pytest.mark.filterwarnings("ignore:.torch.jit")  # of the compiler itself, at its first import
@pytest.mark.parametrize(
    ("given", "network", "estimation"),
    [
        ({"method": "adiw-kl"}, True, True),
        ({"method": "adiw-kl", "transform": "features"}, False, True),  # its hooks would not be looked at
        ({"method": "l2r"}, True, True),
        ({"method": "mw-net"}, True, True),
        ({"method": "uniform"}, True, False),
    ],
    ids=str,
)
def test_what_is_compiled(given: dict[str, str], network: bool, estimation: bool) -> None:
    settings = resolve({"dataset": "digits", **given})
    for asked in (False, True):
        job = Job(settings, prepare(settings), torch.device("cpu"), 0, compiled=asked)
        assert (job.model._compiled_call_impl is not None) == (network and asked)
        translated = vars(job.reweight) | vars(getattr(job.reweight, "virtual", job.reweight))
        assert bool({"estimate", "_outputs"} & translated.keys()) == (estimation and asked)


def test_the_default_is_every_fourth_step_for_loops_as_for_runs() -> None:
    settings = resolve({"dataset": "digits", "method": "adiw-kl"})
    reweight = Job(settings, prepare(settings), torch.device("cpu"), 0).reweight
    assert isinstance(reweight, ADIW)
    other = ADIW(torch.nn.Linear(1, 2), torch.nn.CrossEntropyLoss(reduction="none"), [(torch.zeros(1), 0)], 3)
    assert reweight.probe.every == other.probe.every == 4
