"""accelerate: a small transformer on sentences with 40% wrong labels. "new" and "was" mark the changed lines."""

from __future__ import annotations

from pathlib import Path

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, default_collate
from transformers import set_seed

from adiw.integrations.huggingface import ADIW, Indexed, classify  # new
from noisy_text import noisy_sentences
from trainer_text import tiny_bert


def train(epochs: int = 16, folder: Path | None = None, start: int = 0) -> tuple[nn.Module, Accelerator]:
    """Train and return (model, accelerator). ``folder`` gets a checkpoint per epoch; ``start`` resumes from one."""
    set_seed(0)
    train_set, trusted, _ = noisy_sentences()
    loading = DataLoaderConfiguration(use_seedable_sampler=True)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, dataloader_config=loading)
    model = tiny_bert()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss(reduction="none")  # one loss per sample
    train_set = Indexed(train_set, trusted)  # new: samples get the column "index"
    loader = DataLoader(train_set, batch_size=128, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    reweight = ADIW(model, criterion, train_set.trusted, len(train_set), forward=classify)  # new
    accelerator.register_for_checkpointing(reweight)  # new
    if folder is not None and start > 0:
        accelerator.load_state(folder / str(start))

    for epoch in range(start, epochs):
        model.train()
        loader.set_epoch(epoch)
        for batch in loader:
            with accelerator.accumulate(model):
                loss = reweight(*classify(model, batch), batch["index"])  # was: loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        if folder is not None:
            accelerator.save_state(folder / str(epoch + 1))
    return model, accelerator


def main() -> float:
    """Train, and return the accuracy on the test set in percent."""
    model, _ = train()
    batch = default_collate(noisy_sentences()[2])
    labels = batch.pop("labels")
    model.eval()
    with torch.no_grad():
        found = model(**batch).logits.argmax(1)
    return 100 * float((found == labels).double().mean())


if __name__ == "__main__":
    print(f"accuracy {main():.1f}%")
