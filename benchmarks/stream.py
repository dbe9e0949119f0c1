"""A stream of ten million samples without an index beside the same samples with one: CPU time of a step, and memory.

python benchmarks/stream.py [--samples 10000000] [--out benchmarks/results/stream-cpu.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from record import describe

BATCH, ROUNDS = 1000, 50


def bytes_kept(method: nn.Module) -> int:
    return sum(x.numel() * x.element_size() for x in method.state_dict().values() if isinstance(x, Tensor))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/stream-cpu.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion, trusted = (
        nn.CrossEntropyLoss(reduction="none"),
        TensorDataset(torch.randn(200, 20), torch.arange(200) % 5),
    )
    rows = []
    for divergence in (None, "kl"):
        stream = adiw.ADIW(model, criterion, trusted, None, divergence)
        indexed = adiw.ADIW(model, criterion, trusted, arguments.samples, divergence, warmup_steps=1)
        steps = arguments.samples // BATCH // ROUNDS
        ratios, kept = [], []
        for number in range(ROUNDS):
            seconds = []
            for method in (stream, indexed):
                start = time.process_time()
                for step in range(steps):
                    x = torch.randn(BATCH, 20)
                    index = torch.arange(BATCH) + (number * steps + step) * BATCH
                    loss = method(model(x), x[:, :5].argmax(1), None if method is stream else index)
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                seconds.append(time.process_time() - start)
            ratios.append(seconds[0] / seconds[1])
            kept.append(bytes_kept(stream))
        row = {
            "method": divergence or "default",
            "samples": int(stream.weight_state.seen_samples),
            "step_over_indexed": round(statistics.median(ratios), 3),
            "bytes_kept_first": kept[0],
            "bytes_kept_last": kept[-1],
            "bytes_kept_indexed": bytes_kept(indexed),
        }
        rows.append(row)
        print(row, flush=True)
    arguments.out.write_text(json.dumps({"batch": BATCH, "rows": rows, **describe()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
