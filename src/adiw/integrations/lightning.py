"""Lightning: a callback that owns the weights, and ``weighted_loss`` for ``training_step``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from adiw.integrations import checks
from adiw.integrations.checks import WeightingMethod
from adiw.label_audit import Audit
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.diagnostics.audit import audit
from adiw.reweighting.indexed_with_trusted import Indexed, find_indexed
from adiw.reweighting.model_evaluator import check_trainable
from adiw.reweighting.progress import OnProgress, silent
from adiw.versions import require

require("lightning", "2.4", "lightning")

from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402 (the version is checked first)
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy  # noqa: E402

# ADIW and Indexed are included so that a script needs one import only.
__all__ = ["ADIW", "Indexed", "Reweighting", "weighted_loss"]

NO_INDEX = "wrap the training set, DataLoader(adiw.Indexed(train_set), ...), and unpack x, y, index = batch"


class Reweighting(Callback):
    """Creates a weighting method when ``fit`` starts, checks the indices, logs the weights and checkpoints them.

    Args:
        make: ``make(module, num_train)`` returns the method, e.g.
            ``lambda module, n: ADIW(module, criterion, val_set, n)``. It is called when training starts, with the
            module on its device; ``num_train`` is None for a stream.

    The weights are ``callback.weights``. Their summary is logged at the end of every epoch as ``weights/ess``,
    ``weights/mean`` and so on. Lightning's checkpoints contain the weights: ``trainer.fit(..., ckpt_path=...)``
    resumes with them.

    >>> Reweighting(lambda module, n: ADIW(module, criterion, val_set, n)).state_dict()  # empty before training
    {}
    """

    def __init__(self, make: Callable[[LightningModule, int | None], WeightingMethod]) -> None:
        if not callable(make):
            raise TypeError(f"make must be callable as make(module, num_train), got {type(make).__name__}")
        self.make = make
        self.method: WeightingMethod | None = None
        self._module: LightningModule | None = None  # the module that the method was created for
        self._saved: dict[str, Any] = {}  # a checkpoint's state, until the method exists

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,)."""
        return self._started_method().weights

    def loss(self, outputs: Any, targets: Any, index: Tensor | None = None, inputs: Any = None) -> Tensor:
        """See ``weighted_loss``."""
        weighted: Tensor = self._started_method()(outputs, targets, index, inputs)
        return weighted

    def audit(
        self,
        train_set: Any,
        names: Sequence[str] = (),
        columns: Callable[[int], Mapping[str, Any]] | None = None,
        progress: OnProgress = silent,
    ) -> Audit:
        """The audit of the training set after ``fit``; arguments as for ``adiw.audit``."""
        return audit(self._started_method(), train_set, names=names, columns=columns, progress=progress)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Create the method, or keep the one of an earlier fit of this module; restore a checkpoint's state."""
        _check_strategy(trainer)
        check_trainable(pl_module)
        if self.method is None or self._module is not pl_module:
            made = self.make(pl_module, checks.count_samples(_loader(trainer).dataset))
            self.method, self._module = checks.check_method(made, "make(module, num_train)"), pl_module
        _check_group(trainer, self.method)
        checks.check_repeats(self.method, _loader(trainer))
        self.method.to(pl_module.device)  # before load_state_dict: generators are restored on the device
        if self._saved:
            self.method.load_state_dict(self._saved)
            self._saved = {}

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the length of the training set: Lightning may create a new DataLoader between epochs."""
        checks.check_length(self._started_method(), _loader(trainer).dataset)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Check that batches have an index, before ``training_step`` fails to unpack it."""
        if batch_idx == 0 and not self._started_method().weight_state.is_stream:
            _check_batch(batch, find_indexed(_loader(trainer).dataset) is not None)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the summary of the weights, which are equal in all processes."""
        pl_module.log_dict(checks.weight_metrics(self._started_method()), sync_dist=trainer.world_size > 1)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Warn if the checkpoint has no weights because its run did not use this callback."""
        if trainer.state.fn == "fit" and self.state_key not in checkpoint.get("callbacks", {}):
            warnings.warn(
                "the checkpoint was saved without adiw's Reweighting callback: the weights start at one", stacklevel=2
            )

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Drop a state that was loaded for ``test`` or ``predict``: a later ``fit`` must not use it."""
        self._saved = {}

    def state_dict(self) -> dict[str, Any]:
        """The state that Lightning writes to its checkpoint."""
        return self._saved if self.method is None else self.method.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state for ``on_train_start``: the module is not on its device yet."""
        self._saved = state_dict

    def _started_method(self) -> WeightingMethod:
        if self.method is None:
            raise RuntimeError("there are no weights before training starts: call trainer.fit(...) first")
        return self.method


