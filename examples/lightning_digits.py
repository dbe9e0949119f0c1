"""Lightning: a callback and one call in ``training_step``; the lines that change are marked."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from adiw.baselines import Uniform
from adiw.integrations.lightning import ADIW, Indexed, Reweighting, weighted_loss  # changed
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
        """The weighted loss of a batch."""
        x, y, index = batch  # changed
        return weighted_loss(self, self(x), y, index)  # changed

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main(weighted: bool = True, epochs: int = 25) -> float:
    """Train and return the test accuracy in percent; without ``weighted``, every weight is one."""
    torch.manual_seed(0)
    train_set, trusted, test_set = noisy_digits()
    model = Classifier()
    loader = DataLoader(Indexed(train_set), batch_size=128, shuffle=True, drop_last=True)  # changed
    method, criterion = ADIW if weighted else Uniform, nn.CrossEntropyLoss(reduction="none")
    trainer = pl.Trainer(
        callbacks=[Reweighting(lambda module, num_train: method(module, criterion, trusted, num_train))],  # changed
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader)
    return accuracy(model, test_set)


if __name__ == "__main__":
    print(f"accuracy without weights {main(weighted=False):.1f}%, with weights {main():.1f}%")
