"""The table of methods: what each is made from. All are called the same way by one training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from adiw.baselines import DIW, L2R, Fixed, MWNet, Random, Uniform
from adiw.divergences import KL, MMD, Divergence, Squared, Wasserstein
from adiw.experiments.settings import Settings, SettingsError, unknown
from adiw.experiments.task import Task
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.transforms import Features, class_prior_ratio


@dataclass(frozen=True)
class Context:
    """What a method may need of the run that it is made for."""

    settings: Settings
    task: Task
    model: nn.Module
    criterion: nn.Module
    optimizer: Optimizer
    generator: Generator
    pretrained_features: Callable[[], tuple[Tensor, Tensor]]  # of a network trained first: training, trusted
    reading: Mapping[str, int]  # cache_bytes and val_workers of the methods that read trusted samples

    @property
    def basics(self) -> tuple[nn.Module, nn.Module, Any, int]:
        """The first four arguments of every method."""
        return self.model, self.criterion, self.task.trusted, len(self.task.train)

    @property
    def probing(self) -> dict[str, Any]:
        """The arguments of every method that looks at trusted samples."""
        return {"val_batch": self.settings.val_batch, "generator": self.generator, **self.reading}


Builder = Callable[[Context], nn.Module]


@dataclass(frozen=True)
class Method:
    """How to make a method, and which samples it trains on."""

    build: Builder
    about: str
    trains_on: Literal["all", "trusted"] = "all"


def _adiw(make: Callable[[Settings], Divergence]) -> Builder:
    def build(context: Context) -> nn.Module:
        settings = context.settings
        return ADIW(
            *context.basics,
            make(settings),
            transform=_features(context) if settings.transform == "features" else "loss",
            exact=settings.exact,
            mean_one=settings.mean_one,
            cap=settings.cap,
            min_ess=settings.min_ess,
            val_refresh=settings.val_refresh,
            val_every=settings.val_every,
            **context.probing,
        )

    return build


def _features(context: Context) -> Features:
    """The hidden layer that the network names, class by class, with the class-prior ratio from the labels."""
    layer = getattr(context.model.network, "feature_layer", None)
    if not isinstance(layer, str):
        raise SettingsError("transform features needs a network that names its hidden layer in feature_layer")
    task = context.task
    ratio = class_prior_ratio(task.train.y, task.trusted.y, task.data.num_classes)
    return Features(f"network.{layer}", class_prior=ratio)


def _given(settings: Settings, *more: str, width: str = "width") -> dict[str, Any]:
    """The divergence's settings that were given; the others keep the divergence's defaults."""
    options = {width: settings.width, **{name: getattr(settings, name) for name in ("step_size", *more)}}
    return {key: value for key, value in options.items() if value is not None}


def _wasserstein(settings: Settings) -> Wasserstein:
    return Wasserstein(**_given(settings, "penalty", "critic", width="scale"))


def _oracle(context: Context) -> nn.Module:
    weights = context.task.shifted.true_weights
    if weights is None:
        raise SettingsError("oracle needs the true weights, which are known for simulated shifts only")
    return Fixed(*context.basics, weights=weights)


def _diw(context: Context) -> nn.Module:
    settings = context.settings
    width: Any = 0.01 if settings.width is None else settings.width
    solver: Any = settings.solver
    return DIW(*context.basics, width=width, solver=solver, **context.probing)


def _two_step(name: str) -> Builder:
    def build(context: Context) -> nn.Module:
        from adiw import classic

        train, trusted = context.pretrained_features()
        fit = getattr(classic, name)().fit(train.numpy(), trusted.numpy())
        weights = train.new_tensor(fit.weights_).float()
        return Fixed(*context.basics, weights=weights)

    return build


METHODS: dict[str, Method] = {
    "uniform": Method(lambda c: Uniform(*c.basics), "weights of one"),
    "random": Method(lambda c: Random(*c.basics, generator=c.generator), "rectified Gaussian weights"),
    "val-only": Method(
        lambda c: Uniform(c.model, c.criterion, None, len(c.task.trusted)),
        "trusted samples alone",
        trains_on="trusted",
    ),
    "l2r": Method(
        lambda c: L2R(*c.basics, **c.probing),
        "learning to reweight (Ren et al. 2018)",
    ),
    "mw-net": Method(
        lambda c: MWNet(*c.basics, optimizer=c.optimizer, **c.probing),
        "meta-weight-net (Shu et al. 2019)",
    ),
    "diw": Method(_diw, "dynamic importance weighting (Fang et al. 2020)"),
    "adiw-km": Method(_adiw(lambda s: MMD(**_given(s, "step"))), "ADIW, maximum mean discrepancy"),
    "adiw-kl": Method(_adiw(lambda s: KL(**_given(s))), "ADIW, Kullback-Leibler divergence"),
    "adiw-ls": Method(_adiw(lambda s: Squared(**_given(s, "penalty"))), "ADIW, squared distance"),
    "adiw-wa": Method(_adiw(_wasserstein), "ADIW, Wasserstein-1 distance"),
    "oracle": Method(_oracle, "the true weights"),
    "two-step-kmm": Method(_two_step("KMM"), "classic KMM on features, then weighted training"),
    "two-step-kliep": Method(_two_step("KLIEP"), "classic KLIEP on features, then weighted training"),
    "two-step-lsif": Method(_two_step("LSIF"), "classic LSIF on features, then weighted training"),
}


def find(name: str) -> Method:
    """The method of that name; an unknown one is an error that lists the real ones, the nearest first."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
