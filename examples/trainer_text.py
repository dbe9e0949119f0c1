"""Hugging Face's Trainer: a small transformer on generated sentences; the lines that change are marked."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from adiw.integrations.huggingface import ReweightingMixin  # changed
from noisy_text import TOPICS, WORDS, noisy_sentences


def tiny_bert() -> BertForSequenceClassification:
    """Made from a config, with random weights: nothing is downloaded."""
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        num_labels=TOPICS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def main(weighted: bool = True, epochs: int = 16) -> float:
    """Train and return the test accuracy in percent; without ``weighted``, with the Trainer as it comes."""
    set_seed(0)
    train_set, trusted, test_set = noisy_sentences()

    class ReweightedTrainer(ReweightingMixin, Trainer):  # changed
        trusted_set = trusted  # changed

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=128,
            gradient_accumulation_steps=2,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        kind = ReweightedTrainer if weighted else Trainer
        trainer = kind(model=tiny_bert(), args=arguments, train_dataset=train_set)  # changed
        trainer.train()
        return accuracy(trainer, test_set)


def accuracy(trainer: Trainer, test_set: list[dict[str, Any]]) -> float:
    """Percent of the test set that the model gets right."""
    found = trainer.predict(test_set)
    return 100 * float((torch.tensor(found.predictions).argmax(1) == torch.tensor(found.label_ids)).double().mean())


if __name__ == "__main__":
    print(f"accuracy without weights {main(weighted=False):.1f}%, with weights {main():.1f}%")
