"""A table of Python functions, numbers and text: is one documented, private, does it catch errors, how wide is it?"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.gauntlet.corruptions import keep_low, symmetric
from benchmarks.gauntlet.task import Length, Pool, Pools, Sources, Split, Task, deal, make_split
from benchmarks.gauntlet.tasks_tables import LONG, encode


@lru_cache(maxsize=1)
def read_functions(sources: Sources) -> pd.DataFrame:
    return pd.read_csv(sources.exported("functions.csv.gz"))


def function_pools(
    sources: Sources, y: NDArray[Any], drop: list[str], rng: np.random.Generator
) -> tuple[Pools, pd.Index]:
    """200 trusted and 8,000 test rows, not encoded yet. Counts have a long tail: their logarithms are the columns."""
    x = read_functions(sources).drop(columns=drop)
    counts = x.select_dtypes("integer").columns
    x = x.astype(dict.fromkeys(counts, float))
    x[counts] = np.log1p(x[counts])
    return deal(Pool(x.to_numpy(object), y, np.arange(len(x))), 200, 8000, rng), x.columns


def flipped(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    y = read_functions(sources)["documented"].to_numpy(np.int64)
    pools = encode(*function_pools(sources, y, ["documented"], rng))
    return make_split(pools, symmetric(pools.train.y, 0.4, 2, rng), 2)


def clean(sources: Sources, seed: int) -> Split:
    y = (read_functions(sources)["visibility"] == "private").to_numpy(np.int64)
    pools = encode(*function_pools(sources, y, ["visibility"], np.random.default_rng(seed)))
    return make_split(pools, pools.train.y, 2)


def missing(sources: Sources, seed: int) -> Split:
    """Four fifths of the private functions with a docstring are missing from the training rows."""
    rng = np.random.default_rng(seed)
    table = read_functions(sources)
    affected = (table["documented"] & (table["visibility"] == "private")).to_numpy()
    raw, columns = function_pools(sources, table["documented"].to_numpy(np.int64), ["documented"], rng)
    kept = ~affected[raw.train.rows] | (rng.random(len(raw.train)) < 0.2)
    pools = encode(Pools(raw.train[np.flatnonzero(kept)], raw.trusted, raw.test), columns)
    return make_split(pools, pools.train.y, 2, focus=affected[pools.test.rows])


def rare(sources: Sources, seed: int) -> Split:
    """One function in ten has a ``try`` statement."""
    rng = np.random.default_rng(seed)
    y = (read_functions(sources)["tries"] > 0).to_numpy(np.int64)
    pools = encode(*function_pools(sources, y, ["tries"], rng))
    return make_split(pools, symmetric(pools.train.y, 0.3, 2, rng), 2)


def widest(sources: Sources, seed: int) -> Split:
    """The characters of a function's longest line; mostly short functions are in the training rows."""
    rng = np.random.default_rng(seed)
    y = read_functions(sources)["widest"].to_numpy(float)
    raw, columns = function_pools(sources, y, ["widest"], rng)
    lines = raw.train.x[:, columns.get_loc("lines")].astype(float)
    pools = encode(Pools(keep_low(raw.train, lines, rng), raw.trusted, raw.test), columns)
    return make_split(pools, pools.train.y, None)


ABOUT = "30,000 Python functions, 200 trusted"
TASKS = [
    Task("functions-flipped", "table", f"{ABOUT}: has one a docstring? 40% flipped", flipped, LONG),
    Task("functions-clean", "table", f"{ABOUT}: is one private? Nothing is wrong", clean, LONG),
    Task("functions-missing", "table", f"{ABOUT}: 80% of the private ones with a docstring missing", missing, LONG),
    Task("functions-rare", "table", f"{ABOUT}: does one catch errors? 10% do, 30% flipped", rare, LONG),
    Task(
        "functions-shift",
        "regression",
        f"{ABOUT}: the width of the longest line, mostly short functions",
        widest,
        Length(steps=2500, batch=128),
    ),
]
