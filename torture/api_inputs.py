"""Bad arguments for every public name: valid arguments of a small call, of which one or two are replaced."""

from __future__ import annotations

import dataclasses
import gzip
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import adiw
from adiw import baselines, classic, projections
from adiw.data import DATASETS, ImageFiles, Samples, load
from adiw.data.cifar_pickle import read_pickle
from adiw.data.idx import read_idx
from adiw.experiments import recipes
from adiw.experiments.settings import Settings, resolve
from adiw.integrations.sklearn import ReweightedClassifier
from adiw.integrations.trackers import open_tracker
from adiw.integrations.training_set import count_samples
from adiw.shifts import SHIFTS, parse, read_indices
from torture import values
from torture.verdict import anything, finite, weights

Make = Callable[[Random], Any]
N, CLASSES, TRAIN = 4, 3, 10


@dataclass(frozen=True)
class Entry:
    """A call, its valid arguments, and for each what may be tried in its place."""

    name: str
    call: Callable[..., Any]
    good: Callable[[], dict[str, Any]]
    bad: dict[str, Make]
    defined: Callable[[Any], str | None] = finite
    share: float = field(default=1.0, compare=False)  # how often it is tried, of the others' once

    def change(self, random: Random) -> dict[str, Any]:
        """What to give in place of one or two of the good arguments."""
        names = random.sample(list(self.bad), min(len(self.bad), random.choice((1, 1, 2))))
        return {name: self.bad[name](random) for name in names}


def pick(pool: tuple[Any, ...]) -> Make:
    return lambda random: random.choice(pool)


NUMBER, COUNT, NAME, THING = pick(values.NUMBERS), pick(values.COUNTS), pick(values.NAMES), pick(values.ANYTHING)


def of_default(default: Any) -> Make:
    """What may be tried in the place of an argument with this default."""
    if isinstance(default, bool):
        return THING
    if isinstance(default, int):
        return COUNT
    return NUMBER if isinstance(default, float) or default is None else pick((*values.NUMBERS, *values.NAMES))


def batch() -> dict[str, Any]:
    """A training step's arguments."""
    x = torch.linspace(-1, 1, N * 2).reshape(N, 2)
    targets, index = torch.tensor([0, 1, 2, 0]), torch.tensor([5, 7, 3, 9])
    return {"outputs": network()(x), "targets": targets, "index": index, "inputs": x}


class Network(nn.Linear):
    """The user's own, too."""

    def forward(self, x: Any) -> Any:
        return super().forward(x)


def network() -> nn.Module:
    torch.manual_seed(0)
    return Network(2, CLASSES)


def criterion(outputs: Any, targets: Any) -> Any:
    """The user's own: what it raises is not ours."""
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def trusted() -> TensorDataset:
    return TensorDataset(torch.linspace(-1, 1, 12).reshape(6, 2), torch.tensor([0, 1, 2, 0, 1, 2]))


def method_arguments() -> dict[str, Any]:
    return {"model": network(), "criterion": criterion, "val_set": trusted(), "num_train": TRAIN}


SETS: tuple[Any, ...] = (*values.ANYTHING, 3, [], [1, 2], [(torch.zeros(2), 1)], range(3), iter([1]), torch.zeros(3))
GENERATORS: tuple[Any, ...] = (0, 3.5, *values.ANYTHING)
METHOD_BAD: dict[str, Make] = {
    "model": THING,
    "criterion": pick((*values.ANYTHING, nn.CrossEntropyLoss(), lambda outputs, targets: outputs)),
    "val_set": pick(SETS),
    "num_train": COUNT,
    "forward": pick((*values.ANYTHING, lambda model, batch: None, lambda model, batch: (1, 2))),
    "val_batch": COUNT,
    "generator": pick(GENERATORS),
}
STEP_BAD: dict[str, Make] = {
    "outputs": lambda random: values.tensor(random, torch.rand(N, CLASSES)),
    "targets": lambda random: values.tensor(random),
    "index": lambda random: values.index(random, N, TRAIN),
    "inputs": lambda random: values.tensor(random, torch.rand(N, 2)),
}


def build_and_step(method: Callable[..., Any], **given: Any) -> Any:
    """Make a method, take one step of a good batch, and look at the weights."""
    made = method(**given)
    loss = made(**batch())
    return [loss, made.weights, made.state_dict() and 0.0]


def step(method: Callable[..., Any], more: dict[str, Any], **given: Any) -> Any:
    """A bad step between two good ones: it must not spoil them."""
    made = method(**method_arguments(), **more)
    made(**batch())
    try:
        made(**given)
    finally:
        after = [made(**batch()), made.weights]
    return after


