"""Regressions: diabetes (scikit-learn's) and Adult's hours of work per week."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.datasets import load_diabetes

from benchmarks.gauntlet.corruptions import keep_low, wrong_units
from benchmarks.gauntlet.task import Length, Pools, Sources, Split, Task, make_split
from benchmarks.gauntlet.tasks_tables import LONG, adult_pools, encode, small_pools


def diabetes(shift: str, sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools = small_pools(load_diabetes, 50, 142, rng)
    if shift == "units":
        return make_split(pools, wrong_units(pools.train.y, 0.3, 10, rng), None)
    body_mass_index = pools.train.x[:, load_diabetes().feature_names.index("bmi")]
    train = keep_low(pools.train, body_mass_index, rng)
    return make_split(Pools(train, pools.trusted, pools.test), train.y, None)


def hours(shift: str, sources: Sources, seed: int) -> Split:
    """Hours of work per week of the people in Adult, from all columns but the income."""
    rng = np.random.default_rng(seed)
    raw, columns = adult_pools(sources, "hours", ["income"], rng)
    if shift == "units":
        pools = encode(raw, columns)
        return make_split(pools, wrong_units(pools.train.y, 0.3, 52 / 12, rng), None)
    age = raw.train.x[:, columns.get_loc("age")].astype(float)
    pools = encode(Pools(keep_low(raw.train, age, rng), raw.trusted, raw.test), columns)
    return make_split(pools, pools.train.y, None)


TASKS = [
    Task(
        "diabetes-units",
        "regression",
        "diabetes, 50 trusted: 30% of the targets times 10",
        partial(diabetes, "units"),
        Length(800, 64, splits=3),
    ),
    Task(
        "diabetes-shift",
        "regression",
        "diabetes, 50 trusted: mostly patients of low body mass index",
        partial(diabetes, "shift"),
        Length(800, 64, splits=3),
    ),
    Task(
        "hours-units",
        "regression",
        "Adult's hours per week, 200 trusted: 30% noted per month",
        partial(hours, "units"),
        LONG,
    ),
    Task(
        "hours-shift",
        "regression",
        "Adult's hours per week, 200 trusted: mostly young people",
        partial(hours, "shift"),
        LONG,
    ),
]
