"""A language model: 40% of the sequences follow another source; a few sequences of the right one are trusted."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from adiw.integrations.huggingface import Indexed, ReweightingMixin

MARGIN = 0.95  # largest allowed loss on text of the right source, as a share of the loss without weights
WORDS, LENGTH, PADDING = 32, 16, -100


def sequences(count: int, source: int) -> list[dict[str, Tensor]]:
    """Each word is one of four that follow the last one; which four, the source decides."""
    follows = torch.randint(WORDS, (WORDS, 4), generator=torch.Generator().manual_seed(source))
    words = [torch.randint(WORDS, (count,))]
    for _ in range(LENGTH - 1):
        words.append(follows[words[-1], torch.randint(4, (count,))])
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (count,))
    return [{"input_ids": row[:length]} for row, length in zip(torch.stack(words, 1), lengths.tolist(), strict=True)]


def pad(samples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The data collator: the labels of padding do not count."""
    rows = [sample["input_ids"] for sample in samples]
    labels = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
    return {"input_ids": labels.clamp_min(0), "attention_mask": (labels >= 0).long(), "labels": labels}


def tiny_gpt2() -> GPT2LMHeadModel:
    """A GPT-2 with random parameters: nothing is downloaded."""
    sizes = {"vocab_size": WORDS, "n_positions": LENGTH, "n_embd": 48, "n_layer": 1, "n_head": 2}
    plain = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **plain))


class WeightedTrainer(ReweightingMixin, Trainer):
    """The Trainer with a weight for each sequence."""


def trained(train_set: Any, kind: type[Trainer], folder: str) -> Trainer:
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=8,
        per_device_train_batch_size=32,
        gradient_accumulation_steps=2,
        learning_rate=5e-3,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = kind(model=tiny_gpt2(), args=arguments, train_dataset=train_set, data_collator=pad)
    trainer.train()
    return trainer


def main(seed: int = 0) -> dict[str, float]:
    """The loss per token of text from the right source, with and without weights."""
    losses = {}
    for kind in (Trainer, WeightedTrainer):
        set_seed(seed)
        train_set = [*sequences(400, source=1), *sequences(600, source=0)]
        trusted, test = sequences(200, source=0), sequences(400, source=0)
        both = Indexed(train_set, trusted)  # the trusted sequences are trained on as well, in both runs
        with tempfile.TemporaryDirectory() as folder:
            trainer = trained(both if kind is WeightedTrainer else [*train_set, *trusted], kind, folder)
            losses["weighted" if kind is WeightedTrainer else "plain"] = trainer.evaluate(test)["eval_loss"]
    other, right = trainer.weights[:400].mean(), trainer.weights[400:1000].mean()
    print(f"mean weight: {other:.2f} of the other source, {right:.2f} of the right one")
    print(f"loss: {losses['plain']:.3f} plain, {losses['weighted']:.3f} weighted")
    assert losses["weighted"] <= MARGIN * losses["plain"], losses
    return losses


if __name__ == "__main__":
    main()
