"""Lightning: digits with 40% wrong training labels. "new" and "was" mark the changed lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from adiw.integrations.lightning import ADIW, Indexed, Reweighting, weighted_loss  # new
from adiw.models import MLP
from noisy_digits import accuracy, noisy_digits


class Classifier(pl.LightningModule):
    """A network for digits."""

    def __init__(self) -> None:
        super().__init__()
        self.net = MLP((64,), num_classes=10)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 64) to (B, 10)."""
        return self.net(x)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        x, y, index = batch  # was: x, y = batch
        return weighted_loss(self, self(x), y, index)  # was: return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


def train(epochs: int = 25, folder: Path | None = None, start: Path | None = None) -> pl.Trainer:
    """Train and return the trainer. ``folder`` gets a checkpoint per epoch; ``start`` resumes from one."""
    torch.manual_seed(0)
    train_set, trusted, _ = noisy_digits()
    criterion = nn.CrossEntropyLoss(reduction="none")  # one loss per sample
    train_set = Indexed(train_set, trusted)  # new: items become (x, y, index)
    trainer = pl.Trainer(
        max_epochs=epochs,
        callbacks=[
            *([] if folder is None else [ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1)]),
            Reweighting(lambda module, n: ADIW(module, criterion, train_set.trusted, n)),  # new
        ],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=folder is not None,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # Lightning does not save random states, so the order of this sampler depends on the epoch alone.
    sampler = DistributedSampler(train_set, num_replicas=1, rank=0)
    loader = DataLoader(train_set, batch_size=128, sampler=sampler, drop_last=True)
    trainer.fit(Classifier(), loader, ckpt_path=start)
    return trainer


def main() -> float:
    """Train, and return the accuracy on the test set in percent."""
    return accuracy(train().lightning_module, noisy_digits()[2])


if __name__ == "__main__":
    print(f"accuracy {main():.1f}%")
