"""The time of each convolution of ResNet-18 on CIFAR-10's shape by itself, in half precision.

    python benchmarks/convolutions.py [--plans 10 0] [--out DIR]

Three passes: forward, backward to the input, backward to the weights. ``--plans`` are the numbers of algorithms that
cuDNN may try (0: all). On a GPU the calls are replayed as a CUDA graph, so that their launches cost nothing.
"""

from __future__ import annotations

import argparse
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from adiw.models import build
from record import RESULTS, Record, describe
from timing import repeated

CALLS = 5  # of a graph
PASSES = {"forward": None, "to the input": [True, False, False], "to the weights": [False, True, False]}
Layer = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # input, weights, stride, padding


def layers(batch: int) -> Counter[Layer]:
    """The convolutions of the network, and how often each occurs."""
    found: Counter[Layer] = Counter()
    model = build("resnet18-cifar", (3, 32, 32), 10)

    def count(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        layer: Any = module
        found[(batch, *inputs[0].shape[1:]), tuple(layer.weight.shape), layer.stride, layer.padding] += 1

    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_pre_hook(count)
    model(torch.zeros(2, 3, 32, 32))
    padded = (batch, 8, 32, 32), (64, 8, 3, 3), (1, 1), (1, 1)
    return found + Counter({padded: 1})  # the stem with more channels, to compare


def calls(layer: Layer, device: torch.device) -> dict[str, Callable[[], Any]]:
    """The three passes of a layer."""
    shape, kernel, stride, padding = layer
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    made = [torch.randn(size, device=device, dtype=dtype) for size in (shape, kernel)]
    x, weight = (tensor.to(memory_format=torch.channels_last) for tensor in made)
    options = stride, padding, (1, 1), False, (0, 0), 1
    forward = partial(torch.ops.aten.convolution, x, weight, None, *options)
    backward = partial(torch.ops.aten.convolution_backward, torch.randn_like(forward()), x, weight, None, *options)
    return {name: forward if mask is None else partial(backward, mask) for name, mask in PASSES.items()}


def seconds(call: Callable[[], Any], device: torch.device, times: int) -> float:
    """The time of a call."""
    if device.type != "cuda":
        return repeated(call, device)(times)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(CALLS):
                call()
        return repeated(graph.replay, device)(times) / CALLS


def measure(plans: int, batch: int, device: torch.device, times: int) -> list[dict[str, Any]]:
    """A row for each layer. In a thread of its own: PyTorch keeps the algorithms that it has found by thread."""
    rows: list[dict[str, Any]] = []

    def work() -> None:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, plans
        for layer, count in layers(batch).items():
            us = {name: 1e6 * seconds(call, device, times) for name, call in calls(layer, device).items()}
            (n, inputs, height, width), (outputs, _, *size), stride, _ = layer
            multiplied = n * (height // stride[0]) * (width // stride[1]) * outputs * inputs * size[0] * size[1]
            shape = f"{inputs} x {height} x {width} to {outputs}, {size[0]} x {size[1]}, stride {stride[0]}"
            tflops = {name: 2e-6 * multiplied / found for name, found in us.items()}
            rows.append({"layer": shape, "count": count, "plans": plans, "us": us, "tflops": tflops})

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return rows


def line(row: dict[str, Any]) -> str:
    found = "  ".join(f"{name} {us:7.1f} us {row['tflops'][name]:5.0f} TF" for name, us in row["us"].items())
    return f"plans {row['plans']:3d}  {row['count']} of {row['layer']:42s} {found}"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--plans", type=int, nargs="*", default=[10, 0])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    device = torch.device(options.device)
    record = Record(options.out / f"convolutions-{device.type}.json", **describe(device=device.type))
    for plans in options.plans:
        rows = measure(plans, options.batch, device, options.times)
        record.add(*rows)
        print("\n".join(map(line, rows)), flush=True)
        for name in PASSES:
            total = sum(row["count"] * row["us"][name] for row in rows[:-1])
            print(f"plans {plans:3d}  all layers, {name}: {total:.0f} us", flush=True)


if __name__ == "__main__":
    main()
