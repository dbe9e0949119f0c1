"""An accelerate loop: a small transformer on generated sentences; the lines that change are marked."""

from __future__ import annotations

from pathlib import Path

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import default_data_collator, set_seed

from adiw.baselines import Uniform
from adiw.integrations.huggingface import ADIW, Collated, Indexed  # changed
from noisy_text import noisy_sentences
from trainer_text import tiny_bert


def logits_and_labels(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """What the criterion takes, for training and trusted batches."""
    outputs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    return outputs.logits, batch["labels"]


def train(
    epochs: int, weighted: bool = True, folder: Path | None = None, start: int = 0
) -> tuple[nn.Module, nn.Module]:
    """(model, method) after ``epochs``; with a folder, each epoch is saved there, and ``start`` goes on from it."""
    set_seed(0)
    train_set, trusted, _ = noisy_sentences()
    loading = DataLoaderConfiguration(use_seedable_sampler=True)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, dataloader_config=loading)
    loader = DataLoader(Indexed(train_set), batch_size=128, shuffle=True, collate_fn=default_data_collator)  # changed
    model = tiny_bert()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    method, criterion = ADIW if weighted else Uniform, nn.CrossEntropyLoss(reduction="none")
    val_set, inner = Collated(trusted, default_data_collator), accelerator.unwrap_model(model)  # changed
    reweight = method(inner, criterion, val_set, len(train_set), forward=logits_and_labels)  # changed
    accelerator.register_for_checkpointing(reweight)  # changed
    if folder is not None and start > 0:
        accelerator.load_state(folder)

    for epoch in range(start, epochs):
        model.train()
        loader.set_epoch(epoch)
        for batch in loader:
            with accelerator.accumulate(model):
                loss = reweight(*logits_and_labels(model, batch), batch["index"])  # changed
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        if folder is not None:
            accelerator.save_state(folder)
    return model, reweight


def main(weighted: bool = True, epochs: int = 16) -> float:
    """Train and return the test accuracy in percent; without ``weighted``, every weight is one."""
    model, _ = train(epochs, weighted)
    batch = Collated(noisy_sentences()[2], default_data_collator).columns
    model.eval()
    with torch.no_grad():
        logits, labels = logits_and_labels(model, batch)
    return 100 * float((logits.argmax(1) == labels).double().mean())


if __name__ == "__main__":
    print(f"accuracy without weights {main(weighted=False):.1f}%, with weights {main():.1f}%")
