"""ADIW: importance weights of every training sample, estimated while the model trains (Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from adiw.arguments import check_count
from adiw.divergences import Divergence, learns, resolve
from adiw.matching.batches import MatchedBatches, match
from adiw.matching.groups import in_both, masked
from adiw.matching.limits import Limits, drop_negligible
from adiw.reweighting.dataset_cache import CACHE_BYTES
from adiw.reweighting.estimation import EstimationResult, run_round, start_memory
from adiw.reweighting.model_evaluator import Criterion, Forward, ModelEvaluator, Precision, check_trainable, follow
from adiw.reweighting.per_sample_losses import no_autocast
from adiw.reweighting.resumable_generator import ResumableGenerator
from adiw.reweighting.summary import Stationarity, Summary, stationarity
from adiw.reweighting.transforms import LossValue, Observed, Transform
from adiw.reweighting.validation_stream import ValidationStream, Window
from adiw.reweighting.values_by_index import ValuesByIndex
from adiw.reweighting.weight_state import WeightState


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
        val_refresh, val_every: how many of them are evaluated anew, and in every how many steps. All in every step
            (None and 1) is the paper's way; every fourth step costs a quarter, and was about as accurate.
        repeats: allow a sample twice in a batch (sampling with replacement); it then keeps the mean of its weights.
        cache_bytes, val_workers: validation inputs up to this size are read at once and stay on the device; larger
            or changing ones are read step by step. This many worker processes read them (0: the one that trains).
        generator: the randomness (order of the validation set, critic network), part of the state.

    >>> model = nn.Linear(2, 3)
    >>> val_set = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.randint(3, (8,)))
    >>> reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), val_set, num_train=100)
    >>> x, y, index = torch.randn(4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([5, 17, 3, 99])
    >>> reweight(model(x), y, index).backward()
    >>> reweight.weights.shape
    torch.Size([100])
    """

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
        val_every: int = 4,
        repeats: bool = False,
        cache_bytes: int = CACHE_BYTES,
        val_workers: int = 0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("num_train", num_train, 1),
            ("steps", steps, 1),
            ("warmup_steps", warmup_steps, 0),
        ):
            if value is not None or name != "warmup_steps":
                check_count(name, value, least)
        self.divergence, self.transform = resolve(divergence), _resolve_transform(transform)
        self.evaluator = ModelEvaluator(model, criterion, forward, self.transform)
        self.steps, self.warmup_steps, self.exact = steps, warmup_steps, exact
        self.limits = Limits(mean_one, cap, min_ess)
        self.randomness = ResumableGenerator(generator)
        order = self.randomness.on_host()
        val_stream = ValidationStream(val_set, val_batch, val_refresh, order, cache_bytes, val_workers, val_every)
        # The weights as used in the loss. First, since a state of other settings must be refused before it is read.
        self.weight_state = WeightState(num_train, self._settings(val_stream), repeats)
        self.val_stream = val_stream
        val_stream.processes = self.weight_state.processes
        # The weights as estimated, without class prior and limits: where there are none, they are those in the loss.
        same = isinstance(self.transform, LossValue) and self.limits == Limits()
        self.estimates = None if same else ValuesByIndex(num_train)
        if self.divergence.side == "val":
            self.coefficients = ValuesByIndex(len(self.val_stream), fill=float("nan"))
        self.memory: dict[str, Tensor] = {}  # of a divergence that learns
        self._last: EstimationResult | None = None
        follow(self, model)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Let torch.compile, with these arguments, fuse the estimation: its many small kernels become a few.

        The model and the criterion are the user's to compile. A divergence that learns stays as it is: it draws from
        a generator, which torch.compile does not take.
        """
        dim = 1 if isinstance(self.transform, LossValue) else 2  # or more: a critic may be exact for scalars
        if learns(self.divergence) and self.divergence.start(dim, 1, torch.zeros(()), Generator()):
            return
        self.estimate = torch.compile(self.estimate, *args, **kwargs)  # type: ignore[method-assign]

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,); one for samples not seen since the warm-up."""
        return self.weight_state.weights

    @property
    def raw(self) -> ValuesByIndex:
        """The weights as estimated."""
        return self.weight_state.used if self.estimates is None else self.estimates

    def look(self) -> None:
        """Evaluate the next trusted samples now, under the autocast that is in force.

        A step does so by itself. A loop that asks ``probe.turn()`` before its training pass, and calls this when the
        answer is yes, does it while the training pass holds no memory yet.
        """
        precision = self.evaluator.precision_of(None)
        with torch.no_grad(), no_autocast(self.raw.slots.device):
            self.val_stream.look(lambda batch: self.evaluator.evaluate(batch, precision, self._dtype))

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
        losses = self.evaluator.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        if torch.is_grad_enabled() and not losses.requires_grad:
            check_trainable(self.evaluator.model)
        step, precision = self.weight_state.enter(index, losses), self.evaluator.precision_of(outputs)
        if step.first:
            self.weight_state.processes.share_state(self)
        with torch.no_grad(), no_autocast(losses.device):
            train = self.weight_state.whole(self._observe(losses, targets, inputs, features, precision))
            val = self.val_stream.read(lambda batch: self.evaluator.evaluate(batch, precision, self._dtype))
            weights = self.weight_state.processes.own(
                self.estimate(step.everyone, train, val, step.sound), len(losses)
            )
        return self.weight_state.weighted_mean(step, weights, losses, outputs)

    def _observe(
        self, losses: Tensor, targets: Any, inputs: Any, features: Tensor | None, precision: Precision
    ) -> Observed:
        """z of the training batch: from the training pass itself, or from the paper's separate pass."""
        if features is not None and isinstance(self.transform, LossValue):
            raise ValueError("features= is for transform=adiw.Features(...): with the loss as z it would be ignored")
        if not self.exact:
            return self.transform.observe(losses.detach().to(self._dtype), targets, features)
        reason = "exact=True takes z from a separate pass in evaluation mode"
        return self.evaluator.evaluate(self.evaluator.training_batch(inputs, targets, reason), precision, self._dtype)

    def estimate(self, index: Tensor, train: Observed, val: Window, finite: Tensor) -> Tensor:
        """Weight estimation alone (lines 1 and 4 to 9 of Algorithm 1): the weights for the loss (n,), also kept.

        A step of its own begins with ``ledger.enter`` and calls this without gradient, with the samples of all
        processes; ``finite`` (n,) says which losses are finite.
        """
        batches = match(train.z, val.z, train.group, val.group, self.transform.num_groups, self.transform.minimum)
        ready, estimated = self.weight_state.ready(self.warmup_steps), batches.taking_part("train")
        done = self._run_round(batches, index, val.index, ready)
        raw = drop_negligible(done.problem.weights(done.end))
        if estimated is not None:
            raw = torch.where(estimated, raw, self.raw.read(index))
        factor = self.transform.factor(train.group)
        used = raw if factor is None else raw * factor
        if estimated is not None:
            used = used * estimated.any()  # Algorithm 2's fallback: zero where no class could be estimated
        used = self.limits.apply(used, finite)
        keep = in_both(estimated, ready)
        distinct = self.weight_state.distinct(index)
        self.weight_state.used.write(index, used, keep, distinct)
        if self.estimates is not None:
            self.estimates.write(index, raw, keep, distinct)
        return masked(ready, used, 1)

    def _run_round(
        self, batches: MatchedBatches, index: Tensor, val_index: Tensor, ready: Tensor | None
    ) -> EstimationResult:
        """The projected-gradient steps, started from the stores; their result is kept except during the warm-up."""
        generator = self.randomness.generator
        if learns(self.divergence) and not self.memory:
            self.memory = start_memory(self.divergence, batches, generator)
        of_train = self.divergence.side == "train"
        # A weight that is no number, in a state that was loaded, starts afresh as a sample does that was never seen.
        params = self.raw.read(index).nan_to_num(1, 1, 1) if of_train else self.coefficients.read(val_index)
        done = run_round(self.divergence, batches, params, self.memory, self.steps, generator, all_known=of_train)
        self._last = done
        for key, value in done.memory.items():
            self.memory[key].copy_(masked(ready, value, self.memory[key]))
        if not of_train:
            keep = in_both(batches.taking_part("val"), ready)
            self.coefficients.write(val_index, masked(keep, done.end, params), distinct=True)
        return done

    def summary(self) -> Summary:
        """Health of the weights. Reads them from the device; warns of losses that were not finite."""
        bounds = [b for b in (self.limits.cap, getattr(self.divergence, "upper", None)) if b is not None]
        return self.weight_state.summary(self.val_stream, min(bounds, default=None), self._last)

    def stationarity(self, learning_rate: float) -> Stationarity:
        """Theorem 1's quantities for the last step: call it between ``loss.backward()`` and ``zero_grad()``."""
        if self._last is None:
            raise ValueError("no step has been made yet: call reweight(...) and backward first")
        gradients = (parameter.grad for parameter in self.evaluator.model.parameters())
        return stationarity(gradients, learning_rate, self._last, self.divergence.step_size, self.steps)

    def get_extra_state(self) -> dict[str, Any]:
        return {"memory": self.memory, "randomness": self.randomness.state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict) or not {"memory", "randomness"} <= state.keys():
            raise ValueError(f"this is not the state of an ADIW: expected memory and randomness, came {state!r}")
        device = self.raw.slots.device
        self.memory = {key: value.clone().to(device) for key, value in state["memory"].items()}
        self.randomness.restore(state["randomness"], device)
        self._last = None

    def _settings(self, val_stream: ValidationStream) -> str:
        stream = f"val_batch={val_stream.window}, val_refresh={val_stream.refresh}, val_every={val_stream.every}"
        loop = f"steps={self.steps}, warmup_steps={self.warmup_steps}, exact={self.exact}"
        return f"ADIW({self.divergence}, {self.transform}, {loop}, {stream}, {self.limits})"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ADIW:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.randomness.on(self.raw.slots.device)  # here, since a compiled estimation cannot make generators
        self.memory = {key: fn(value) for key, value in self.memory.items()}
        self._last = None
        return self

    @property
    def _dtype(self) -> torch.dtype:
        return self.raw.slots.dtype


def _resolve_transform(transform: Literal["loss"] | Transform) -> Transform:
    if isinstance(transform, str):
        if transform != "loss":
            raise ValueError(f'transform must be "loss" or adiw.Features(layer, ...), got {transform!r}')
        return LossValue()
    if isinstance(transform, type) or not callable(getattr(transform, "observe", None)):
        raise TypeError(f'transform must be "loss" or an instance such as adiw.Features("layer"), got {transform!r}')
    return transform