def weighted_loss(
    module: LightningModule, outputs: Any, targets: Any, index: Tensor | None = None, inputs: Any = None
) -> Tensor:
    """The weighted mean loss mean(w * loss) of a training batch, to be returned by ``training_step``.

    Args:
        module: the LightningModule, ``self`` in ``training_step``.
        outputs, targets: the arguments of the criterion.
        index: (n,) the index of each sample in the training set; None with ``num_train=None``.
        inputs: the inputs of the model, for methods that run it again.
    """
    if not isinstance(module, LightningModule):
        raise TypeError(f"module must be the LightningModule, self in training_step, got {type(module).__name__}")
    if module._trainer is None:
        raise RuntimeError("weighted_loss is for training_step: this module has no Trainer yet")
    callbacks = module.trainer.callbacks  # type: ignore[attr-defined]  # Lightning sets it without declaring it
    found = [callback for callback in callbacks if isinstance(callback, Reweighting)]
    if len(found) != 1:
        raise RuntimeError(
            f"expected one Reweighting callback, found {len(found)}: Trainer(callbacks=[Reweighting(make)], ...)"
        )
    if not module.trainer.training:
        raise RuntimeError("weighted_loss is for training_step: other samples have no weights, use the plain loss")
    return found[0].loss(outputs, targets, index, inputs)


def _check_strategy(trainer: Trainer) -> None:
    """Allow DDP and FSDP2, in which trusted samples can pass through the model before its backward pass."""
    if trainer.world_size > 1 and not isinstance(trainer.strategy, (DDPStrategy, ModelParallelStrategy)):
        raise ValueError(
            f"{type(trainer.strategy).__name__} with {trainer.world_size} processes: trusted samples pass through "
            "the model between its forward and backward pass, which DDP and FSDP2 allow: use "
            'Trainer(strategy="ddp"), or strategy=ModelParallelStrategy() and fully_shard in configure_model'
        )


def _check_group(trainer: Trainer, method: WeightingMethod) -> None:
    """With tensor parallelism the method must know which processes have different data."""
    strategy = trainer.strategy
    if not isinstance(strategy, ModelParallelStrategy) or method.weight_state.process_group is not None:
        return
    if strategy.device_mesh["tensor_parallel"].size() > 1:
        raise ValueError(
            "tensor-parallel processes have the same samples, which would count twice: pass "
            'ADIW(..., process_group=module.device_mesh["data_parallel"].get_group())'
        )


def _loader(trainer: Trainer) -> Any:
    loader = trainer.train_dataloader
    if not hasattr(loader, "dataset"):
        raise TypeError(
            f"expected one DataLoader for training, got {type(loader).__name__}: weights need one training set"
        )
    return loader


def _check_batch(batch: Any, indexed: bool) -> None:
    """A mapping must have the key "index". A tuple has the index last: without ``Indexed`` it needs three parts."""
    if isinstance(batch, Mapping):
        if "index" not in batch:
            raise ValueError(f'batches have no "index", only {", ".join(map(str, batch))}: {NO_INDEX}')
    elif not isinstance(batch, (tuple, list)) or (len(batch) < 3 and not indexed):
        what = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else type(batch).__name__
        raise ValueError(f"batches have no index, got {what}: {NO_INDEX}")
