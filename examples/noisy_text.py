"""Generated sentences for the examples: token ids with a topic as the label, 40% of the training labels wrong."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from adiw.shifts import Symmetric

Samples = list[dict[str, Tensor]]
TOPICS, WORDS, LENGTH = 4, 100, 12  # word 0 is padding; the last words belong to one topic each


def sentences(count: int, seed: int) -> Samples:
    """``count`` samples with ``input_ids``, ``attention_mask`` and ``labels``."""
    generator = Generator().manual_seed(seed)
    topics = torch.randint(TOPICS, (count,), generator=generator)
    words = torch.randint(1, WORDS, (count, LENGTH), generator=generator)
    own = WORDS - 5 * (topics[:, None] + 1) + torch.randint(5, (count, LENGTH), generator=generator)
    words = torch.where(torch.rand(count, LENGTH, generator=generator) < 0.5, own, words)
    mask = torch.ones_like(words)
    return [
        {"input_ids": ids, "attention_mask": there, "labels": topic}
        for ids, there, topic in zip(words, mask, topics, strict=True)
    ]


def noisy_sentences() -> tuple[Samples, Samples, Samples]:
    """(800 training samples with 40% wrong labels, 80 trusted samples, 400 test samples)."""
    train = sentences(800, seed=0)
    labels = torch.stack([sample["labels"] for sample in train])
    shifted = Symmetric(0.4).apply(None, labels, TOPICS, 80, Generator().manual_seed(0))
    noisy = [{**sample, "labels": label} for sample, label in zip(train, shifted.y, strict=True)]
    return noisy, [train[i] for i in shifted.trusted.tolist()], sentences(400, seed=1)
