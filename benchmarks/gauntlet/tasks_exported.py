"""Unicode's characters, time zones and pieces of files as tables; names in thirty languages and code as texts."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import HashingVectorizer

from benchmarks.gauntlet.corruptions import pair, symmetric, wrong_units
from benchmarks.gauntlet.task import Length, Pool, Pools, Sources, Split, Task, deal, make_split
from benchmarks.gauntlet.tasks_tables import encode

_NAMES = re.compile(r"pandas|pd\b|sympy|networkx|nx\b|transformers|mlflow|hypothesis|aiohttp", re.IGNORECASE)


def without_names(text: str) -> str:
    """The text without the libraries' own names, which would give the answer away."""
    return _NAMES.sub(" ", text)


@lru_cache(maxsize=4)
def read_table(sources: Sources, name: str) -> pd.DataFrame:
    return pd.read_csv(sources.exported(f"{name}.csv.gz"), keep_default_na=False)


def _pools(
    sources: Sources, name: str, label: str, trusted: int, test: int, rng: np.random.Generator
) -> tuple[Pools, int]:
    """A table with its label's values numbered in alphabetical order, and their number."""
    table = read_table(sources, name)
    x = table.drop(columns=label)
    values, y = np.unique(table[label], return_inverse=True)
    pool = Pool(x.to_numpy(object), y, np.arange(len(y)))
    return encode(deal(pool, trusted, test, rng), x.columns), len(values)


def characters(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools, classes = _pools(sources, "characters", "category", 200, 8000, rng)
    return make_split(pools, pair(pools.train.y, 0.3, classes, rng), classes)


def zones(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools, classes = _pools(sources, "zones", "changes", 30, 100, rng)
    return make_split(pools, symmetric(pools.train.y, 0.35, classes, rng), classes)


def fragments(sources: Sources, seed: int) -> Split:
    """Bytes after compression, from how often each byte occurs. Pieces of one file are all for testing, or none."""
    rng = np.random.default_rng(seed)
    with np.load(sources.exported("fragments.npz")) as file:
        counts, packed, number = file["counts"], file["packed"].astype(float), file["number"]
    is_test = np.isin(number, rng.permutation(np.unique(number))[: len(np.unique(number)) // 4])
    rest = rng.permutation(np.flatnonzero(~is_test))
    pool = Pool(np.log1p(counts), packed, np.arange(len(packed)))
    parts = (rest[100:], rest[:100], np.flatnonzero(is_test))
    pools = encode(Pools(*(pool[part] for part in parts)), pd.RangeIndex(256))
    return make_split(pools, wrong_units(pools.train.y, 0.3, 8, rng), None)


@lru_cache(maxsize=2)
def text_pool(sources: Sources, name: str, label: str) -> tuple[Pool, int]:
    """Hashed bags of words, or of groups of letters for names, (n, 1024); and the number of classes."""
    table = read_table(sources, name)
    texts = [without_names(text) for text in table["text"]]
    analyzer = {"analyzer": "char_wb", "ngram_range": (1, 3)} if name == "languages" else {}
    bags = HashingVectorizer(n_features=1024, alternate_sign=False, **analyzer).transform(texts).toarray()
    values, y = np.unique(table[label], return_inverse=True)
    return Pool(bags.astype(np.float32) * 10, y, np.arange(len(y))), len(values)


def languages(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pool, classes = text_pool(sources, "languages", "language")
    pools = deal(pool, 300, 5000, rng)
    return make_split(pools, symmetric(pools.train.y, 0.4, classes, rng), classes)


def code(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pool, classes = text_pool(sources, "code", "library")
    pools = deal(pool, 200, 1500, rng)
    return make_split(pools, pair(pools.train.y, 0.3, classes, rng), classes)


TASKS = [
    Task(
        "characters-pair",
        "table",
        "32,000 Unicode characters of twelve categories, 200 trusted: 30% of the labels wrong, the next class",
        characters,
        Length(2500, 128),
    ),
    Task("zones", "table", "312 time zones, 30 trusted: clocks change? 35% flipped", zones, Length(400, 32, 4)),
    Task(
        "fragments-units",
        "regression",
        "pieces of files, 100 trusted: bytes after compression, 30% noted in bits",
        fragments,
        Length(2000, 128),
    ),
    Task(
        "languages",
        "text",
        "names in thirty languages, 300 trusted: 40% of the labels wrong",
        languages,
        Length(2000, 128),
    ),
    Task(
        "code-pair",
        "text",
        "functions of eight libraries, 200 trusted: 30% of the labels wrong, the next class",
        code,
        Length(1500, 128),
    ),
]
