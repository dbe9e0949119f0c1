"""The time and memory of an optimizer step of a language model with weights, relative to a uniform one.

    python benchmarks/language_model.py [--layers 22] [--width 2048] [--out benchmarks/results]

A Llama with random parameters in bf16 and AdamW, trained on random tokens: 8 sequences of 1,024 tokens in a batch,
four batches in an optimizer step. The trusted sequences of a method are part of the training set ("joined"), or 8 of
them are evaluated in every fourth optimizer step, before the training pass. Cases take turns in each round.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset
from transformers import LlamaConfig, LlamaForCausalLM

import adiw
from adiw.integrations.token_losses import IGNORED, ClassLosses
from plain_loop import median_interval
from record import RESULTS, Record, describe
from timing import Plan, interleave

BASE = "uniform"
TRUSTED, EVERY = 64, 4  # trusted sequences; optimizer steps from one evaluation of a batch of them to the next
# (divergence, unit, whether the trusted sequences are part of the training set)
METHODS: dict[str, tuple[str | None, str, bool]] = {
    "default, joined": (None, "sample", True),
    "default": (None, "sample", False),
    "kl": ("kl", "sample", False),
    "default, each token": (None, "element", False),
    "kl, each token": ("kl", "element", False),
}


@dataclass(frozen=True)
class Sizes:
    """The data and how it is divided."""

    samples: int
    tokens: int
    vocabulary: int
    batch: int
    accumulate: int


class OptimizerStep:
    """One case. A call runs some optimizer steps and returns the seconds of one."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, data: Tensor, method: str, sizes: Sizes):
        self.model, self.optimizer, self.sizes = model, optimizer, sizes
        self.x, self.y = data, nn.functional.pad(data, (0, 1), value=IGNORED)[:, 1:].contiguous()
        self.reweight: adiw.ADIW | None = None
        self.indexed = False
        if method != BASE:
            divergence, unit, joined = METHODS[method]
            train_set: Any = TensorDataset(self.x.cpu(), self.y.cpu())
            train_set = adiw.Indexed(train_set, torch.arange(TRUSTED))
            self.indexed = unit == "sample"
            self.reweight = adiw.ADIW(
                model,
                ClassLosses(),
                train_set.trusted if joined else TensorDataset(self.x[:TRUSTED].cpu(), self.y[:TRUSTED].cpu()),
                len(train_set) if self.indexed else None,
                divergence,
                unit=unit,  # type: ignore[arg-type]
                val_batch=TRUSTED,
                val_refresh=sizes.batch,
                val_every=EVERY * sizes.accumulate,
                forward=lambda model, batch: (model(batch[0]).logits, batch[1]),
            )
        self.mean_loss = nn.CrossEntropyLoss(ignore_index=IGNORED)
        self.count = 0

    def step(self) -> None:
        """One optimizer step, from several batches."""
        for _ in range(self.sizes.accumulate):
            index = torch.arange(self.sizes.batch, device=self.x.device) + self.count * self.sizes.batch
            index, self.count = index % len(self.x), self.count + 1
            if self.reweight is not None:
                self.reweight.refresh_validation()
            outputs, labels = self.model(self.x[index]).logits, self.y[index]
            if self.reweight is None:
                loss = self.mean_loss(outputs.flatten(0, 1).float(), labels.flatten())
            else:
                loss = self.reweight(outputs, labels, index if self.indexed else None)
            (loss / self.sizes.accumulate).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def __call__(self, steps: int) -> float:
        steps = EVERY * math.ceil(steps / EVERY)
        _wait(self.x.device)
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        _wait(self.x.device)
        return (time.perf_counter() - start) / steps


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def held_memory(device: torch.device) -> tuple[int, int]:
    """(bytes of tensors, bytes that PyTorch holds) without those that it holds only for later use."""
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)


def peak_memory(case: OptimizerStep, others: tuple[int, int]) -> tuple[float, float]:
    """(MiB of tensors, MiB that PyTorch holds) at the peak of some steps, without those of the other cases."""
    torch.cuda.reset_peak_memory_stats()
    case(2 * EVERY)
    peak = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return (peak[0] - others[0]) / 2**20, (peak[1] - others[1]) / 2**20


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    device = torch.device(options.device)
    sizes = Sizes(2 * TRUSTED, options.tokens, options.vocabulary, options.batch, options.accumulate)
    heads = max(options.width // 64, 1)
    config = LlamaConfig(
        vocab_size=options.vocabulary,
        hidden_size=options.width,
        intermediate_size=options.width * 11 // 4,
        num_hidden_layers=options.layers,
        num_attention_heads=heads,
        num_key_value_heads=max(heads // 8, 1),
        max_position_embeddings=options.tokens,
        use_cache=False,
    )
    torch.manual_seed(0)
    with device:
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    random = Generator().manual_seed(0)
    data = torch.randint(options.vocabulary, (sizes.samples, sizes.tokens), generator=random).to(device)
    record = Record(
        options.out / f"language-model-{device.type}.json",
        **describe("transformers", device=device.type),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        **vars(sizes),
        trusted=TRUSTED,
        trusted_batch=sizes.batch,
        optimizer_steps_between_evaluations=EVERY,
    )
    OptimizerStep(model, optimizer, data, BASE, sizes)(EVERY)  # the optimizer's state is made
    on_gpu = device.type == "cuda"
    first = held_memory(device) if on_gpu else (0, 0)
    cases, memory = {}, {}
    for method in (BASE, *METHODS):
        before = held_memory(device) if on_gpu else (0, 0)
        cases[method] = OptimizerStep(model, optimizer, data, method, sizes)
        if on_gpu:
            memory[method] = peak_memory(cases[method], (before[0] - first[0], before[1] - first[1]))
    timed = interleave(dict(cases), Plan(options.rounds, options.rounds * EVERY, limit=60.0, least=EVERY))
    for method, case in timed.items():
        if case.error is not None:
            record.add({"method": method, "error": case.error})
            continue
        assert case.median is not None
        ratios = [a / b for a, b in zip(case.seconds, timed[BASE].seconds, strict=True)]
        row: dict[str, Any] = {
            "method": method,
            "seconds": case.median,
            "ratio": case.over(timed[BASE]),
            "interval": median_interval(ratios),
        }
        if on_gpu:
            row |= {"mib": memory[method][0], "memory_ratio": memory[method][0] / memory[BASE][0]}
            row |= {"held_mib": memory[method][1], "held_ratio": memory[method][1] / memory[BASE][1]}
        record.add(row)
        print(row, flush=True)


if __name__ == "__main__":
    main()
