"""ADIW: importance weights of all training samples, estimated while the model trains (Algorithms 1 and 2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from adiw.argument_checks import check_count
from adiw.distributed.process_group import Processes
from adiw.divergences import Divergence, learns, resolve
from adiw.matching.weight_limits import Limits
from adiw.reweighting.cuda_graphs import GraphedCalls, can_capture, compiled
from adiw.reweighting.dataset_cache import CACHE_BYTES
from adiw.reweighting.default_estimator import RATE, ElementRankEstimator, RankEstimator
from adiw.reweighting.diagnostics.alarm_checks import AlarmChecks
from adiw.reweighting.diagnostics.verdict import Verdict, verdict_of
from adiw.reweighting.divergence_estimator import DivergenceEstimator, EstimationResult
from adiw.reweighting.element_weights import weighted_elements
from adiw.reweighting.extra_state import ResumableGenerator, from_one_value, one_value
from adiw.reweighting.graphed_pass import GraphedPass
from adiw.reweighting.indexed_with_trusted import TrustedSamples
from adiw.reweighting.look_ahead import ComingBatch, Run, coming_batches
from adiw.reweighting.loss_shapes import (
    Criterion,
    CriterionLosses,
    criterion_losses,
    no_autocast,
    sample_losses,
)
from adiw.reweighting.model_evaluator import Forward, ModelEvaluator, check_trainable, move_to_device_of
from adiw.reweighting.progress import OnProgress, silent
from adiw.reweighting.sample_record import SampleRecord, class_columns
from adiw.reweighting.step import GatheredBatch, Step, WeightedMean
from adiw.reweighting.summary import Stationarity, Summary, stationarity
from adiw.reweighting.transforms import LossAndLabel, LossValue, Transform, TransformedBatch
from adiw.reweighting.trusted_warnings import (
    class_labels,
    read_labels,
    warn_if_few,
    warn_if_one_class,
    warn_of_missing_classes,
)
from adiw.reweighting.validation_schedule import ValidationBatch, ValidationSchedule
from adiw.reweighting.weight_state import WeightState

Estimator = RankEstimator | ElementRankEstimator | DivergenceEstimator
MOST_BYTES = 2**22  # of outputs that a CUDA graph copies
ELEMENTS = 32  # of each trusted sample, whose losses the elements of a batch are compared with


class ADIW(nn.Module):
    """The weighted loss of a batch, with weights that match it to a trusted validation set.

    Args:
        model: the model that trains. It evaluates validation batches, but its parameters and state are not part of
            this module.
        criterion: ``criterion(outputs, targets)`` gives one loss per sample, (n,), or per element, (n, ...); see
            ``docs/loss-shapes.md`` for masks and lists.
        val_set: the trusted samples: ``train_set.trusted`` of ``adiw.Indexed(train_set, trusted)``, which trains on
            them as well; or a data set of (x, y) pairs (or of whatever ``forward`` takes) that are not trained on.
        num_train: size of the training set, ``len(train_set)`` of the indexed one; None for data without an index or
            a length, such as a stream: calls then have no index, and the last 2,048 samples stand for the set.
        divergence: None for the default, weights from the ranks of the losses; or a divergence of the paper, by its
            name in ``adiw.DIVERGENCES`` or as an instance with its settings. Features need one; theirs is "kl".
        transform: "loss" (Algorithm 1) or ``adiw.Features(...)`` (Algorithm 2).
        steps: T, projected-gradient steps on the divergence for each batch.
        warmup_steps: first steps, in which all weights are one; by default one epoch.
        exact: compute z in a separate pass in evaluation mode, as the paper does, instead of in the training pass.
            Every call then needs ``inputs``.
        mean_one, cap, min_ess: limits on the weights in the loss, see ``adiw.Limits``.
        forward: ``forward(model, batch) -> (outputs, targets)`` or ``(outputs, targets, features)``, for batches that
            are not (x, y).
        val_batch: number of validation samples that a training batch is matched with.
        val_refresh: how many of them the model evaluates at a time (None: all); the others keep their last z.
        val_every: the model evaluates them in every ``val_every``-th step. The paper evaluates all in each step (None
            and 1); every fourth step costs a quarter, with about the same accuracy.
        repeats: allow a sample twice in a batch (sampling with replacement); the mean of its weights is stored.
        cache_bytes: validation inputs up to this size are read once and kept on the device. Larger ones, and ones
            that change when they are read again (augmentation), are read in each step.
        val_workers: worker processes that read validation inputs (0: the training process).
        generator: the randomness (order of the validation set, critic network); part of the state.
        unit: "sample", or "element" for a weight of each token, pixel or label of its own. Weights of elements are
            not stored by index: they need ``num_train=None``.
        process_group: PyTorch's group of the processes that have different parts of the batch (data-parallel ones);
            None for all.
        cautious: a step on a divergence of losses counts as far as there is evidence that trusted losses are smaller
            than those of the batch; without any, the weights stay as they are. False for the paper's Algorithm 1.

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
        num_train: int | None,
        divergence: str | Divergence | None = None,
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
        unit: Literal["sample", "element"] = "sample",
        process_group: Any = None,
        cautious: bool = True,
    ) -> None:
        super().__init__()
        check_count("steps", steps, least=1)
        _check_unit(unit, num_train, transform, exact)
        if num_train is None and isinstance(val_set, TrustedSamples):
            raise ValueError(
                "num_train=None is for data without an index, but these trusted samples are part of a training set: "
                "pass num_train=len(train_set), or the trusted samples as a data set of their own"
            )
        self.unit, elements = unit, ELEMENTS if unit == "element" else None
        self.transform = _resolve_transform(transform, ranks=divergence is None)
        if divergence is None and not isinstance(self.transform, LossAndLabel):
            divergence = "kl"
        self.divergence = None if divergence is None else resolve(divergence)
        self.evaluator = ModelEvaluator(model, criterion, forward, self.transform, elements)
        self.steps, self.exact, self.limits = steps, exact, Limits(mean_one, cap, min_ess)
        self.limited = self.limits != Limits()
        self.cautious = cautious and self.divergence is not None and isinstance(self.transform, LossValue)
        self.randomness = ResumableGenerator(generator)
        self._make_schedule = partial(
            ValidationSchedule,
            batch=val_batch,
            refresh=val_refresh,
            cache_bytes=cache_bytes,
            workers=val_workers,
            every=val_every,
            elements=elements,
        )
        val_schedule = self._make_schedule(val_set, **self._reading(val_set))
        # Registered first, so that load_state_dict refuses a state with other settings before it loads any of it.
        self.weight_state = WeightState(
            num_train,
            "",
            repeats=repeats,
            warmup_steps=warmup_steps,
            keep_estimates=self.limited or type(self.transform) is not LossValue,
            process_group=process_group,
        )
        self.weight_state.settings = self._settings(val_schedule, self.weight_state)
        self.val_schedule = val_schedule
        trusted_index = _trusted_index(val_set)
        self.record = SampleRecord(self.weight_state.num_train, trusted_index)
        self.estimator = self._make_estimator(trusted_index)
        self._estimations = GraphedCalls("estimations of weights", self._generators)
        self._refits = GraphedCalls("estimations of weights by rank")
        self._evaluations = GraphedPass(self.evaluator, val_schedule)
        self.alarm_checks = AlarmChecks()
        self._coming: deque[ComingBatch] = deque()  # of ``look_ahead``
        warn_if_few(len(val_schedule))
        # Worker processes that read the samples must not share a file with this process.
        unread = not (val_schedule.evaluated or forward or val_workers)
        self._one_class = warn_if_one_class(read_labels(val_set) if unread else self._cached_labels())
        self._missing_classes: set[int] = set()  # of the trusted samples, reported by ``summary``
        move_to_device_of(model, self)
        self._find_parts_quickly()

    def _find_parts_quickly(self) -> None:
        """Keep the submodules as plain attributes as well: a step reads them often, and nn.Module searches for them.

        It drops a plain attribute when a module is assigned to its name.
        """
        vars(self).update(self._modules)

    def _reading(self, val_set: Any) -> dict[str, Any]:
        """How trusted samples are read: those that are trained on are evaluated only for a divergence."""
        evaluated = self.divergence is not None or _trusted_index(val_set) is None
        return {"generator": self.randomness.on_host(), "evaluated": evaluated}

    def _make_estimator(self, trusted_index: Tensor | None) -> Estimator:
        if self.divergence is not None:
            window = self.weight_state.num_train if self.weight_state.is_stream else None
            num_val = self.val_schedule.num_units
            given = (self.divergence, self.transform, self.steps, self.randomness, num_val, window, self.cautious)
            return DivergenceEstimator(*given)
        if self.unit == "element":
            return ElementRankEstimator()
        return self._rank_estimator(trusted_index)

    def _rank_estimator(self, trusted_index: Tensor | None) -> RankEstimator:
        state, batch = self.weight_state, self.val_schedule.batch_size
        rate = 1.0 if state.is_stream else RATE  # a sample of a stream is seen once
        return RankEstimator(state.num_train, batch, trusted_index, self.randomness.on_host(), rate)

    @property
    def ranks(self) -> RankEstimator | None:
        """The default estimator, which compares the losses of all samples; None with others."""
        return self.estimator if isinstance(self.estimator, RankEstimator) else None

    def trust(self, val_set: Any) -> None:
        """Replace the trusted samples from the next step on, in all processes.

        The weights stay. To add samples, pass the old and the new ones, for example as a ``ConcatDataset``. To resume
        from a state that was made later, make the method with these samples.

        Args:
            val_set: as in the constructor; ``train_set.trusted`` of a training set with the same samples in order.
        """
        if isinstance(val_set, TrustedSamples) and self.weight_state.is_stream:
            raise ValueError("the training set has no index: pass the trusted samples as a data set of their own")
        trusted_index = _trusted_index(val_set)
        self.val_schedule = self._make_schedule(val_set, **self._reading(val_set))
        self.weight_state.settings = self._settings(self.val_schedule, self.weight_state)
        self.record.mark_trusted(trusted_index)
        if isinstance(self.estimator, RankEstimator):
            self.estimator = self.estimator.with_last_losses(self._rank_estimator(trusted_index))
        elif isinstance(self.estimator, DivergenceEstimator):
            self.estimator.trust(self.val_schedule.num_units)
        self._evaluations = GraphedPass(self.evaluator, self.val_schedule)
        self.alarm_checks = AlarmChecks()
        self.to(self.weight_state.weight_slots.device)
        self._find_parts_quickly()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the estimation with ``torch.compile(*args, **kwargs)``: many small kernels become a few.

        The model and the criterion are not compiled. An estimation that draws from a generator (a critic network) is
        not compiled either, because torch.compile does not support generators.
        """
        if not self.compiles:
            return
        self.estimate = compiled(self, "estimate", *args, **kwargs)  # type: ignore[method-assign]
        self._drop_graphs()  # of the estimation that is not compiled

    @property
    def compiles(self) -> bool:
        """Whether ``compile`` compiles anything: not where a critic network is trained."""
        dim = 1 if isinstance(self.transform, LossValue) else 2  # 2 or more: only scalars have an exact critic
        return not (learns(self.divergence) and self.divergence.start(dim, 1, torch.zeros(()), Generator()))

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,); one for samples not seen since the warm-up.

        Of a stream, the weights of its last 2,048 samples, in no particular order.
        """
        return self.weight_state.weights

    @property
    def bound(self) -> float | None:
        """The largest weight that the limits and the divergence allow; None without a bound."""
        bounds = [b for b in (self.limits.cap, getattr(self.divergence, "upper", None)) if b is not None]
        return min(bounds, default=None)

    def forward(
        self,
        outputs: Any,
        targets: Any,
        index: Tensor | None = None,
        inputs: Any = None,
        features: Tensor | None = None,
    ) -> Tensor:
        """mean(w * loss) of a batch: a scalar, ready for backward.

        Args:
            outputs, targets: of the training pass, in the form that the criterion takes.
            index: (n,) int64, each sample's index in the training set; None with ``num_train=None``.
            inputs: the inputs of the training pass (with ``forward``, the whole batch), needed with ``exact=True``.
            features: (n, ...) hidden-layer outputs, when ``Features`` has no layer to read them from.
        """
        if not self.training:
            return sample_losses(self.evaluator.criterion, outputs, targets).mean()
        if self.unit == "element":
            return weighted_elements(self, outputs, targets, index, features)
        if self._coming:
            return self._coming.popleft().loss(self.evaluator.losses(outputs, targets), outputs, index)
        on_graphs, found, left = can_capture(self.weight_state.weight_slots.device), None, False
        try:
            if on_graphs:
                found = criterion_losses(self.evaluator.criterion, outputs, targets)
                left = self._is_left_to_graph(found, outputs, targets)
                losses, sizes = (found.losses, None) if left else found.elements(targets).by_sample()
            else:
                losses, sizes = sample_losses(self.evaluator.criterion, outputs, targets)
            self.check_call(losses, index, features)
            if found is not None and left:
                columns = [outputs.detach(), targets, found.counted, None]
            elif self.exact:
                columns = self._exact_columns(outputs, targets, inputs, losses)
            else:
                columns = self.columns(outputs, targets, features, losses)
        except Exception as error:
            self.weight_state.share_error(error)
            raise
        batch = self.weight_state.gather(index, losses, self, sizes, columns)
        return self.weighted_mean(batch, outputs, on_graphs, found=found if left else None)(losses, outputs)

    def _is_left_to_graph(self, found: CriterionLosses, outputs: Any, targets: Any) -> bool:
        """Whether the CUDA graph reads outputs (n, C) and labels (n,) itself, which saves launches."""
        return (
            isinstance(outputs, Tensor)
            and isinstance(targets, Tensor)
            and outputs.ndim == 2
            and outputs.nbytes <= MOST_BYTES
            and targets.shape == found.losses.shape == outputs.shape[:1]
            and not (targets.is_floating_point() or self.exact)
            and isinstance(self.transform, LossValue)
            and self.weight_state.current_processes().size == 1
        )

    def check_call(self, losses: Tensor, index: Tensor | None, features: Tensor | None) -> None:
        """Raise for arguments of a call that do not fit the settings."""
        if torch.is_grad_enabled() and not losses.requires_grad:
            check_trainable(self.evaluator.model)
        if features is not None and isinstance(self.transform, LossValue):
            raise ValueError('features= needs transform=adiw.Features(...): transform="loss" would ignore it')
        if index is not None and self.weight_state.is_stream:
            raise ValueError("num_train=None is for data without an index: leave index out, or pass num_train")

    def look_ahead(self, batches: Iterable[Any], run: Run | None = None) -> None:
        """Estimate the weights of the coming batches together: those of an optimizer step that accumulates them.

        The next calls then have these batches in this order, and return mean(w * loss) of each as usual. A call
        before they are done replaces those that are left.

        The losses that the weights are estimated from are those of a pass in evaluation mode over the batches, as
        with ``exact=True``: an optimizer step has one forward pass more.

        Args:
            batches: of the DataLoader of the indexed training set, (x, y, index) or mappings with the key "index".
            run: ``run(batch) -> (outputs, targets)`` of a batch with its index, instead of the model and ``forward``.
        """
        if self.unit == "element":
            raise ValueError("look_ahead is for weights of samples: those of elements are estimated in each batch")
        self._coming.clear()
        self._coming.extend(coming_batches(self, batches, run))

    def columns(self, outputs: Any, targets: Any, features: Any, losses: Tensor) -> list[Tensor | None]:
        """z, or None where it is the loss, the group, and ``class_columns`` of each sample, (n, ...)."""
        z, group = None, None
        if isinstance(self.transform, LossAndLabel):
            group = self.transform.groups(losses, targets)
        elif not isinstance(self.transform, LossValue):
            with torch.no_grad():
                z, group = self.transform.apply(losses.detach().to(self._dtype), targets, features)
        return [z, group, *class_columns(outputs, targets, losses, self.estimator.needs_uncertainty)]

    def _exact_columns(self, outputs: Any, targets: Any, inputs: Any, losses: Tensor) -> list[Tensor | None]:
        """``columns`` with z from a separate pass in evaluation mode."""
        reason = "exact=True takes z from a separate pass in evaluation mode"
        pair = self.evaluator.training_batch(inputs, targets, reason)
        z, group = self.evaluator.evaluate(pair, outputs, self._dtype)
        return [z, group, *class_columns(outputs, targets, losses, self.estimator.needs_uncertainty)]

    @torch.no_grad()
    def weighted_mean(
        self,
        batch: GatheredBatch,
        outputs: Any,
        on_graphs: bool,
        divide: bool = True,
        key: int | None = None,
        found: CriterionLosses | None = None,
    ) -> WeightedMean:
        """Estimate and store the weights: the weighted mean, or sum, as a function of the losses.

        With ``on_graphs`` the work is replayed as CUDA graphs; ``key`` is a part of their signature. With ``found``,
        see ``_is_left_to_graph``, the columns of the batch are outputs, targets and the mask of the criterion.
        """
        device = batch.losses.device
        if self.val_schedule.is_due():
            self._evaluate_trusted(outputs, batch.processes, on_graphs)
        if isinstance(self.estimator, RankEstimator):
            self.estimator.prepare(outputs, batch.columns[1])
        with no_autocast(device.type) if torch.is_autocast_enabled(device.type) else nullcontext():
            work: Any = partial(self._estimate_and_store, batch, divide)
            inputs: Any = (batch.index, batch.losses, batch.sizes, *batch.columns)
            if found is not None:
                work, key = partial(self._read_and_estimate, batch, found.ignored), found.ignored
            mean: WeightedMean
            if not on_graphs:
                mean, _ = work(*inputs)
                return mean
            if self.outdates_graphs():
                self._estimations.capture_again()
            signature = (batch.count, batch.checked, self._dtype, divide, key)
            (mean, last), shared = self._estimations(work, inputs, device, signature)
            if self.estimator.last is not last:
                self.estimator.last = last
            return mean.clone() if shared else mean

    def _read_and_estimate(
        self,
        batch: GatheredBatch,
        ignored: int | None,
        index: Tensor,
        losses: Tensor,
        sizes: None,
        outputs: Tensor,
        targets: Tensor,
        counted: Tensor | None,
        _: None,
    ) -> tuple[WeightedMean, EstimationResult | None]:
        """``_estimate_and_store`` from outputs (n, C), labels (n,) and the mask of the criterion."""
        losses, found_sizes = CriterionLosses(losses, counted, ignored).elements(targets).by_sample()
        columns = self.columns(outputs, targets, None, losses)
        return self._estimate_and_store(batch, True, index, losses, found_sizes, *columns)

    def _estimate_and_store(
        self,
        batch: GatheredBatch,
        divide: bool,
        index: Tensor,
        losses: Tensor,
        sizes: Tensor | None,
        z: Tensor | None,
        group: Tensor | None,
        label: Tensor | None,
        predicted: Tensor | None,
        uncertainty: Tensor | None = None,
    ) -> tuple[WeightedMean, EstimationResult | None]:
        """One step with evaluated trusted samples. A CUDA graph calls it with tensors of its own."""
        if not (index is batch.index and losses is batch.losses and sizes is batch.sizes):
            batch = replace(batch, index=index, losses=losses, sizes=sizes)
        step = self.weight_state.count(batch)
        schedule = self.val_schedule
        val = schedule.batch() if schedule.evaluated else None
        by_loss = isinstance(self.transform, LossValue) and self.unit == "sample"
        val_losses = val.newest if by_loss and val is not None else None
        self.record.write(self.weight_state, step, losses, label, predicted, val_losses, schedule.every)
        if uncertainty is not None and isinstance(self.estimator, RankEstimator):
            assert label is not None
            assert predicted is not None
            self.estimator.see(step, uncertainty, label != predicted)
        z = losses.to(self._dtype).unsqueeze(1) if z is None else z
        weights = self.estimate(step, TransformedBatch(z, group), val)
        return WeightedMean.of(step, weights, losses.dtype, divide), self.estimator.last

    def estimate(self, step: Step, train: TransformedBatch, val: ValidationBatch | None) -> Tensor:
        """Estimate and store the weights. Returns those for the loss, (g,).

        Called without gradient, with the g samples of all processes.
        """
        weights, estimates, mask = self.estimator.estimate(step, train, val, self.weight_state)
        if self.limited:
            weights = self.limits.apply(weights, step.finite)
        return self.weight_state.store(step, weights, mask, estimates)

    @property
    def _dtype(self) -> torch.dtype:
        return self.weight_state.weight_slots.dtype

    def _generators(self) -> list[Generator]:
        return [self.randomness.generator] if self.estimator.memory else []

    def refresh_validation(self, run: Callable[[], None] | None = None) -> None:
        """Evaluate the validation samples of the coming step now, if ``val_every`` makes it due.

        Without this call the step itself does it, while the activations of the training pass are in memory. Where
        memory is short, call this before each training pass, under the same autocast. ``run`` replaces
        ``evaluate_validation``, for example by a CUDA graph of it.
        """
        self.val_schedule.refresh(self.evaluate_validation if run is None else run)

    @torch.no_grad()
    def evaluate_validation(self) -> None:
        """Evaluate the next validation samples, under the autocast in force."""
        device = self.weight_state.weight_slots.device
        self._evaluate_trusted(None, self.weight_state.current_processes(), can_capture(device))

    def _evaluate_trusted(self, outputs: Any, processes: Processes, on_graphs: bool) -> None:
        """Evaluate the next trusted samples, unless they are trained on, and compare all losses with theirs."""
        if self.val_schedule.evaluated and on_graphs:
            self._evaluations(self.evaluator.precision_of(outputs), processes, self._dtype)
        elif self.val_schedule.evaluated:
            evaluate = partial(self.evaluator.evaluate, outputs=outputs, dtype=self._dtype)
            self.val_schedule.evaluate_next(evaluate, processes)
        if isinstance(self.estimator, RankEstimator) and not self.weight_state.is_stream:
            device = self.weight_state.weight_slots.device
            with no_autocast(device.type):
                self._refits(self._refit_ranks, (), device)

    def _refit_ranks(self) -> None:
        assert isinstance(self.estimator, RankEstimator)
        self.estimator.refit(self.weight_state, None if self.estimator.joined else self.val_schedule.batch())

    def outdates_graphs(self) -> bool:
        """Whether this step has less to do than the earlier ones, so that graphs of them should be captured again."""
        return self.record.ends_early_steps(self.val_schedule.clock.steps)

    def _drop_graphs(self) -> None:
        """After tensors that the graphs read or write were replaced."""
        for graphs in (self._estimations, self._refits, self._evaluations):
            graphs.clear()

    def summary(self, groups: Any = None) -> Summary:
        """Statistics of the weights and alarms. Reads them from the device.

        Warns of losses that were not finite, of classes that no trusted sample has, and once of each alarm.

        groups: one value per training sample, (num_train,), such as a column of a table: the summary then has the
            accuracy, mean weight and effective sample size of each group and class.
        """
        ranks = self.ranks
        if ranks is not None and ranks.factors is not None and not self._one_class:
            train, factors = ranks.labels[:-1], ranks.factors
            trusted = self._trusted_labels(ranks)
            self._missing_classes = warn_of_missing_classes(trusted, train, factors, self._missing_classes)
        figures = self.weight_state.summary(self.val_schedule, self.bound, self.estimator.last)
        return self.alarm_checks.check(self, figures, self.bound, groups)

    def verdict(
        self,
        references: Mapping[str, nn.Module] | None = None,
        held_out: Any = None,
        progress: OnProgress = silent,
    ) -> Verdict:
        """Whether training and trusted samples differ, whether the weights remove that, and whether the model helps.

        Call it at the end of training. ``print`` shows it as one sentence.

        Args:
            references: models that were trained without weights, by name; the first is what you would use instead.
            held_out: trusted samples that no model was trained on, a data set as ``val_set``.
            progress: called with what is done, how much so far, and of how many; ``print`` prints them.
        """
        return verdict_of(self, references, held_out, progress)

    def _trusted_labels(self, ranks: RankEstimator) -> Tensor | None:
        """The labels of all trusted samples (m,), -1 for one that was not trained on yet; None if unknown."""
        if ranks.is_trusted is not None:
            return ranks.labels[ranks.is_trusted]
        if self.val_schedule.refresh_size == len(self.val_schedule):
            return self.val_schedule.group
        return self._cached_labels()

    def _cached_labels(self) -> Tensor | None:
        return class_labels(self.val_schedule.cached) if self.evaluator.forward is None else None

    def stationarity(self, learning_rate: float) -> Stationarity:
        """Theorem 1's quantities for the last step: call it between ``loss.backward()`` and ``zero_grad()``."""
        if self.divergence is None:
            raise ValueError('the default estimator has no projected-gradient step: name a divergence, e.g. "kl"')
        if self.estimator.last is None:
            raise ValueError("there was no training step yet: call reweight(...) and backward() first")
        gradients = (parameter.grad for parameter in self.evaluator.model.parameters())
        return stationarity(gradients, learning_rate, self.estimator.last, self.divergence.step_size, self.steps)

    def get_extra_state(self) -> tuple[dict[str, Any]]:
        return one_value({"memory": self.estimator.memory, "randomness": self.randomness.state()})

    def set_extra_state(self, state: Any) -> None:
        state = from_one_value(state)
        if not isinstance(state, dict) or not {"memory", "randomness"} <= state.keys():
            raise ValueError(f"this is not the state of an ADIW: expected memory and randomness, got {state!r}")
        device = self.weight_state.weight_slots.device
        self.estimator.memory = {key: value.clone().to(device) for key, value in state["memory"].items()}
        self.randomness.restore(state["randomness"], device)
        self.estimator.last = None
        self._coming.clear()
        self._drop_graphs()

    def _settings(self, val_schedule: ValidationSchedule, state: WeightState) -> str:
        sizes = f"val_batch={val_schedule.batch_size}, val_refresh={val_schedule.refresh_size}"
        schedule = f"{sizes}, val_every={val_schedule.every}"
        loop = f"steps={self.steps}, warmup_steps={state.warmup_steps}, exact={self.exact}"
        kind = f", unit={self.unit}, num_train=None" if state.is_stream else ""
        caution = ", cautious" if self.cautious else ""
        return (
            f"ADIW({self.divergence or 'ranks'}, {self.transform}, {loop}, {schedule}, {self.limits}{kind}{caution})"
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ADIW:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.randomness.on(self.weight_state.weight_slots.device)  # now: compiled code cannot make generators
        self._drop_graphs()
        return self


def _trusted_index(val_set: Any) -> Tensor | None:
    """The positions of trusted samples that are part of the training set; None for others."""
    return val_set.index if isinstance(val_set, TrustedSamples) else None


def _check_unit(unit: str, num_train: int | None, transform: Any, exact: bool) -> None:
    if unit not in ("sample", "element"):
        raise ValueError(f'unit must be "sample" or "element", got {unit!r}')
    if unit == "element" and num_train is not None:
        raise ValueError('unit="element" needs num_train=None: weights of elements are not stored by index')
    if unit == "element" and (exact or transform != "loss"):
        raise ValueError('unit="element" compares the losses of the training pass: leave transform and exact unset')


def _resolve_transform(transform: Literal["loss"] | Transform, ranks: bool) -> Transform:
    if isinstance(transform, str):
        if transform != "loss":
            raise ValueError(f'transform must be "loss" or adiw.Features(layer, ...), got {transform!r}')
        return LossAndLabel() if ranks else LossValue()
    if not isinstance(transform, Transform):
        raise TypeError(f'transform must be "loss" or an instance such as adiw.Features("layer"), got {transform!r}')
    return transform
