"""Text: sentences with 40% wrong topics, a bag of word vectors, and a few labels that were checked."""

from __future__ import annotations

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import adiw

MARGIN = 0.10  # smallest allowed gain in accuracy over the same training without weights

TOPICS = {
    "weather": ["rain", "wind", "cloud", "storm", "sun", "frost", "fog", "thunder", "mild", "breeze"],
    "kitchen": ["flour", "salt", "oven", "bake", "stir", "butter", "dough", "pan", "simmer", "taste"],
    "garden": ["seed", "soil", "rose", "prune", "weed", "spade", "hedge", "lawn", "bulb", "compost"],
    "railway": ["train", "track", "station", "platform", "signal", "ticket", "engine", "coach", "rail", "tunnel"],
}
COMMON = ["the", "a", "of", "and", "then", "it", "was", "very", "all", "day", "we", "had", "some", "more", "with"]
WORDS = [*COMMON, *(word for words in TOPICS.values() for word in words)]
VOCABULARY = {word: number for number, word in enumerate(WORDS, start=1)}  # 0 is padding
LENGTH = 12


def sentence(topic: str) -> str:
    """Seven common words, two of the topic, one of any topic."""
    other = TOPICS[random.choice(list(TOPICS))]
    words = random.choices(COMMON, k=7) + random.choices(TOPICS[topic], k=2) + random.choices(other, k=1)
    random.shuffle(words)
    return " ".join(words)


def tokens(text: str) -> list[int]:
    """The number of each word, padded with zeros: (LENGTH,)."""
    numbers = [VOCABULARY[word] for word in text.split()]
    return numbers + [0] * (LENGTH - len(numbers))


def write(count: int, wrong: float) -> TensorDataset:
    """Sentences labelled with their topic; a share ``wrong`` of the labels is wrong."""
    topics = torch.randint(len(TOPICS), (count,))
    x = torch.tensor([tokens(sentence(list(TOPICS)[topic])) for topic in topics])
    others = (topics + torch.randint(1, len(TOPICS), (count,))) % len(TOPICS)
    return TensorDataset(x, torch.where(torch.rand(count) < wrong, others, topics))


def train(train_set: TensorDataset, trusted: TensorDataset, weighted: bool) -> nn.Module:
    words = nn.EmbeddingBag(1 + len(VOCABULARY), 32, padding_idx=0)
    model = nn.Sequential(words, nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, len(TOPICS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss(reduction="none")
    reweight = adiw.ADIW(model, criterion, trusted, len(train_set), "kl")
    for _ in range(25):
        for x, y, index in DataLoader(adiw.Indexed(train_set), batch_size=128, shuffle=True, drop_last=True):
            outputs = model(x)
            loss = reweight(outputs, y, index) if weighted else criterion(outputs, y).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def main(seed: int = 0) -> dict[str, float]:
    """Accuracy on sentences with correct labels, with and without weights."""
    accuracies = {}
    for weighted in (False, True):
        torch.manual_seed(seed)
        random.seed(seed)
        train_set, trusted, test = write(1000, 0.4), write(100, 0), write(1000, 0)
        model = train(train_set, trusted, weighted)
        right = model(test.tensors[0]).argmax(1) == test.tensors[1]
        accuracies["weighted" if weighted else "plain"] = right.float().mean().item()
    print(f"accuracy: {accuracies['plain']:.3f} plain, {accuracies['weighted']:.3f} weighted")
    assert accuracies["weighted"] >= accuracies["plain"] + MARGIN, accuracies
    return accuracies


if __name__ == "__main__":
    main()
