"""Generated sentences for the examples: token ids whose topic is the label, 40% of the training labels wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator

from adiw.shifts import Symmetric

TOPICS, WORDS, LENGTH = 4, 100, 12  # word 0 is padding, each topic has words of its own, most words have none


def sentences(count: int, seed: int) -> list[dict[str, Any]]:
    """``count`` samples with ``input_ids``, ``attention_mask``, ``labels`` and a column that no model takes."""
    generator = Generator().manual_seed(seed)
    topics = torch.randint(TOPICS, (count,), generator=generator)
    words = torch.randint(1, WORDS, (count, LENGTH), generator=generator)
    own = WORDS - 5 * (topics[:, None] + 1) + torch.randint(5, (count, LENGTH), generator=generator)
    words = torch.where(torch.rand(count, LENGTH, generator=generator) < 0.5, own, words)
    return [
        {"input_ids": ids, "attention_mask": [1] * LENGTH, "labels": topic, "source": "generated"}
        for ids, topic in zip(words.tolist(), topics.tolist(), strict=True)
    ]


def noisy_sentences() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """(800 training samples with 40% wrong labels, 80 trusted samples, 400 test samples)."""
    train = sentences(800, seed=0)
    labels = torch.tensor([sample["labels"] for sample in train])
    shifted = Symmetric(0.4).apply(None, labels, TOPICS, 80, Generator().manual_seed(0))
    noisy = [{**sample, "labels": label} for sample, label in zip(train, shifted.y.tolist(), strict=True)]
    return noisy, [train[i] for i in shifted.trusted.tolist()], sentences(400, seed=1)
