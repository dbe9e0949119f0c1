"""The settings of a run, with their help texts and rules, and the defaults of each data set."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from typing import Any

from adiw.argument_checks import is_count, is_number, is_positive
from adiw.baselines.qp_solvers import SOLVERS
from adiw.data import DATASETS
from adiw.data.imagefolder import POLICIES


class SettingsError(ValueError):
    """A setting that does not exist, or has a value that is not allowed."""


def unknown(kind: str, name: str, known: Iterable[str]) -> SettingsError:
    """The error for a name that is not in a table; it lists the known names, the nearest first."""
    names = list(known)
    near = get_close_matches(str(name), names, n=len(names), cutoff=0)
    return SettingsError(f"unknown {kind} {name!r}: expected one of {', '.join(near)}")


Rule = tuple[Callable[[Any], bool], str]  # (whether a value is allowed, the expected values in words)


def _count(least: int) -> Rule:
    return partial(is_count, least=least), f"at least {least}"


_POSITIVE: Rule = is_positive, "a positive number"
_NOT_NEGATIVE: Rule = partial(is_number, least=0), "a number of at least 0"
_SEED: Rule = lambda value: is_count(value) and value < 2**32, f"from 0 to {2**32 - 1}"
_SHARE: Rule = lambda value: is_number(value, least=0) and value < 1, "at least 0 and below 1"


def _is_fold(value: Any) -> bool:
    match = re.fullmatch(r"(\d+)/(\d+)", value) if isinstance(value, str) else None
    return match is not None and 1 <= int(match[1]) <= int(match[2]) and int(match[2]) >= 2


_FOLD: Rule = _is_fold, "a part and the number of parts, such as 2/5"


def _setting(
    default: Any,
    text: str,
    group: str,
    rule: Rule | None = None,
    choices: Collection[str] = (),
    unset: str | None = None,
    recorded: bool = True,
    many: bool = False,
) -> Any:
    """A field of ``Settings``.

    Args:
        text: the help of its option.
        group: the heading that the help shows it under.
        rule, choices: which values are allowed, besides None where that is the default.
        unset: the default in words, where the value itself does not say it.
        recorded: whether records have the default too. False for fields that older records lack: the digests of their
            settings then stay the same.
        many: whether its option may be repeated; the values are joined by commas.
    """
    about: dict[str, Any] = {"text": text, "group": group, "rule": rule, "choices": choices, "unset": unset}
    return field(default=default, metadata={**about, "recorded": recorded, "many": many})


# The length of a run on the user's own data, whose size is not known here. 2,500 steps suffice for the tables of the
# gauntlet; images need more. At least five epochs: the weights are one in the first. At most 200: each is evaluated,
# and a small set is memorised long before.
DEFAULT_STEPS = {"csv": 2500, "imagefolder": 10_000}
LEAST_EPOCHS, MOST_EPOCHS = 5, 200
HOLD_OUT = 0.3  # of ``adiw run``; recipes and Python code state it. Chosen in paper/recipes/digits-hold-out.toml

_data, _method, _training = (partial(_setting, group=name) for name in ("Data", "Method", "Training"))
_OF_METHOD = "the method's"


@dataclass(frozen=True)
class Settings:
    """Everything that decides the numbers of a run. The options of ``adiw run`` are made from these fields."""

    dataset: str = _data("digits", "Data set, see 'adiw list'")
    path: str | None = _data(None, "File or folder of the data, for csv and imagefolder")
    target: str | None = _data(None, "Label column, for csv", unset="the last column")
    group: str | None = _data(
        None, "Column whose values are groups to report on separately, for csv", unset="none", recorded=False
    )
    shift: str = _data("symmetric:0.4", "Simulated shift, see 'adiw list'; none keeps the data as loaded")
    trusted: int | None = _data(
        None, "Number of trusted samples to draw", unset="1000, or 10 of each class for class-prior"
    )
    trusted_file: str | None = _data(
        None,
        "File with the positions of the trusted samples, from 0: in the training set, or in a table of one file. For "
        "csv also a table of trusted rows, with the columns of the training rows",
    )
    trusted_folder: str | None = _data(None, "Folder of trusted images, one folder per class, for imagefolder")
    broken_images: str = _data(
        "refuse",
        "Images that cannot be decoded: refuse (an error) or skip (a warning)",
        choices=POLICIES,
        recorded=False,
    )
    image_size: int = _data(
        224, "Side in pixels that images are scaled to, for imagefolder", rule=_count(8), recorded=False
    )
    hold_out: float = _data(
        0.0,
        "Share of the trusted samples that is held out to find the best epoch, whose network and figures are kept "
        "(never that of ADIW's warm-up, in which all weights are one); 0 keeps the last epoch",
        rule=_SHARE,
        unset=f"{HOLD_OUT}, in recipes 0",
        recorded=False,
    )
    fold: str | None = _data(
        None,
        "Hold out this part of the trusted samples instead of a share: 2/5 is the second of five parts",
        rule=_FOLD,
        unset="none",
        recorded=False,
    )
    selection: int = _data(
        0, "Hold out this many training samples and test on them instead of the test set", rule=_count(0)
    )
    method: str = _method("adiw", "Method, see 'adiw list'")
    transform: str = _method(
        "loss", "What ADIW matches: the losses (loss) or a hidden layer (features)", choices=("loss", "features")
    )
    width: float | str | None = _method(
        None, "Kernel width: a number, auto (ADIW) or quantile (DIW)", unset=_OF_METHOD
    )
    solver: str = _method("gpu", "Solver of DIW's quadratic program: gpu, cvxopt or osqp", choices=tuple(SOLVERS))
    step_size: float | None = _method(None, "Step size of the weight estimation", unset=_OF_METHOD)
    penalty: float | None = _method(
        None, "Penalty of ADIW-LS (lambda) or of ADIW-WA's critic network (kappa)", unset=_OF_METHOD
    )
    critic: str | None = _method(
        None, "Critic of ADIW-WA: auto, exact or network", choices=("auto", "exact", "network"), unset="auto"
    )
    step: str | None = _method(
        None, "Step of ADIW-KM: plain (the paper's) or local", choices=("plain", "local"), unset="local"
    )
    set: str | None = _method(
        None,
        "Settings of ADIW's divergence, as key=value; repeatable",
        unset="the divergence's",
        recorded=False,
        many=True,
    )
    cautious: bool = _method(
        False,
        "Change the weights only as far as there is evidence that trusted losses are smaller; not in the paper",
        unset="--cautious, in recipes --no-cautious",
        recorded=False,
    )
    exact: bool = _method(False, "Match losses or features of a separate evaluation-mode pass, as in the paper")
    val_batch: int = _method(256, "Trusted samples that are matched with each training batch", rule=_count(1))
    val_refresh: int | None = _method(None, "Trusted samples of this batch that are evaluated at a time", unset="all")
    val_every: int = _method(4, "Steps from one evaluation of trusted samples to the next", rule=_count(1))
    mean_one: bool = _method(False, "Keep the mean weight of a batch at one")
    cap: float | None = _method(None, "Largest weight", unset="no limit")
    min_ess: float = _method(0.0, "Smallest effective sample size, as a fraction of the batch")
    fine_tune_epochs: int = _method(
        20, "Epochs on the trusted samples after training, for fine-tune", rule=_count(1), recorded=False
    )
    model: str = _training("mlp", "Network, see 'adiw list', or package.module:factory")
    optimizer: str = _training("sgd", "sgd or adam", choices=("sgd", "adam"))
    lr: float = _training(0.1, "Learning rate", rule=_POSITIVE)
    momentum: float = _training(0.0, "Momentum, for sgd", rule=_NOT_NEGATIVE)
    weight_decay: float = _training(0.0, "Weight decay", rule=_NOT_NEGATIVE)
    clip: float | None = _training(
        None, "Largest norm of the gradient; larger gradients are scaled down", rule=_POSITIVE, unset="no limit"
    )
    decay_every: int = _training(100, "Epochs between decays of the learning rate", rule=_count(1))
    decay: float = _training(0.1, "Factor of each decay of the learning rate", rule=_POSITIVE)
    epochs: int | None = _training(None, "Epochs to train", rule=_count(1), unset="as many as --steps needs")
    steps: int | None = _training(
        None,
        "Steps to train, rounded up to whole epochs; instead of --epochs",
        rule=_count(1),
        unset=f"{', '.join(f'{n} for {name}' for name, n in DEFAULT_STEPS.items())}, "
        f"but {LEAST_EPOCHS} to {MOST_EPOCHS} epochs",
        recorded=False,
    )
    augment: bool = _training(
        True, "Random crops and flips of training images, for imagefolder and CIFAR", recorded=False
    )
    batch: int = _training(256, "Batch size", rule=_count(1))
    seed: int = _training(0, "Seed of all random numbers", rule=_SEED)
    bf16: bool = _training(False, "On a GPU, run the forward pass in bfloat16; losses and weights stay in float32")
    channels_last: bool = _training(False, "Use PyTorch's channels-last memory format for images")

    def __post_init__(self) -> None:
        for about in fields(self):
            value, rule, choices = getattr(self, about.name), about.metadata["rule"], about.metadata["choices"]
            if value is None and about.default is None:
                continue
            if choices and value not in choices:
                raise unknown(about.name, value, choices)
            if rule is not None and not rule[0](value):
                raise SettingsError(f"{about.name} must be {rule[1]}, got {value}")
        if self.epochs is not None and self.steps is not None:
            raise SettingsError("epochs and steps both set the length of the training: give only one of them")

    def train_epochs(self, samples: int) -> int:
        """The number of epochs on this many training samples: as given, or as many as the steps need.

        >>> table = resolve({"dataset": "csv"})
        >>> table.train_epochs(samples=32_000), table.train_epochs(samples=500), resolve({}).train_epochs(500)
        (10, 200, 60)
        """
        if self.epochs is not None:
            return self.epochs
        steps_per_epoch = max(1, samples // self.batch)
        if self.steps is not None:
            return math.ceil(self.steps / steps_per_epoch)
        steps = DEFAULT_STEPS.get(self.dataset, min(DEFAULT_STEPS.values()))
        return min(max(math.ceil(steps / steps_per_epoch), LEAST_EPOCHS), MOST_EPOCHS)

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values, without the defaults in ``UNRECORDED``."""
        return {name: value for name, value in asdict(self).items() if UNRECORDED.get(name, _NEVER) != value}


