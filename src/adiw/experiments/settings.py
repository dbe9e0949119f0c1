"""The settings of one run: a frozen dataclass, with each data set's defaults from the paper's appendix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any

from adiw.arguments import is_count, is_number, is_positive
from adiw.baselines.qp_solvers import SOLVERS
from adiw.data import DATASETS
from adiw.data.imagefolder import POLICIES


class SettingsError(ValueError):
    """A setting that does not exist or cannot be."""


def unknown(kind: str, name: str, known: Iterable[str]) -> SettingsError:
    """The error for a name that is not in a table: it lists the real ones, the nearest first.

    >>> print(unknown("optimizer", "adm", ["sgd", "adam"]))
    unknown optimizer 'adm': expected one of adam, sgd
    """
    names = list(known)
    near = get_close_matches(str(name), names, n=len(names), cutoff=0)
    return SettingsError(f"unknown {kind} {name!r}: expected one of {', '.join(near)}")


_COUNTS = ("epochs", "batch", "val_batch", "val_every", "decay_every")


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run's numbers. ``None`` means: what the method or the data set chooses.

    Attributes:
        dataset, path, target: which data; folder or file and label column for imagefolder and csv.
        shift: e.g. "symmetric:0.4", see ``adiw.shifts``.
        trusted: how many trusted samples to draw; trusted_file: or a file of their indices; trusted_folder: or a
            folder of trusted images beside the training set, one folder per class.
        selection: hold out this many training samples, true labels, and evaluate on them instead of the test set:
            for choosing settings.
        method: a name in ``adiw.experiments.methods.METHODS``.
        transform: "loss" or "features", for the ADIW methods.
        width, step_size: of the divergence; width may be "auto" (ADIW) or "quantile" (DIW).
        penalty: lambda of ADIW-LS, or kappa of ADIW-WA's critic network; critic: of ADIW-WA, "exact" or "network".
        step: of ADIW-KM, "plain" (the paper's) or "local".
        solver: of DIW's quadratic program: "gpu", "cvxopt" or "osqp".
        exact: z from the paper's separate evaluation-mode pass.
        val_batch, val_refresh, val_every: validation samples matched with a batch, how many of them are evaluated
            anew, and in every how many steps.
        mean_one, cap, min_ess: limits on the weights.
        model: a name in ``adiw.models.MODELS`` or "package.module:factory".
        optimizer, lr, momentum, weight_decay: "sgd" or "adam".
        clip: largest norm of the gradient of a step; None for no bound.
        decay_every, decay: multiply the learning rate by ``decay`` after every ``decay_every`` epochs.
        epochs, batch, seed: the length, the batch size, and the seed of everything random.
        bf16, channels_last: precision (on a GPU) and layout of the network, not of the losses and weights.
    """

    dataset: str = "digits"
    path: str | None = None
    target: str | None = None
    shift: str = "symmetric:0.4"
    trusted: int | None = None
    trusted_file: str | None = None
    trusted_folder: str | None = None
    broken_images: str = "refuse"
    selection: int = 0
    method: str = "adiw-kl"
    transform: str = "loss"
    width: float | str | None = None
    solver: str = "gpu"
    step_size: float | None = None
    penalty: float | None = None
    critic: str | None = None
    step: str | None = None
    exact: bool = False
    val_batch: int = 256
    val_refresh: int | None = None
    val_every: int = 4
    mean_one: bool = False
    cap: float | None = None
    min_ess: float = 0.0
    model: str = "mlp"
    optimizer: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    decay_every: int = 100
    decay: float = 0.1
    epochs: int = 60
    batch: int = 256
    seed: int = 0
    bf16: bool = False
    channels_last: bool = False

    def __post_init__(self) -> None:
        for name, least in (
            ("epochs", 1),
            ("batch", 1),
            ("val_batch", 1),
            ("val_every", 1),
            ("decay_every", 1),
            ("selection", 0),
        ):
            if not is_count(getattr(self, name), least):
                raise SettingsError(f"{name} must be at least {least}, got {getattr(self, name)}")
        for name in ("lr", "decay"):
            if not is_positive(getattr(self, name)):
                raise SettingsError(f"{name} must be a positive number, got {getattr(self, name)}")
        for name in ("momentum", "weight_decay"):
            if not is_number(getattr(self, name), least=0):
                raise SettingsError(f"{name} must be a number from 0 on, got {getattr(self, name)}")
        if self.clip is not None and not is_positive(self.clip):
            raise SettingsError(f"clip must be a positive number, got {self.clip}")
        if not (is_count(self.seed) and self.seed < 2**32):
            raise SettingsError(f"seed must be from 0 to {2**32 - 1}, got {self.seed}")
        tables = (
            ("optimizer", ("sgd", "adam")),
            ("transform", ("loss", "features")),
            ("solver", tuple(SOLVERS)),
            ("critic", ("auto", "exact", "network")),
            ("step", ("plain", "local")),
            ("broken_images", POLICIES),
        )
        for name, known in tables:
            if getattr(self, name) is not None and getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)

    def learning_rate(self, epoch: int) -> float:
        """The rate of an epoch, counted from 0."""
        return self.lr * self.decay ** (epoch // self.decay_every)

    def as_dict(self) -> dict[str, Any]:
        """All settings, but ``broken_images`` only where it was chosen: folders of runs are named after this."""
        found = asdict(self)
        if self.broken_images == "refuse":
            del found["broken_images"]
        return found


# The paper's appendix (Supplementary Experimental Setups); digits, imagefolder and csv are ours.
_ADAM = {
    "optimizer": "adam",
    "lr": 5e-4,
    "epochs": 400,
    "model": "resnet18-cifar",
    "bf16": True,
    "channels_last": True,
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "digits": {"trusted": 100, "momentum": 0.9, "batch": 128},
    "fashion-mnist": {"model": "lenet5", "epochs": 400, "weight_decay": 1e-7},
    "cifar10": {**_ADAM, "weight_decay": 1e-4},
    "cifar100": {**_ADAM, "weight_decay": 5e-4},
    # Users' own data are taken as they are: nothing is flipped unless they ask for it.
    "imagefolder": {**_ADAM, "model": "resnet18", "lr": 2e-4, "epochs": 300, "weight_decay": 1e-5, "shift": "none"},
    "csv": {"optimizer": "adam", "lr": 1e-3, "batch": 128, "shift": "none"},
}


def resolve(given: Mapping[str, Any]) -> Settings:
    """Settings from what was given, the data set's defaults filling the rest; unknown keys are errors.

    >>> resolve({"dataset": "cifar10"}).weight_decay
    0.0001
    >>> resolve({"epoch": 3})
    Traceback (most recent call last):
    adiw.experiments.settings.SettingsError: unknown setting 'epoch': did you mean 'epochs'?
    """
    known = [field.name for field in fields(Settings)]
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, n=1, cutoff=0)
            raise SettingsError(f"unknown setting {key!r}: did you mean {near[0]!r}?")
    dataset = given.get("dataset", "digits")
    if not isinstance(dataset, str) or dataset not in DATASETS:
        raise unknown("dataset", str(dataset), DATASETS)
    sources = [key for key in ("trusted", "trusted_file", "trusted_folder") if given.get(key) is not None]
    if len(sources) > 1:
        raise SettingsError(f"{' and '.join(sources)} both say which samples are trusted: give one of them")
    return Settings(**{**DEFAULTS[dataset], **given})