def methods() -> list[Entry]:
    extra: dict[str, tuple[dict[str, Any], dict[str, Make]]] = {
        "Uniform": ({}, {}),
        "Random": ({}, {}),
        "Fixed": ({"weights": torch.ones(TRAIN)}, {"weights": lambda r: values.tensor(r, torch.ones(TRAIN))}),
        "L2R": ({}, {}),
        "MWNet": ({"learning_rate": 0.1}, {"learning_rate": NUMBER, "optimizer": THING}),
        "DIW": ({}, {"width": NUMBER, "solver": NAME, "reduction": NAME, "warmup_steps": COUNT}),
    }
    table = {name: (getattr(baselines, name), *extra[name]) for name in extra}
    options: dict[str, Make] = {
        "divergence": pick((*values.NAMES, *adiw.DIVERGENCES, *adiw.DIVERGENCES.values())),
        "transform": pick((*values.ANYTHING, "features", adiw.Features("nowhere"), adiw.Features(), adiw.Features)),
        "steps": COUNT,
        "warmup_steps": COUNT,
        "exact": THING,
        "mean_one": THING,
        "cap": NUMBER,
        "min_ess": NUMBER,
        "val_refresh": COUNT,
        "val_every": COUNT,
        "cache_bytes": COUNT,
    }
    table["ADIW"] = (adiw.ADIW, {"warmup_steps": 0}, options)
    entries = []
    for name, (method, more, bad) in table.items():
        good = partial(lambda more: method_arguments() | more, more)
        entries.append(Entry(name, partial(build_and_step, method), good, METHOD_BAD | bad, weights, 2.0))
        entries.append(Entry(f"a step of {name}", partial(step, method, more), batch, STEP_BAD, weights))
    for divergence in adiw.DIVERGENCES:
        more = {"divergence": divergence, "warmup_steps": 0}
        call = partial(step, adiw.ADIW, more)
        entries.append(Entry(f"a step of ADIW, {divergence}", call, batch, STEP_BAD, weights))
    entries.append(Entry("load_state_dict", load_state, lambda: {"state": {}}, {"state": states}, anything))
    return entries


def states(random: Random) -> Any:
    """The state of a method with something missing, added, of another shape or of another kind."""
    state = dict(adiw.ADIW(**method_arguments()).state_dict())
    key = random.choice(list(state))
    kind = random.randrange(5)
    if kind == 0:
        return random.choice((*values.ANYTHING, 3))
    if kind == 1:
        del state[key]
    elif kind == 2:
        state["surprise"] = torch.ones(2)
    else:
        state[key] = values.tensor(random) if kind == 3 else random.choice(values.ANYTHING)
    return state


def load_state(state: Any) -> Any:
    made = adiw.ADIW(**method_arguments())
    made.load_state_dict(state)
    return [made(**batch()), made.weights]


def tensors() -> list[Entry]:
    """Functions of tensors."""
    z = torch.tensor([0.1, 0.3, 2.0, 0.2])
    like = partial(lambda z, random: values.tensor(random, z), z)
    entries = [
        Entry(
            f"estimate_weights, {name}",
            lambda **given: adiw.estimate_weights(**given)[0],
            partial(lambda name: {"z_train": z, "z_val": z[:3], "divergence": name}, name),
            {
                "z_train": like,
                "z_val": like,
                "divergence": pick((*values.NAMES, *adiw.DIVERGENCES.values())),
                "steps": COUNT,
                "state": lambda random: random.choice((adiw.State(values.tensor(random, z)), *values.ANYTHING)),
                "generator": pick(GENERATORS),
            },
            weights,
        )
        for name in adiw.DIVERGENCES
    ]
    ones = torch.ones(4)
    for name, more in {
        "non_negative": {},
        "box": {"upper": 2.0},
        "box_mean_band": {"upper": 2.0, "low": 0.5, "high": 1.5},
        "simplex": {"total": 1.0},
        "weighted_simplex": {"a": ones, "total": 1.0},
        "clamp_rescale": {"a": ones},
    }.items():
        bad: dict[str, Make] = {key: NUMBER for key in more if key != "a"}
        call = partial(projected, getattr(projections, name))
        bad |= {"v": like} | ({"a": partial(lambda o, random: values.tensor(random, o), ones)} if "a" in more else {})
        good = partial(lambda more: {"v": z} | more, more)
        entries.append(Entry(name, call, good, bad, weights))
    labels = torch.tensor([0, 1, 1])
    entries.append(
        Entry(
            "class_prior_ratio",
            adiw.class_prior_ratio,
            lambda: {"train_labels": labels, "test_labels": labels, "num_classes": 2},
            {"train_labels": values.tensor, "test_labels": values.tensor, "num_classes": COUNT},
            weights,
        )
    )
    limits = {"mean_one": True, "cap": 3.0, "min_ess": 0.3, "weights": z}
    bad = {"mean_one": THING, "cap": NUMBER, "min_ess": NUMBER, "weights": like}
    apply = lambda weights, **given: adiw.Limits(**given).apply(weights)  # noqa: E731
    entries.append(Entry("Limits", apply, lambda: dict(limits), bad, anything))
    return entries