_NEVER = object()
UNRECORDED = {about.name: about.default for about in fields(Settings) if not about.metadata["recorded"]}
"""Fields that records lack if they have this default."""

# From the paper's appendix (Supplementary Experimental Setups), except digits, imagefolder and csv.
_ADAM = {"optimizer": "adam", "bf16": True, "channels_last": True}
_CIFAR = {**_ADAM, "model": "resnet18-cifar", "lr": 5e-4, "epochs": 400}
DEFAULTS: dict[str, dict[str, Any]] = {
    "digits": {"trusted": 100, "momentum": 0.9, "batch": 128, "epochs": 60},
    "fashion-mnist": {"model": "lenet5", "epochs": 400, "weight_decay": 1e-7},
    "cifar10": {**_CIFAR, "weight_decay": 1e-4},
    "cifar100": {**_CIFAR, "weight_decay": 5e-4},
    # Users' own data: no label is flipped by default.
    "imagefolder": {**_ADAM, "model": "resnet18", "lr": 2e-4, "weight_decay": 1e-5, "shift": "none"},
    "csv": {"optimizer": "adam", "lr": 1e-3, "batch": 128, "shift": "none"},
}


def resolve(given: Mapping[str, Any]) -> Settings:
    """The given settings, completed by the defaults of the data set; unknown keys are errors.

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
        raise SettingsError(f"{' and '.join(sources)} both select the trusted samples: give only one of them")
    settings = Settings(**override(DEFAULTS[dataset], given))
    if settings.set is not None and not settings.method.startswith("adiw-"):
        raise SettingsError(
            f"set is for the divergence of an adiw- method, and method is {settings.method}: remove it"
        )
    return settings


def override(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the ``given`` settings. A length in steps replaces one in epochs, and the reverse.

    >>> override({"epochs": 60, "lr": 0.1}, {"steps": 500})
    {'lr': 0.1, 'steps': 500}
    """
    replaced = [other for key, other in (("epochs", "steps"), ("steps", "epochs")) if given.get(key) is not None]
    return {**{key: value for key, value in base.items() if key not in replaced}, **given}


def default_text(name: str) -> str | None:
    """The default of a setting in words, with the data sets that have another; None without a default.

    >>> default_text("lr")
    '0.1; 0.0005 for cifar10, cifar100; 0.0002 for imagefolder; 0.001 for csv'
    """
    about = Settings.__dataclass_fields__[name]
    text = about.metadata["unset"] or (None if about.default is None else _in_words(about.default))
    others: dict[str, list[str]] = {}
    for dataset, given in DEFAULTS.items():
        if name in given and given[name] != about.default:
            others.setdefault(_in_words(given[name]), []).append(dataset)
    parts = [text] if text else []
    return "; ".join([*parts, *(f"{value} for {', '.join(names)}" for value, names in others.items())]) or None


def _in_words(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
