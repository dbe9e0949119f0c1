"""Images of Unicode characters in several fonts: to which of ten scripts does one belong?"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from benchmarks.gauntlet.corruptions import confusions
from benchmarks.gauntlet.task import Length, Pool, Pools, Sources, Split, Task, make_split
from benchmarks.gauntlet.tasks_images import SHIFTS, pixels

TRAIN, TRUSTED, TEACHER = 6000, 200, 2000
TEACHER_STEPS = 300  # after fewer, the teacher itself is wrong on more than 35%


@lru_cache(maxsize=1)
def glyph_pool(sources: Sources) -> tuple[Pool, np.ndarray]:
    """All images as bytes, and the character of each."""
    with np.load(sources.exported("glyphs.npz")) as file:
        pool = Pool(file["images"], file["script"], np.arange(len(file["script"])))
        return pool, file["character"]


def load_glyph_pools(sources: Sources, rng: np.random.Generator) -> tuple[Pools, Pool]:
    """The three parts, and images for a teacher. A quarter of the characters is for testing, in all their fonts."""
    pool, character = glyph_pool(sources)
    characters = rng.permutation(np.unique(character))
    is_test = np.isin(character, characters[: len(characters) // 4])
    rest = rng.permutation(np.flatnonzero(~is_test))
    trusted, train, teacher = np.split(rest[: TRUSTED + TRAIN + TEACHER], [TRUSTED, TRUSTED + TRAIN])
    parts = (train, trusted, np.flatnonzero(is_test), teacher)
    train_pool, trusted_pool, test_pool, teacher_pool = (pixels(pool[part]) for part in parts)
    return Pools(train_pool, trusted_pool, test_pool), teacher_pool


def draw(shift: str, sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools, _ = load_glyph_pools(sources, rng)
    return SHIFTS[shift][0](pools, rng)


def instance_dependent(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools, teacher = load_glyph_pools(sources, rng)
    return make_split(pools, confusions(pools.train, teacher, 0.35, 10, rng, TEACHER_STEPS), 10)


ABOUT = "6,000 images of characters of ten scripts, 200 trusted"
LENGTH = Length(steps=2000, batch=128)
TASKS = [
    Task(f"glyphs-{shift}", "image", f"{ABOUT}: {SHIFTS[shift][1]}", partial(draw, shift), LENGTH)
    for shift in ("symmetric", "mix-symmetric")
] + [
    Task(
        "glyphs-instance",
        "image",
        f"{ABOUT}: 35% of the labels drawn wrong from a weak network's predictions",
        instance_dependent,
        LENGTH,
    )
]
