"""The table of methods: how each is built from the settings of a run. All have the signature of ADIW."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from adiw.baselines import DIW, L2R, Fixed, MWNet, Random, Uniform
from adiw.data import ImageFiles, Samples
from adiw.divergences import DIVERGENCES, Divergence, capabilities, describe
from adiw.divergences.registry import find as find_divergence
from adiw.divergences.registry import load_entry_points, parse_settings
from adiw.experiments.model_and_optimizer import feature_layer
from adiw.experiments.settings import Settings, SettingsError, unknown
from adiw.experiments.splits import Splits, with_augmentation
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.indexed_with_trusted import TrustedSamples
from adiw.reweighting.transforms import Features, class_prior_ratio


@dataclass(frozen=True)
class Context:
    """The parts of a run that a method may be built from."""

    settings: Settings
    splits: Splits
    model: nn.Module
    criterion: nn.Module
    optimizer: Optimizer
    generator: Generator
    pretrained_features: Callable[[], tuple[Tensor, Tensor]]  # (training, trusted), for two-step methods
    reading: Mapping[str, int]  # cache_bytes and val_workers of the methods that read trusted samples

    @property
    def basics(self) -> tuple[nn.Module, nn.Module, Any, int]:
        """The first four arguments of every method."""
        return self.model, self.criterion, self.splits.trusted, len(self.splits.train)

    @property
    def validation(self) -> dict[str, Any]:
        """The arguments of every method that evaluates trusted samples."""
        return {"val_batch": self.settings.val_batch, "generator": self.generator, **self.reading}


Builder = Callable[[Context], nn.Module]


@dataclass(frozen=True)
class Method:
    """How to build a method, and which samples it trains on.

    trains_on: the training set ("all"), the trusted samples alone, or both together ("mixed").
    fine_tunes: whether epochs on the trusted samples follow.
    warmup: first epochs, in which all weights are one; none of them is kept as the best.
    """

    build: Builder
    about: str
    trains_on: Literal["all", "trusted", "mixed"] = "all"
    fine_tunes: bool = False
    warmup: int = 0

    def train_set(self, splits: Splits) -> Samples | ImageFiles:
        """The samples that the method trains on, before it fine-tunes."""
        if self.trains_on == "trusted":
            return with_augmentation(splits.trusted)
        return splits.mixed if self.trains_on == "mixed" else splits.train


# The method of a divergence is "adiw-" and its name, or the paper's abbreviation of that.
PREFIX = "adiw-"
PAPER_NAMES = {"mmd": "km", "squared": "ls", "wasserstein": "wa"}
# A divergence's field -> the setting of a run that sets it. A run leaves all other fields at their defaults.
DIVERGENCE_SETTINGS = {
    "width": "width",
    "scale": "width",
    "step_size": "step_size",
    "penalty": "penalty",
    "critic": "critic",
    "step": "step",
}


def method_name(divergence: str) -> str:
    """The method that matches batches by this divergence."""
    return f"{PREFIX}{PAPER_NAMES.get(divergence, divergence)}"


def _adiw(kind: type[Divergence] | None) -> Builder:
    """ADIW with a divergence; or None, its default, which has the trusted samples in the training set."""

    def build(context: Context) -> nn.Module:
        settings, splits = context.settings, context.splits
        if kind is None and settings.transform != "loss":
            raise SettingsError("method adiw compares losses: for features choose a divergence, e.g. adiw-kl")
        if kind is not None and settings.transform not in capabilities(kind).z:
            only = " and ".join(capabilities(kind).z)
            raise SettingsError(f"transform {settings.transform}: {kind.__name__} matches {only} only")
        return ADIW(
            context.model,
            context.criterion,
            TrustedSamples(splits.trusted, splits.trusted_index) if kind is None else splits.trusted,
            len(splits.mixed if kind is None else splits.train),
            None if kind is None else divergence_of(kind, settings),
            transform=_features(context) if settings.transform == "features" else "loss",
            exact=settings.exact,
            cautious=settings.cautious,
            mean_one=settings.mean_one,
            cap=settings.cap,
            min_ess=settings.min_ess,
            val_refresh=settings.val_refresh,
            val_every=settings.val_every,
            **context.validation,
        )

    return build


def divergence_of(kind: type[Divergence], settings: Settings) -> Divergence:
    """The divergence with the settings of the run; a field that the run does not set keeps its default."""
    names = [field.name for field in fields(kind) if field.name in DIVERGENCE_SETTINGS]  # type: ignore[arg-type]
    values = {name: getattr(settings, DIVERGENCE_SETTINGS[name]) for name in names}
    given = parse_settings(kind, settings.set or "")
    for name in given.keys() & {name for name in names if values[name] is not None}:
        raise SettingsError(f"{DIVERGENCE_SETTINGS[name]} and set {name}=... set the same: give only one of them")
    return kind(**{name: value for name, value in values.items() if value is not None} | given)


def _features(context: Context) -> Features:
    """The hidden layer that the network names, matched class by class; the labels give the class-prior ratio."""
    splits = context.splits
    ratio = class_prior_ratio(splits.train.y, splits.trusted.y, splits.data.num_classes)
    return Features(feature_layer(context.model), class_prior=ratio)


def _oracle(context: Context) -> nn.Module:
    weights = context.splits.shifted.true_weights
    if weights is None:
        raise SettingsError("oracle needs the true weights, which are known only for simulated shifts")
    return Fixed(*context.basics, weights=weights)


def _diw(context: Context) -> nn.Module:
    settings = context.settings
    width: Any = 0.01 if settings.width is None else settings.width
    solver: Any = settings.solver
    return DIW(*context.basics, width=width, solver=solver, **context.validation)


def _two_step(name: str) -> Builder:
    def build(context: Context) -> nn.Module:
        from adiw import classic

        train, trusted = context.pretrained_features()
        fit = getattr(classic, name)().fit(train.numpy(), trusted.numpy())
        weights = train.new_tensor(fit.weights_).float()
        return Fixed(*context.basics, weights=weights)

    return build


def _method(kind: type[Divergence]) -> Method:
    return Method(_adiw(kind), f"ADIW: {describe(kind)}", warmup=1)


METHODS: dict[str, Method] = {
    "uniform": Method(lambda c: Uniform(*c.basics), "Every weight is one"),
    "random": Method(
        lambda c: Random(*c.basics, generator=c.generator), "Rectified Gaussian weights, drawn in every step"
    ),
    "val-only": Method(
        lambda c: Uniform(c.model, c.criterion, None, len(c.splits.trusted)),
        "Unweighted training on the trusted samples alone",
        trains_on="trusted",
    ),
    "mixed": Method(
        lambda c: Uniform(c.model, c.criterion, None, len(c.splits.mixed)),
        "Unweighted training on training and trusted samples together",
        trains_on="mixed",
    ),
    "fine-tune": Method(
        lambda c: Uniform(*c.basics),
        "Unweighted training, then epochs on the trusted samples at a tenth of the learning rate",
        fine_tunes=True,
    ),
    "l2r": Method(
        lambda c: L2R(*c.basics, **c.validation),
        "Learning to Reweight (Ren et al. 2018)",
    ),
    "mw-net": Method(
        lambda c: MWNet(*c.basics, optimizer=c.optimizer, **c.validation),
        "Meta-Weight-Net (Shu et al. 2019)",
    ),
    "adiw": Method(
        _adiw(None),
        "ADIW: ranks of all losses, the default; trains on the trusted samples as well",
        trains_on="mixed",
        warmup=1,
    ),
    "diw": Method(_diw, "Dynamic importance weighting (Fang et al. 2020)", warmup=1),
    **{method_name(name): _method(kind) for name, kind in DIVERGENCES.items()},
    "oracle": Method(_oracle, "The true weights of a simulated shift"),
    **{
        f"two-step-{name.lower()}": Method(_two_step(name), f"Classic {name} on pretrained features, then training")
        for name in ("KMM", "KLIEP", "LSIF")
    },
}


def all_methods() -> dict[str, Method]:
    """``METHODS``, and the method of each divergence that users and installed packages have registered since."""
    load_entry_points()
    divergences = {method_name(name): kind for name, kind in DIVERGENCES.items()}
    return METHODS | {name: _method(kind) for name, kind in divergences.items() if name not in METHODS}


def divergence_of_method(name: str) -> type[Divergence] | None:
    """The divergence of a method "adiw-..."; None for other and unknown methods."""
    if not name.startswith(PREFIX):
        return None
    if ":" in name:
        return find_divergence(name.removeprefix(PREFIX))
    load_entry_points()
    return {method_name(divergence): kind for divergence, kind in DIVERGENCES.items()}.get(name)


def find(name: str) -> Method:
    """The method of that name, or of "adiw-" and a user's ``package.module:Class``.

    An unknown name raises an error that lists the known ones, nearest first.
    """
    if name in METHODS:
        return METHODS[name]
    kind = divergence_of_method(name)
    if kind is None:
        raise unknown("method", name, all_methods())
    return _method(kind)
