"""ADIW: importance weights of every training sample, estimated while the model trains (Algorithms 1 and 2)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from adiw.divergences import Divergence, resolve
from adiw.estimation import Round, run_round, start_memory
from adiw.health import Stationarity, Summary, name_indices, stationarity, summarise
from adiw.limits import Limits
from adiw.losses import guard_gradient
from adiw.observer import Criterion, Forward, Observer
from adiw.pair import Pair, match
from adiw.probe import Probe, Window
from adiw.randomness import Randomness
from adiw.store import Store, check_index
from adiw.transforms import LossValue, Observed, Transform


class ADIW(nn.Module):
    """The weighted loss of a batch, with weights that match it to a trusted validation set.

    Args:
        model: the model that trains. It is used for validation batches but is not part of this module: neither its
            parameters nor its state are.
        criterion: ``criterion(outputs, targets)`` gives one loss per sample, (n,).
        val_set: the trusted samples: a data set of (x, y) pairs, or of whatever ``forward`` takes.
        num_train: size of the training set.
        divergence: a name in ``adiw.DIVERGENCES`` or an instance with its settings.
        transform: "loss" (Algorithm 1) or ``adiw.Features(...)`` (Algorithm 2).
        steps: T, projected-gradient steps for each batch.
        warmup_steps: steps with weights of one at first; by default one epoch.
        exact: take z from a separate pass in evaluation mode, as the paper does, rather than from the training pass.
            It needs ``inputs`` in every call.
        mean_one, cap, min_ess: limits on the weights in the loss, see ``adiw.Limits``.
        forward: ``forward(model, batch) -> (outputs, targets)`` (or also features) for batches that are not (x, y).
        val_batch: validation samples that a training batch is matched with.
        val_refresh: how many of them are evaluated anew in each step; None for all, as in the paper.
        cache_bytes, val_workers: validation inputs up to this size stay on the device; larger or changing ones are
            read by this many worker processes.
        generator: the randomness (order of the validation set, critic network), part of the state.

    >>> model = nn.Linear(2, 3)
    >>> val_set = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.randint(3, (8,)))
    >>> reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), val_set, num_train=100)
    >>> x, y, index = torch.randn(4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([5, 17, 3, 99])
    >>> reweight(model(x), y, index).backward()
    >>> reweight.weights.shape
    torch.Size([100])
    """

    seen_steps: Tensor
    seen_samples: Tensor
    bad_indices: Tensor
    nonfinite: Tensor

    def __init__(
        self,
        model: nn.Module,
        criterion: Criterion,
        val_set: Any,
        num_train: int,
        divergence: str | Divergence = "kl",
        *,
        transform: Literal["loss"] | Transform = "loss",
        steps: int = 1,
        warmup_steps: int | None = None,
        exact: bool = False,
        mean_one: bool = False,
        cap: float | None = None,
        min_ess: float = 0.0,
        forward: Forward | None = None,
        val_batch: int = 256,
        val_refresh: int | None = None,
        cache_bytes: int = 2**30,
        val_workers: int = 0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("num_train", num_train, 1),
            ("steps", steps, 1),
            ("warmup_steps", warmup_steps, 0),
        ):
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        self.divergence, self.transform = resolve(divergence), _resolve_transform(transform)
        self.observer = Observer(model, criterion, forward, self.transform)
        self.steps, self.warmup_steps, self.exact = steps, warmup_steps, exact
        self.limits = Limits(mean_one, cap, min_ess)
        self.randomness = Randomness(generator)
        order = self.randomness.on(torch.device("cpu")) if generator is None else generator
        self.probe = Probe(val_set, val_batch, val_refresh, order, cache_bytes, val_workers)
        self.used, self.raw = Store(num_train), Store(num_train)  # weights as used in the loss, and as estimated
        if self.divergence.side == "val":
            self.coefficients = Store(len(self.probe), fill=float("nan"))
        for counter in ("seen_steps", "seen_samples", "bad_indices"):
            self.register_buffer(counter, torch.zeros((), dtype=torch.long))
        self.register_buffer("nonfinite", torch.zeros(num_train + 1, dtype=torch.int32))
        self.memory: dict[str, Tensor] = {}  # of a divergence that learns
        self._last: Round | None = None
        parameter = next(model.parameters(), None)
        if parameter is not None:
            self.to(parameter.device)

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,); one for samples not seen since the warm-up."""
        return self.used.values

    def forward(
        self,
        outputs: Any,
        targets: Any,
        index: Tensor,
        inputs: Any = None,
        features: Tensor | None = None,
    ) -> Tensor:
        """mean(w * loss) of a batch: a scalar, ready for backward.

        Args:
            outputs, targets: of the training forward pass, as the criterion takes them.
            index: (n,) int64, each sample's number in the training set.
            inputs: the inputs of the pass, needed with ``exact=True`` (with ``forward``, the whole batch).
            features: (n, ...) hidden-layer outputs, when ``Features`` has no layer to read them from.
        """
        losses = self.observer.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        index = self._locate(index, losses)
        with torch.no_grad(), torch.autocast(losses.device.type, enabled=False):
            train = self._observe(losses, outputs, targets, inputs, features)
            val = self.probe.read(lambda batch: self.observer.evaluate(batch, outputs, self._dtype))
            weights = self._estimate(index, train, val)
        finite = losses.isfinite()
        self.nonfinite.index_add_(0, index, (~finite).to(self.nonfinite.dtype))
        guard_gradient(outputs, finite)
        return torch.where(finite, weights.to(losses.dtype) * losses, 0).mean()

    def _observe(self, losses: Tensor, outputs: Any, targets: Any, inputs: Any, features: Tensor | None) -> Observed:
        """z of the training batch: from the training pass itself, or from the paper's separate pass."""
        if not self.exact:
            return self.transform.observe(losses.detach().to(self._dtype), targets, features)
        if inputs is None:
            raise ValueError(
                "exact=True takes z from a separate pass in evaluation mode: call reweight(outputs, targets, index, "
                "inputs=x), or use exact=False to take it from the training pass"
            )
        batch = (inputs, targets) if self.observer.forward is None else inputs
        return self.observer.evaluate(batch, outputs, self._dtype)

    def _estimate(self, index: Tensor, train: Observed, val: Window) -> Tensor:
        """Weight estimation (lines 1 and 4 to 9 of Algorithm 1), and the weights for the loss (n,)."""
        pair = match(train.z, val.z, train.group, val.group, self.transform.num_groups, self.transform.minimum)
        warm = self._count_step(len(index))
        done = self._run_round(pair, index, val.index, warm)
        estimated = pair.group_train >= 0
        raw = torch.where(estimated, done.problem.weights(done.end), self.raw.read(index))
        factor = self.transform.factor(train.group)
        # A batch in which no class could be estimated weighs nothing: Algorithm 2's fallback.
        used = torch.where(estimated.any(), raw if factor is None else raw * factor, 0)
        used = self.limits.apply(used)
        self.raw.write(index, raw, estimated & ~warm)
        self.used.write(index, used, estimated & ~warm)
        return torch.where(warm, 1, used)

    def _run_round(self, pair: Pair, index: Tensor, val_index: Tensor, warm: Tensor) -> Round:
        """The projected-gradient steps, started from the stores; their result is kept except during the warm-up."""
        generator = self.randomness.on(index.device)
        self.memory = self.memory or start_memory(self.divergence, pair, generator)
        of_train = self.divergence.side == "train"
        params = self.raw.read(index) if of_train else self.coefficients.read(val_index)
        self._last = done = run_round(self.divergence, pair, params, self.memory, self.steps, generator)
        for key, value in done.memory.items():
            self.memory[key].copy_(torch.where(warm, self.memory[key], value))
        if not of_train:
            self.coefficients.write(val_index, done.end, (pair.group_val >= 0) & ~warm)
        return done

    def _count_step(self, batch: int) -> Tensor:
        """Count this step; whether it is still part of the warm-up, a boolean on the device."""
        if self.warmup_steps is None:
            warm = self.seen_samples + batch <= len(self.used)
        else:
            warm = self.seen_steps < self.warmup_steps
        self.seen_steps.add_(1)
        self.seen_samples.add_(batch)
        return warm

    def _locate(self, index: Tensor, losses: Tensor) -> Tensor:
        """The index on our device, checked."""
        if losses.device != self.seen_steps.device:
            raise ValueError(
                f"outputs are on {losses.device}, but reweight is on {self.seen_steps.device}: "
                f'call reweight.to("{losses.device}") once after moving the model'
            )
        index, bad = check_index(index, len(losses), len(self.used))
        if bad is not None:
            self.bad_indices.add_(bad)
        return index.to(losses.device, non_blocking=True)

    def _raise_bad_indices(self) -> None:
        count = int(self.bad_indices)
        if count:
            raise IndexError(
                f"{count} indices since the start were not in the training set (0 to {len(self.used) - 1}): their "
                "weights were not kept. Check that the index comes from adiw.Indexed around this training set"
            )

    def summary(self) -> Summary:
        """Health of the weights. Reads them from the device; warns of losses that were not finite."""
        self._raise_bad_indices()
        bounds = [b for b in (self.limits.cap, getattr(self.divergence, "upper", None)) if b is not None]
        train, val = int(self.nonfinite.sum()), int(self.probe.nonfinite.sum())
        for count, where, kind in ((train, self.nonfinite, "training"), (val, self.probe.nonfinite, "validation")):
            if count:
                warnings.warn(
                    f"{count} {kind} losses so far were not finite and were left out; {kind} samples: "
                    f"{name_indices(where)}",
                    stacklevel=2,
                )
        parts = summarise(self.weights, min(bounds, default=None), self._last)
        return Summary(steps=int(self.seen_steps), nonfinite_train=train, nonfinite_val=val, **parts)

    def stationarity(self, learning_rate: float) -> Stationarity:
        """Theorem 1's quantities for the last step: call it between ``loss.backward()`` and ``zero_grad()``."""
        if self._last is None:
            raise ValueError("no step has been made yet: call reweight(...) and backward first")
        gradients = (parameter.grad for parameter in self.observer.model.parameters())
        return stationarity(gradients, learning_rate, self._last, self.divergence.step_size, self.steps)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """All of it: weights, where the validation stream stands, the critic, the generator. See ``nn.Module``."""
        self._raise_bad_indices()
        return super().state_dict(*args, **kwargs)

    def get_extra_state(self) -> dict[str, Any]:
        return {"settings": self._settings(), "memory": self.memory, "randomness": self.randomness.state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if state["settings"] != self._settings():
            raise ValueError(
                f"this state was made with {state['settings']}, but this is {self._settings()}: "
                "make ADIW with the same settings to go on from it"
            )
        device = self.seen_steps.device
        self.memory = {key: value.clone().to(device) for key, value in state["memory"].items()}
        self.randomness.restore(state["randomness"], device)
        self._last = None

    def _settings(self) -> str:
        return f"{self.divergence}, {self.transform}, steps={self.steps}, exact={self.exact}, {self.limits}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ADIW:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.memory = {key: fn(value) for key, value in self.memory.items()}
        self._last = None
        return self

    @property
    def _dtype(self) -> torch.dtype:
        return self.used.slots.dtype


def _resolve_transform(transform: Literal["loss"] | Transform) -> Transform:
    if isinstance(transform, str):
        if transform != "loss":
            raise ValueError(f'transform must be "loss" or adiw.Features(layer, ...), got {transform!r}')
        return LossValue()
    return transform