def projected(project: Callable[..., torch.Tensor], **given: Any) -> Any:
    """The projection; of numbers that are not finite, or of negative coefficients, whatever it is."""
    found = project(**given)
    sound = [bool(value.isfinite().all()) for value in given.values() if isinstance(value, torch.Tensor)]
    return found if all(sound) and bool((given.get("a", found) >= 0).all()) else None


def settings() -> list[Entry]:
    """Constructors and tables of settings."""
    entries = []
    for name, divergence in adiw.DIVERGENCES.items():
        fields = dataclasses.fields(divergence)  # type: ignore[arg-type]
        bad = {one.name: of_default(one.default) for one in fields}
        entries.append(Entry(f"divergence {name}", divergence, dict, bad, anything))
    ratios = lambda random: values.tensor(random, torch.ones(3))  # noqa: E731
    features: dict[str, Make] = {
        "layer": pick((*values.NAMES, nn.Linear(2, 2))),
        "class_prior": ratios,
        "num_classes": COUNT,
    }
    entries.append(Entry("Features", adiw.Features, dict, features, anything))
    entries.append(
        Entry(
            "Indexed",
            lambda dataset: len(adiw.Indexed(dataset)) and adiw.Indexed(dataset)[0],
            lambda: {"dataset": [(1, 2)]},
            {"dataset": pick(SETS)},
            anything,
        )
    )
    known = {one.name: of_default(one.default) for one in dataclasses.fields(Settings)}
    known |= {name: pick((*values.NUMBERS, *values.NAMES)) for name in ("width", "epoch", "method", "shift")}
    entries.append(Entry("settings of a run", lambda **given: resolve(given), dict, known, anything, 3.0))
    specs = lambda random: spec(random)  # noqa: E731
    entries.append(
        Entry(
            "a shift",
            shifted,
            lambda: {"spec": "symmetric:0.4"},
            {"spec": specs, "y": values.tensor, "num_classes": COUNT, "trusted": COUNT},
            anything,
            2.0,
        )
    )
    entries.append(
        Entry("count_samples", count_samples, lambda: {"dataset": [1]}, {"dataset": pick(SETS)}, anything, 0.3)
    )
    entries.append(
        Entry("open_tracker", tracker, lambda: {"name": "csv"}, {"name": pick(values.NAMES)}, anything, 0.3)
    )
    return entries


def tracker(name: Any) -> Any:
    return open_tracker(name, Path("nowhere"), {})


def spec(random: Random) -> Any:
    if random.random() < 0.2:
        return random.choice(values.NAMES)
    numbers = ",".join(
        str(random.choice((0.4, -1, 2, "nan", "inf", "", "x", 1e300))) for _ in range(random.randrange(3))
    )
    return f"{random.choice((*SHIFTS, 'pear', ''))}:{numbers}"


def shifted(spec: Any, y: Any = None, num_classes: Any = 3, trusted: Any = 6) -> Any:
    labels = torch.arange(30) % 3 if y is None else y
    x = torch.rand(len(labels), 2) if isinstance(labels, torch.Tensor) and labels.ndim else None
    return parse(spec).apply(x, labels, num_classes, trusted, torch.Generator().manual_seed(0))


