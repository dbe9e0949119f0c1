"""One process with nccl: a custom loop, and a run of the command under torchrun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Generator, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

from adiw import ADIW
from adiw.engine.torchrun import local_device, process_group
from adiw.experiments.run import run
from adiw.experiments.settings import resolve
from adiw.experiments.training_run import Engine
from tests.gloo_processes import under_torchrun

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and this machine has none"),
]


def trained(wrap: bool) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Weights and parameters after a few steps on the GPU."""
    random = Generator().manual_seed(0)
    x, y = torch.randn(96, 6, generator=random).cuda(), (torch.arange(96) % 4).cuda()
    val = TensorDataset(torch.randn(37, 6, generator=random), torch.arange(37) % 4)
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)).cuda()
    model = DistributedDataParallel(plain, device_ids=[0]) if wrap else plain
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss(reduction="none")
    reweight = ADIW(model, criterion, val, 96, val_batch=17, warmup_steps=1, generator=Generator().manual_seed(0))
    for step in range(8):
        index = torch.randperm(96, generator=Generator().manual_seed(step))[:24].cuda()
        reweight(model(x[index]), y[index], index).backward()
        optimizer.step()
        optimizer.zero_grad()
    return reweight.weights.clone(), [parameter.detach().clone() for parameter in plain.parameters()]


def test_a_wrapped_model_with_nccl_trains_like_the_model_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    under_torchrun(monkeypatch)
    expected = trained(wrap=False)
    with process_group():
        local_device(None)
        assert dist.get_backend_config() == "cpu:gloo,cuda:nccl"
        torch.testing.assert_close(trained(wrap=True), expected)


def test_a_run_with_nccl_is_eager_and_logs_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = resolve({"method": "adiw-kl", "epochs": 3, "lr": 0.02, "batch": 100})
    alone = run(settings, tmp_path / "alone", engine=Engine(torch.device("cuda"), capture=False))
    logged: list[str] = []
    under_torchrun(monkeypatch)
    with process_group():
        linked_run = run(settings, tmp_path / "linked", engine=Engine(local_device(None), log=logged.append))
    assert logged == ["steps are not captured as a CUDA graph (processes exchange losses in every step)"]
    assert linked_run["accuracy"] == pytest.approx(alone["accuracy"], abs=0.5)
    assert json.loads((tmp_path / "linked" / "result.json").read_text())["engine"]["captured"] is False
