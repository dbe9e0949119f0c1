"""Hugging Face's Trainer: a small transformer on noisy text. "new" and "was" mark the changed lines."""

from __future__ import annotations

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from adiw.integrations.huggingface import Indexed, ReweightingMixin  # new
from noisy_text import TOPICS, WORDS, noisy_sentences


def tiny_bert() -> BertForSequenceClassification:
    """A BERT with random parameters: nothing is downloaded."""
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


def train(folder: str, epochs: int = 16, start: str | None = None) -> Trainer:
    """Train and return the trainer. ``folder`` gets a checkpoint per epoch; ``start`` resumes from one."""
    set_seed(0)
    train_set, trusted, _ = noisy_sentences()
    arguments = TrainingArguments(
        output_dir=folder,
        num_train_epochs=epochs,
        per_device_train_batch_size=128,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        save_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )

    train_set = Indexed(train_set, trusted)  # new: trusted samples are trained on as well

    class ReweightedTrainer(ReweightingMixin, Trainer):  # new
        trusted_set = trusted  # new

    more = {"model": tiny_bert(), "train_dataset": train_set}
    trainer = ReweightedTrainer(args=arguments, **more)  # was: trainer = Trainer(args=arguments, **more)
    trainer.train(resume_from_checkpoint=start)
    return trainer


def main() -> float:
    """Train, and return the accuracy on the test set in percent."""
    with tempfile.TemporaryDirectory() as folder:
        found = train(folder).predict(noisy_sentences()[2])
    return 100 * float((torch.tensor(found.predictions).argmax(1) == torch.tensor(found.label_ids)).double().mean())


if __name__ == "__main__":
    print(f"accuracy {main():.1f}%")
