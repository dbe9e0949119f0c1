"""Digits (scikit-learn's, 8 x 8) and 6,000 images of Fashion-MNIST, each under the same shifts."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.gauntlet.corruptions import confusions, pair, symmetric, thin_classes
from benchmarks.gauntlet.task import Length, Pool, Pools, Sources, Split, Task, deal, make_split

Load = Callable[[Sources, np.random.Generator], Pools]
TRAIN_IMAGES = 60_000  # in Fashion-MNIST's file; rows of the test file are numbered behind them


def digits_pool() -> Pool:
    """All 1,797 digits."""
    bunch = load_digits()
    return Pool(bunch.data / 16, bunch.target, np.arange(len(bunch.target)))


def load_digit_pools(sources: Sources, rng: np.random.Generator) -> Pools:
    return deal(digits_pool(), trusted=100, test=500, rng=rng)


@lru_cache(maxsize=1)
def fashion_pool(sources: Sources) -> Pool:
    """All 70,000 images as bytes, those of the training file first."""
    images, labels = [], []
    for part in ("train", "t10k"):
        for kind, header, parts in (("images-idx3", 16, images), ("labels-idx1", 8, labels)):
            path = sources.file("data", f"fashion-mnist/{part}-{kind}-ubyte.gz")
            parts.append(np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header))
    y = np.concatenate(labels).astype(np.int64)
    return Pool(np.concatenate(images).reshape(len(y), -1), y, np.arange(len(y)))


def pixels(pool: Pool) -> Pool:
    return Pool((pool.x / 255).astype(np.float32), pool.y, pool.rows)


def load_fashion_pools(sources: Sources, rng: np.random.Generator) -> Pools:
    """6,000 training and 200 trusted images of the training file; the test file for testing."""
    pool = fashion_pool(sources)
    order = rng.permutation(TRAIN_IMAGES)
    parts = (order[:6000], order[6000:6200], np.arange(TRAIN_IMAGES, len(pool)))
    return Pools(*(pixels(pool[part]) for part in parts))


def _symmetric(pools: Pools, rng: np.random.Generator) -> Split:
    return make_split(pools, symmetric(pools.train.y, 0.4, 10, rng), 10)


def _pair(pools: Pools, rng: np.random.Generator) -> Split:
    return make_split(pools, pair(pools.train.y, 0.3, 10, rng), 10)


def _mix(pools: Pools, rng: np.random.Generator) -> Split:
    train = thin_classes(pools.train, 10, 0.1, rng)
    return make_split(Pools(train, pools.trusted, pools.test), train.y, 10)


def _mix_symmetric(pools: Pools, rng: np.random.Generator) -> Split:
    train = thin_classes(pools.train, 10, 0.1, rng)
    return make_split(Pools(train, pools.trusted, pools.test), symmetric(train.y, 0.4, 10, rng), 10)


def _one_rest(pools: Pools, rng: np.random.Generator) -> Split:
    """One class against the other nine; 30% of the given labels are flipped."""
    chosen = rng.integers(10)
    parts = (Pool(p.x, (p.y == chosen).astype(np.int64), p.rows) for p in (pools.train, pools.trusted, pools.test))
    pools = Pools(*parts)
    return make_split(pools, symmetric(pools.train.y, 0.3, 2, rng), 2)


def _clean(pools: Pools, rng: np.random.Generator) -> Split:
    return make_split(pools, pools.train.y, 10)


SHIFTS = {
    "symmetric": (_symmetric, "40% of the labels wrong, any other class"),
    "pair": (_pair, "30% of the labels wrong, the next class"),
    "mix": (_mix, "half the classes cut to a tenth"),
    "mix-symmetric": (_mix_symmetric, "half the classes cut to a tenth, then 40% of the labels wrong"),
    "one-rest": (_one_rest, "one class against the rest, 30% of the labels flipped"),
    "clean": (_clean, "nothing is wrong"),
}


def _draw(load: Load, shift: str, sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    return SHIFTS[shift][0](load(sources, rng), rng)


def instance_dependent(sources: Sources, seed: int) -> Split:
    """Fashion-MNIST with 35% wrong labels drawn from the predictions of a weak network."""
    rng = np.random.default_rng(seed)
    pools = load_fashion_pools(sources, rng)
    used = np.concatenate([pools.train.rows, pools.trusted.rows])
    others = np.setdiff1d(np.arange(TRAIN_IMAGES), used)
    teacher = pixels(fashion_pool(sources)[rng.choice(others, 2000, replace=False)])
    return make_split(pools, confusions(pools.train, teacher, 0.35, 10, rng), 10)


def digit_pairs(sources: Sources, seed: int) -> Split:
    """Two digits side by side are one of a hundred classes. Images of test pairs are in no other pair."""
    rng = np.random.default_rng(seed)
    pool = digits_pool()
    order = rng.permutation(len(pool))
    test = _pairs(pool, order[:500], 2000, rng)
    rest = _pairs(pool, order[500:], 8000, rng)
    trusted = np.concatenate([np.flatnonzero(rest.y == c)[:5] for c in range(100)])
    train = rest[np.setdiff1d(np.arange(len(rest)), trusted)]
    return make_split(Pools(train, rest[trusted], test), symmetric(train.y, 0.4, 100, rng), 100)


def _pairs(pool: Pool, allowed: np.ndarray, count: int, rng: np.random.Generator) -> Pool:
    """Distinct pairs of the allowed images; the row of a pair is left * len(pool) + right."""
    chosen = rng.choice(len(allowed) ** 2, count, replace=False)
    left, right = allowed[chosen // len(allowed)], allowed[chosen % len(allowed)]
    x = np.concatenate([pool.x[left], pool.x[right]], axis=1)
    return Pool(x, 10 * pool.y[left] + pool.y[right], left * len(pool) + right)


_FAMILIES: dict[str, tuple[Load, tuple[str, ...], Length]] = {
    "digits": (load_digit_pools, tuple(SHIFTS), Length(steps=1500, batch=64)),
    "fashion": (
        load_fashion_pools,
        ("symmetric", "pair", "mix", "mix-symmetric", "one-rest"),
        Length(steps=2000, batch=128),
    ),
}
_AMOUNTS = {"digits": "digits, 100 trusted", "fashion": "6,000 images of Fashion-MNIST, 200 trusted"}
TASKS = [
    Task(f"{family}-{shift}", "image", f"{_AMOUNTS[family]}: {SHIFTS[shift][1]}", partial(_draw, load, shift), length)
    for family, (load, shifts, length) in _FAMILIES.items()
    for shift in shifts
] + [
    Task(
        "digits-hundred",
        "image",
        "two digits side by side, a hundred classes, 5 trusted a class: 40% of the labels wrong",
        digit_pairs,
        Length(steps=2000, batch=128),
    ),
    Task(
        "fashion-instance",
        "image",
        "6,000 images of Fashion-MNIST, 200 trusted: 35% of the labels drawn wrong from a weak network's predictions",
        instance_dependent,
        Length(steps=2000, batch=128),
    ),
]
