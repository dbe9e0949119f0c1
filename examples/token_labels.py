"""Token classification: 40% of the sentences have random tags, and short sentences are padded; a few were checked."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import adiw

MARGIN = 0.02  # smallest allowed gain in accuracy over the same training without weights
WORDS, TAGS, LENGTH, PADDING = 60, 5, 12, -100  # CrossEntropyLoss ignores targets of -100


def sentences(count: int, wrong: float) -> TensorDataset:
    """Words, and the tag of each word: the sum of its own class and that of the word before, modulo TAGS."""
    words = torch.randint(WORDS, (count, LENGTH))
    tags = (words + words.roll(1, 1)) % TAGS
    random = torch.randint(TAGS, tags.shape)
    tags = torch.where(torch.rand(count, 1) < wrong, random, tags)
    tags[torch.arange(LENGTH) >= torch.randint(4, LENGTH + 1, (count, 1))] = PADDING
    tags[:, 0] = PADDING
    return TensorDataset(words, tags)


class Tagger(nn.Module):
    """Scores (n, TAGS, LENGTH) for words (n, LENGTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 32)
        self.layers = nn.Sequential(
            nn.Conv1d(32, 128, 2, padding=1), nn.ReLU(), nn.Conv1d(128, 128, 1), nn.ReLU(), nn.Conv1d(128, TAGS, 1)
        )

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.layers(self.embedding(words).transpose(1, 2))[..., :-1]
        return scores


def train(train_set: TensorDataset, trusted: TensorDataset, weighted: bool) -> nn.Module:
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    criterion = nn.CrossEntropyLoss(reduction="none")  # one loss per token, (n, LENGTH)
    indexed = adiw.Indexed(train_set, trusted)
    reweight = adiw.ADIW(model, criterion, indexed.trusted, len(indexed))
    for _ in range(20):
        for words, tags, index in DataLoader(indexed, batch_size=64, shuffle=True, drop_last=True):
            scores = model(words)
            loss = reweight(scores, tags, index) if weighted else nn.functional.cross_entropy(scores, tags)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def main(seed: int = 0) -> dict[str, float]:
    """The accuracy on tokens of sentences with correct tags, with and without weights."""
    scores = {}
    for weighted in (False, True):
        torch.manual_seed(seed)
        train_set, trusted, test = sentences(1000, 0.4), sentences(150, 0.0), sentences(1000, 0.0)
        words, tags = test.tensors
        predicted = train(train_set, trusted, weighted)(words).argmax(1)
        right = (predicted == tags)[tags != PADDING]
        scores["weighted" if weighted else "plain"] = right.double().mean().item()
    print(f"accuracy: {scores['plain']:.3f} plain, {scores['weighted']:.3f} weighted")
    assert scores["weighted"] >= scores["plain"] + MARGIN, scores
    return scores


if __name__ == "__main__":
    main()
