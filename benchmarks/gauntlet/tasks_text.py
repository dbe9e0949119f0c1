"""Text: from which installed library is a docstring?"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from benchmarks.gauntlet.corruptions import symmetric
from benchmarks.gauntlet.task import Length, MissingError, Pool, Sources, Split, Task, deal, make_split

LIBRARIES = ("numpy", "scipy", "torch", "sklearn", "matplotlib")
EACH = 1200  # docstrings of each library
SHORTEST = 80  # characters
_NAMES = re.compile(r"\b(numpy|np|scipy|torch|pytorch|sklearn|scikit|matplotlib|mpl|plt|pyplot)\b", re.IGNORECASE)


def docstrings(library: str) -> Iterator[str]:
    """Docstrings of a library's own files, in an order that its files' names determine; nothing is imported."""
    spec = find_spec(library)
    if spec is None or spec.origin is None:
        raise MissingError(f"{library} is not installed")
    folder = Path(spec.origin).parent
    paths = [p for p in folder.rglob("*.py") if not {"tests", "testing", "_internal"} & set(p.parts)]
    for path in sorted(paths, key=lambda p: hashlib.sha256(str(p.relative_to(folder)).encode()).digest()):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                yield ast.get_docstring(node) or ""


def without_names(text: str) -> str:
    """The text without examples and without the libraries' own names, which would give the answer away."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith((">>>", "...")))
    return _NAMES.sub(" ", "\n".join(lines))


@lru_cache(maxsize=1)
def docstring_pool() -> Pool:
    """Hashed bags of words, (6000, 1024)."""
    texts, labels = [], []
    for label, library in enumerate(LIBRARIES):
        own: dict[str, None] = {}
        for text in map(without_names, docstrings(library)):
            if len(text) >= SHORTEST:
                own.setdefault(text)
            if len(own) == EACH:
                break
        texts += own
        labels += [label] * len(own)
    # Two libraries may share a text (a vendored file): such a row has no single right label.
    counts = Counter(texts)
    kept = np.array([counts[text] == 1 for text in texts])
    bags = HashingVectorizer(n_features=1024, alternate_sign=False).transform(texts).toarray()
    return Pool(bags.astype(np.float32)[kept] * 10, np.array(labels)[kept], np.arange(kept.sum()))


def which_library(sources: Sources, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    pools = deal(docstring_pool(), trusted=100, test=1500, rng=rng)
    return make_split(pools, symmetric(pools.train.y, 0.4, len(LIBRARIES), rng), len(LIBRARIES))


TASKS = [
    Task(
        "docstrings",
        "text",
        "docstrings of five libraries, 100 trusted: 40% of the labels wrong",
        which_library,
        Length(1500, 128),
    ),
]
