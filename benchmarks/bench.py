"""Run all benchmarks, each in its own process, so that one that fails or hangs does not stop the others.

    python benchmarks/bench.py [--quick] [--gpu-only | --cpu-only] [--only NAME ...] [--minutes 8]

Results are written to benchmarks/results/*.json as they are measured; at the end the tables of
benchmarks/results/README.md and docs/scale.md are drawn from them. ``--minutes`` limits the part on the GPU.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MINUTES = 8  # on the GPU
GRACE = 90.0  # seconds beyond its budget that a process may take: imports, set-up, the last group of cases


@dataclass(frozen=True)
class Part:
    """A script with its arguments. ``share`` is its part of the GPU's time; 0 means no limit."""

    command: tuple[str, ...]
    share: float = 0.0
    quick: float = 0.0  # its share with --quick; 0 excludes it


ON_GPU: dict[str, Part] = {
    "fashion-mnist": Part(("steps.py", "fashion-mnist"), 60, 20),
    "cifar10": Part(("steps.py", "cifar10"), 110, 30),
    "imagenet": Part(("steps.py", "imagenet"), 80, 30),
    "estimation": Part(("estimation.py",), 40, 10),
    "divergences": Part(("divergences.py",), 60),
    "growth": Part(("growth.py",), 15),
    "imagenet-folder": Part(("steps.py", "imagenet-folder"), 35),
    "whole": Part(("whole_run.py",), 110),
    "frameworks": Part(("frameworks.py",), 50),
    "engine": Part(("engine.py",), 80),
    "many-runs": Part(("many_runs.py",), 50),
}
ON_CPU: dict[str, Part] = {
    "scale": Part(("scale.py",)),
    "digits-cpu": Part(("steps.py", "digits", "--device", "cpu")),
    "fashion-mnist-cpu": Part(("steps.py", "fashion-mnist", "--device", "cpu")),
    "estimation-cpu": Part(("estimation.py", "--device", "cpu")),
    "growth-cpu": Part(("growth.py", "--device", "cpu")),
    "peers": Part(("peers.py",)),
    "oracle_error": Part(("oracle_error.py",)),
    "million": Part(("million.py",)),
}
TAKE_QUICK = ("steps.py", "estimation.py", "divergences.py", "growth.py")


def commands(minutes: float, quick: bool, gpu: bool, cpu: bool, only: list[str] | None) -> dict[str, list[str]]:
    """Name -> arguments for Python, of everything to run, the GPU's part first."""
    chosen: dict[str, list[str]] = {}
    if gpu:
        wanted = {name: part for name, part in ON_GPU.items() if part.quick or not quick}
        parts = {name: part for name, part in wanted.items() if not only or name in only}
        shares = {name: part.quick if quick else part.share for name, part in parts.items()}
        start_up = 7 * len(parts)  # seconds: each process imports torch and initialises CUDA
        left = max(60 * minutes - start_up, 30)
        for name, part in parts.items():
            budget = left * shares[name] / sum(shares.values())
            chosen[name] = [*part.command, "--device", "cuda", "--budget", f"{budget:.0f}"]
    if cpu:
        chosen |= {name: list(part.command) for name, part in ON_CPU.items()}
    if quick:
        chosen = {n: [*c, "--quick"] if c[0] in TAKE_QUICK else c for n, c in chosen.items()}
    known = [*(wanted if gpu else ()), *(ON_CPU if cpu else ())]
    unknown = set(only or ()) - set(known)
    if unknown:
        raise SystemExit(f"unknown benchmark {', '.join(sorted(unknown))}: expected some of {', '.join(known)}")
    return {name: command for name, command in chosen.items() if not only or name in only}


def run(name: str, command: list[str]) -> str:
    """Run one benchmark; return a line that says how it ended."""
    limit = float(command[command.index("--budget") + 1]) + GRACE if "--budget" in command else None
    print(f"== {name}", flush=True)
    start = time.monotonic()
    try:
        code = subprocess.run([sys.executable, str(HERE / command[0]), *command[1:]], timeout=limit).returncode
        ended = "done" if code == 0 else f"failed with code {code}"
    except subprocess.TimeoutExpired:
        ended = "stopped: it took too long"
    return f"{name}: {ended}, {time.monotonic() - start:.0f} s"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer columns and rounds: two minutes on the GPU")
    parser.add_argument("--minutes", type=float, help="for the part on the GPU [8, or 2 when quick]")
    parser.add_argument("--gpu-only", action="store_true")
    parser.add_argument("--cpu-only", action="store_true")
    parser.add_argument("--only", nargs="+", help="names of benchmarks")
    options = parser.parse_args(given)
    gpu = not options.cpu_only and has_gpu()
    if options.gpu_only and not gpu:
        raise SystemExit("--gpu-only, but PyTorch sees no CUDA device here")
    minutes = options.minutes or (2 if options.quick else MINUTES)
    todo = commands(minutes, options.quick, gpu, not options.gpu_only, options.only)
    ended = [run(name, command) for name, command in todo.items()]
    ended.append(run("draw", ["draw.py"]))
    print("\n".join(["==", *ended]))
    if any("failed" in line or "stopped" in line for line in ended):
        raise SystemExit(1)


def has_gpu() -> bool:
    """Checked in another process, so that this one creates no CUDA context, which would take device memory."""
    code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code]).returncode == 0


if __name__ == "__main__":
    main()