def arrays() -> list[Entry]:
    """Estimators in scikit-learn's form."""
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(12, 2)), rng.normal(size=(6, 2))
    labels = np.arange(12) % 3
    rows = partial(lambda good, random: values.array(random, good), train)
    entries = []
    for name in ("KMM", "KLIEP", "LSIF", "ULSIF"):
        estimator = getattr(classic, name)
        options = estimator().get_params()
        bad = {key: of_default(value) for key, value in options.items()}
        bad |= {"X_train": rows, "X_test": rows, "X": rows}
        good = lambda: {"X_train": train, "X_test": test, "X": test}  # noqa: E731
        entries.append(Entry(name, partial(fit_ratio, estimator), good, bad, weights, 2.0))
    y = lambda random: values.array(random, labels)  # noqa: E731
    bad = {"X": rows, "y": y, "X_val": rows, "y_val": y, "epochs": COUNT, "batch_size": COUNT, "lr": NUMBER}
    bad |= {"divergence": NAME, "cap": NUMBER, "min_ess": NUMBER, "random_state": COUNT, "weight_decay": NUMBER}
    good = lambda: {"X": train, "y": labels, "X_val": test, "y_val": labels[:6], "epochs": 1}  # noqa: E731
    entries.append(Entry("ReweightedClassifier", classify, good, bad, anything))
    return entries


def fit_ratio(estimator: Any, X_train: Any, X_test: Any, X: Any, **given: Any) -> Any:
    fitted = estimator(**given).fit(X_train, X_test=X_test)
    return [fitted.weights_, fitted.predict(X)]


def classify(X: Any, y: Any, X_val: Any, y_val: Any, **given: Any) -> Any:
    fitted = ReweightedClassifier(**given).fit(X, y, X_val=X_val, y_val=y_val)
    return fitted.predict_proba(X)


@cache
def files(work: Path) -> dict[str, bytes]:
    """The content of a good file of each kind."""
    pixels = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    idx = bytes([0, 0, 8, 3]) + struct.pack(">3I", *pixels.shape) + pixels.tobytes()
    images = np.zeros((2, 3072), np.uint8)
    toml = (Path(recipes.__file__).parent / "recipe_files" / "val-size.toml").read_bytes()
    return {
        "a.idx": idx,
        "a.idx.gz": gzip.compress(idx),
        "batch": pickle.dumps({b"data": images, b"labels": [1, 2]}, protocol=2),
        "rows.csv": b"a,b,label\n" + b"1,2.5,x\n2,0.5,y\n3,1.5,x\n4,0.25,y\n" * 3,
        "trusted.txt": b"0\n3\n5\n",
        "recipe.toml": toml,
    }


def readers(work: Path) -> list[Entry]:
    """Files that are not what they should be, and paths that lead nowhere."""
    read: dict[str, Callable[[Path], Any]] = {
        "a.idx": lambda path: read_idx(path, 3),
        "a.idx.gz": lambda path: read_idx(path, 3),
        "batch": lambda path: read_pickle(path.read_bytes(), path, b"labels"),
        "rows.csv": lambda path: load("csv", path=path, target="label").train.x,
        "trusted.txt": read_indices,
        "recipe.toml": recipes.load_file,
    }
    entries = []
    for name, good in files(work).items():
        payload = partial(lambda good, random: values.content(random, good), good)
        call = partial(read_file, work / name, read[name])
        entries.append(Entry(f"file {name}", call, partial(dict, payload=good), {"payload": payload}, anything))
    paths = (work / "nowhere", work, "", "\0", "x" * 5000, Path("/dev/null"), 3, 2.5, *values.ANYTHING)
    bad: dict[str, Make] = {"name": pick((*values.NAMES, *DATASETS)), "root": pick(paths), "path": pick(paths)}
    bad |= {"target": NAME, "size": COUNT, "seed": COUNT}
    entries.append(Entry("data.load", load, lambda: {"name": "csv"}, bad, anything))
    x, y = torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])
    samples: dict[str, Make] = {"x": values.tensor, "y": values.tensor, "index": values.tensor}
    good = lambda: {"x": x, "y": y, "index": torch.tensor([1])}  # noqa: E731
    entries.append(Entry("Samples", some_samples, good, samples, anything))
    images: dict[str, Make] = {"paths": pick((*SETS, ("a.png",))), "y": values.tensor, "size": COUNT}
    entries.append(
        Entry("ImageFiles", ImageFiles, lambda: {"paths": (Path("a"),), "y": y[:1]}, images, anything, 0.5)
    )
    return entries


def read_file(path: Path, read: Callable[[Path], Any], payload: bytes) -> Any:
    path.write_bytes(payload)
    return read(path)


def some_samples(x: Any, y: Any, index: Any) -> Any:
    made = Samples(x, y)
    return made.subset(index, made.y[: len(index)] if isinstance(index, torch.Tensor) and index.ndim else made.y)


def entries(work: Path) -> list[Entry]:
    """Everything that is tried."""
    return [*methods(), *tensors(), *settings(), *arrays(), *readers(work)]
