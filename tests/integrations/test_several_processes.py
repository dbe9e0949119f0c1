"""Two processes with Lightning, the Trainer and accelerate compute the weights of one, which can resume from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

for _framework, _extra in (("lightning", "lightning"), ("transformers", "hf")):
    pytest.importorskip(_framework, reason=f"needs the extra adiw[{_extra}]")

from tests.gloo_processes import in_processes  # noqa: E402
from tests.integrations.several_processes import SPLIT, TRAINERS, train_all  # noqa: E402

CHECKPOINTS = {  # of two epochs
    "lightning": "epoch=1.ckpt",
    "trainer": "checkpoint-12",
    "language": "checkpoint-12",
    "accelerate": "epoch-2",
}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """(folder with the checkpoints, the result of each of two processes)."""
    folder = tmp_path_factory.mktemp("together")
    return folder, in_processes(2, train_all, folder)


@pytest.mark.filterwarnings("ignore")  # of the frameworks, about files and workers
@pytest.mark.parametrize("name", TRAINERS)
def test_two_processes_compute_what_one_computes_and_one_resumes_from_their_checkpoint(
    name: str, together: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    folder, found = together
    alone = TRAINERS[name](0, 1, tmp_path / "alone")
    resumed = TRAINERS[name](0, 1, tmp_path / "resumed", folder / name / CHECKPOINTS[name])
    assert alone[0].std() > 0.1
    for weights, parameters in (found[0][name], found[1][name], resumed):
        torch.testing.assert_close(weights, alone[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(parameters, alone[1], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SPLIT)
def test_two_processes_with_parts_of_the_model_compute_what_one_computes(
    name: str, together: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    alone = TRAINERS[name](0, 1, tmp_path)
    for process in together[1]:
        weights, parameters = process[f"{name}, FSDP2"]
        torch.testing.assert_close(weights, alone[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(parameters, alone[1], rtol=1e-4, atol=1e-5)
