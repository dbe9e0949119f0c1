"""Values to pass in place of a valid argument: most are bad, some are good."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import torch

NAN, INF = float("nan"), float("inf")


class Strange:
    """An object that accepts any arguments and has no methods."""

    def __init__(self, *given: Any) -> None: ...


ANYTHING: tuple[Any, ...] = (
    None,
    "",
    "abc",
    b"1",
    [],
    {},
    (1, 2),
    Strange(),
    Strange,
    1 + 2j,
    lambda *given: 0,
    True,
)
NUMBERS: tuple[Any, ...] = (NAN, INF, -INF, -1, -1.5, 0, 0.0, -0.0, 0.5, 1, 3, 1e308, 5e-324, 10**400, "0.5")
NUMBERS += (np.float32(0.5), np.float64(NAN), np.int64(-3), torch.tensor(0.5), torch.tensor([0.5, 1.0]), *ANYTHING)
COUNTS: tuple[Any, ...] = (0, -1, 1, 2, 5, 1.5, NAN, INF, "3", np.int64(3), np.int64(-3), 2.0, torch.tensor(3))
COUNTS += ANYTHING
NAMES: tuple[Any, ...] = ("KL", "kl ", "mse", "\0", "x" * 3000, "ключ", "auto", "cv", "median", 3, NAN, *ANYTHING)
SHAPES = ((), (0,), (1,), (3,), (4,), (5,), (4, 1), (4, 3), (4, 0), (0, 3), (2, 2, 2), (4, 1, 1))
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8)
DTYPES += (torch.bool, torch.complex64)
SPECIAL = (NAN, INF, -INF, 1e30, -1e30, 1e-30, 0.0, -1.0)


def tensor(random: Random, good: torch.Tensor | None = None) -> Any:
    """Mostly a bad tensor: another type, shape or dtype, or numbers that break arithmetic."""
    kind = random.randrange(6)
    if kind == 0:
        return random.choice(
            (*ANYTHING, 3, 0.5, [1.0, 2.0], [[1.0], [2.0, 3.0]], np.ones(4), np.ones((4, 1), object))
        )
    if kind <= 2 or good is None:
        made = torch.rand(random.choice(SHAPES), generator=torch.Generator().manual_seed(random.randrange(1000)))
        return (4 * made).to(random.choice(DTYPES))
    if kind == 3:
        return good.to(random.choice(DTYPES))
    broken = good.clone()
    if broken.numel() and broken.is_floating_point():
        share = random.choice((0.2, 0.5, 1.0))
        for k in range(broken.numel()):
            if random.random() < share:
                broken.view(-1)[k] = random.choice(SPECIAL)
    return broken


def index(random: Random, size: int, num_train: int) -> Any:
    """A sample index: out of range, repeated, or of another type or shape."""
    if random.random() < 0.3:
        return tensor(random)
    numbers = [random.choice((0, 1, 2, num_train - 1, num_train, -1, 2**40, -(2**40))) for _ in range(size)]
    made = torch.tensor(numbers[: random.choice((size, size, size - 1, 0))], dtype=torch.int64)
    return random.choice((made, made, made, made.double(), made[:, None], made.tolist(), made.numpy()))


def array(random: Random, good: np.ndarray | None = None) -> Any:
    """Rows of features with the mistakes that users make."""
    kind = random.randrange(4)
    if kind == 0:
        ragged, words = [[1.0], [2.0, 3.0]], [["a", "b"], ["c", "d"]]
        return random.choice((*ANYTHING, 3, ragged, words, np.array(words), np.ones(6), np.ones((2, 3, 2)), [[]]))
    if kind == 1 or good is None:
        shape = random.choice(((0, 2), (1, 2), (2, 2), (6, 2), (6, 3), (6, 0), (6, 1)))
        return np.full(shape, random.choice((*SPECIAL, 1.0, 1e200)))
    if kind == 2:
        return good.astype(random.choice((np.float32, np.int64, np.complex128, object, "U3", bool)))
    broken = good.astype(float)
    for k in range(broken.size):
        if random.random() < random.choice((0.1, 1.0)):
            broken.reshape(-1)[k] = random.choice((*SPECIAL, 1e200))
    return broken


def content(random: Random, good: bytes) -> bytes:
    """The content of a file: empty, cut, random, or with some bytes changed."""
    kind = random.randrange(4)
    if kind == 0:
        return random.randbytes(random.choice((0, 1, 16, 200)))
    if kind == 1:
        return good[: random.randrange(len(good))]
    broken = bytearray(good)
    for _ in range(random.choice((1, 1, 3, 20))):
        broken[random.randrange(len(broken))] = random.randrange(256)
    return bytes(broken)


def json_value(random: Random, depth: int = 2) -> Any:
    """A random value that JSON can represent."""
    kind = random.randrange(9 if depth else 7)
    if kind == 7:
        return [json_value(random, depth - 1) for _ in range(random.randrange(3))]
    if kind == 8:
        return {random.choice(("a", "epochs", "label", "x")): json_value(random, depth - 1) for _ in range(2)}
    return (None, True, -1, 1e300, "text", NAN, 0.5)[kind]
