"""Tables: breast cancer and wine (scikit-learn's), Adult and employment, as classifications."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.gauntlet.corruptions import symmetric
from benchmarks.gauntlet.task import Length, Pool, Pools, Sources, Split, Task, deal, make_split


def encode(pools: Pools, columns: pd.Index) -> Pools:
    """Numbers standardised, text columns one-hot, fitted on the training rows."""
    frames = [_frame(pool, columns) for pool in (pools.train, pools.trusted, pools.test)]
    encoder = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
    ).fit(frames[0])
    parts = (pools.train, pools.trusted, pools.test)
    return Pools(*(Pool(encoder.transform(f), p.y, p.rows) for f, p in zip(frames, parts, strict=True)))


def _frame(pool: Pool, columns: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(pool.x, columns=columns).infer_objects()


def small_pools(load: Callable[..., Any], trusted: int, test: int, rng: np.random.Generator) -> Pools:
    """A table of scikit-learn: numbers, standardised."""
    x, y = load(return_X_y=True, as_frame=True)
    return encode(deal(Pool(x.to_numpy(), y.to_numpy(), np.arange(len(y))), trusted, test, rng), x.columns)


def cancer(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools = small_pools(load_breast_cancer, 40, 142, rng)
    return make_split(pools, symmetric(pools.train.y, 0.35, 2, rng), 2)


def wine(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools = small_pools(load_wine, 20, 58, rng)
    return make_split(pools, symmetric(pools.train.y, 0.4, 3, rng), 3)


@lru_cache(maxsize=2)
def read_adult(sources: Sources) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The two files of Adult. ``fnlwgt`` is a sampling weight and not an attribute of a person."""
    frames = (pd.read_csv(sources.file("tables", f"adult/{part}.csv.gz")) for part in ("train", "test"))
    train, test = (frame.drop(columns="fnlwgt") for frame in frames)
    return train, test


def adult_pools(sources: Sources, label: str, drop: list[str], rng: np.random.Generator) -> tuple[Pools, pd.Index]:
    """200 trusted rows and the other training rows of the training file, not encoded yet; the test file."""
    train, test = read_adult(sources)
    both = pd.concat([train, test], ignore_index=True)
    y = (both[label] == ">50K").to_numpy(np.int64) if label == "income" else both[label].to_numpy(float)
    x = both.drop(columns=[label, *drop])
    pool = Pool(x.to_numpy(object), y, np.arange(len(both)))
    order = rng.permutation(len(train))
    parts = (order[200:], order[:200], np.arange(len(train), len(both)))
    return Pools(*(pool[part] for part in parts)), x.columns


def adult_flipped(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools = encode(*adult_pools(sources, "income", [], rng))
    return make_split(pools, symmetric(pools.train.y, 0.4, 2, rng), 2)


def adult_clean(sources: Sources, seed: int) -> Split:
    pools = encode(*adult_pools(sources, "income", [], np.random.default_rng(seed)))
    return make_split(pools, pools.train.y, 2)


def adult_women(sources: Sources, seed: int) -> Split:
    """Four fifths of the women with a high income are missing from the training rows."""
    rng = np.random.default_rng(seed)
    raw, columns = adult_pools(sources, "income", [], rng)
    train = raw.train[np.flatnonzero(~_rich_women(raw.train, columns) | (rng.random(len(raw.train)) < 0.2))]
    pools = encode(Pools(train, raw.trusted, raw.test), columns)
    return make_split(pools, train.y, 2, focus=_rich_women(raw.test, columns))


def _rich_women(pool: Pool, columns: pd.Index) -> NDArray[Any]:
    return (pool.x[:, columns.get_loc("sex")] == "Female") & (pool.y == 1)


@lru_cache(maxsize=2)
def read_employment(sources: Sources) -> tuple[pd.DataFrame, pd.DataFrame]:
    """2015, and 2016 to 2018. All columns but the age are codes; "year" is not a feature."""
    names = ("reference-2015", "analysis-2016-2018")
    codes = {"AGEP": float, "employed": int, "year": int}
    first, later = (
        pd.read_csv(sources.file("tables", f"employment/{name}.csv.gz"), dtype=str).fillna("?").astype(codes)
        for name in names
    )
    return first, later


def employment(sources: Sources, seed: int) -> Split:
    """Training rows of 2015, 300 trusted rows of 2016, 20,000 test rows of 2016 to 2018."""
    rng = np.random.default_rng(seed)
    first, later = read_employment(sources)
    both = pd.concat([first, later], ignore_index=True)
    x = both.drop(columns=["employed", "year"])
    pool = Pool(x.to_numpy(object), both["employed"].to_numpy(), np.arange(len(both)))
    trusted = rng.choice(np.flatnonzero(both["year"] == 2016), 300, replace=False)
    test = rng.choice(np.setdiff1d(np.arange(len(first), len(both)), trusted), 20_000, replace=False)
    pools = encode(Pools(pool[np.arange(len(first))], pool[trusted], pool[test]), x.columns)
    return make_split(pools, pools.train.y, 2)


LONG = Length(steps=2500, batch=128)
TASKS = [
    Task("cancer", "table", "breast cancer, 40 trusted: 35% flipped", cancer, Length(800, 64, splits=3)),
    Task("wine", "table", "wine, 20 trusted: 40% of the labels wrong", wine, Length(400, 32, splits=7)),
    Task("adult-flipped", "table", "Adult, 200 trusted: 40% flipped", adult_flipped, LONG),
    Task("adult-women", "table", "Adult, 200 trusted: 80% of the women above 50K missing", adult_women, LONG),
    Task("adult-clean", "table", "Adult, 200 trusted: nothing is wrong", adult_clean, LONG),
    Task("employment", "table", "employment 2015 to 2016-18, 300 trusted: hardly any shift", employment, LONG),
]
