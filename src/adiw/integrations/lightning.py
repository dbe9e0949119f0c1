"""Lightning: a callback for index, probe, checkpoint and logging, and one call in ``training_step``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from adiw.integrations.method import Method, check_method, health
from adiw.integrations.training_set import check_length, check_repeats, count_samples, numbered_part
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.indexed import Indexed
from adiw.reweighting.model_evaluator import check_trainable
from adiw.versions import require

require("lightning", "2.4", "lightning")

from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402 (the version is checked first)
from lightning.pytorch.strategies import DDPStrategy  # noqa: E402

# With ADIW and Indexed, one import is all that a script changes at its top.
__all__ = ["ADIW", "Indexed", "Reweighting", "weighted_loss"]

NO_INDEX = "wrap the training set, DataLoader(adiw.Indexed(train_set), ...), and unpack x, y, index = batch"


class Reweighting(Callback):
    """Owns a weighting method during ``fit``: makes it, checks the indices, logs its health, saves and restores it.

    Args:
        make: ``make(module, num_train)`` gives the method, e.g.
            ``lambda module, n: ADIW(module, criterion, val_set, n)``. It is called when training starts, with the
            module on its device.

    The weights are ``callback.weights``. Health is logged at the end of every epoch as ``weights/ess``,
    ``weights/mean`` and so on. All of it is part of Lightning's checkpoints: ``trainer.fit(..., ckpt_path=...)``
    goes on with the same weights.

    >>> Reweighting(lambda module, n: ADIW(module, criterion, val_set, n)).state_dict()  # nothing before training
    {}
    """

    def __init__(self, make: Callable[[LightningModule, int], Method]) -> None:
        if not callable(make):
            raise TypeError(f"make must be called as make(module, num_train), got {type(make).__name__}")
        self.make = make
        self.method: Method | None = None
        self._module: LightningModule | None = None  # the one that the method was made for
        self._saved: dict[str, Any] = {}  # from a checkpoint, until there is a method on its device

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,)."""
        return self._ready().weights

    def loss(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """See ``weighted_loss``."""
        return self._ready()(outputs, targets, index, inputs)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Make the method, or keep that of an earlier fit of this module, and go on from a checkpoint."""
        _check_strategy(trainer)
        check_trainable(pl_module)
        if self.method is None or self._module is not pl_module:
            made = self.make(pl_module, count_samples(_loader(trainer).dataset))
            self.method, self._module = check_method(made, "make(module, num_train)"), pl_module
        check_repeats(self.method, _loader(trainer))
        self.method.to(pl_module.device)  # first: random numbers are restored on their device
        if self._saved:
            self.method.load_state_dict(self._saved)
            self._saved = {}

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Loaders may be made anew between epochs: the samples must still be the same ones."""
        check_length(self._ready(), _loader(trainer).dataset)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Say what is missing before ``training_step`` fails to unpack it."""
        if batch_idx == 0:
            _check_batch(batch, numbered_part(_loader(trainer).dataset) is not None)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the health of the weights, which is the same in all processes."""
        pl_module.log_dict(health(self._ready()), sync_dist=trainer.world_size > 1)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """A checkpoint of a run without this callback has no weights: they start at one."""
        if trainer.state.fn == "fit" and self.state_key not in checkpoint.get("callbacks", {}):
            warnings.warn(
                "the checkpoint was made without adiw's Reweighting callback: the weights start at one", stacklevel=2
            )

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """A state that was read for testing or predicting must not reach a later fit."""
        self._saved = {}

    def state_dict(self) -> dict[str, Any]:
        """What Lightning writes into its checkpoint."""
        return self._saved if self.method is None else self.method.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep what Lightning read, for ``on_train_start``: the module is not on its device yet."""
        self._saved = state_dict

    def _ready(self) -> Method:
        if self.method is None:
            raise RuntimeError("there are no weights before training starts: call trainer.fit(...) first")
        return self.method


def weighted_loss(module: LightningModule, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
    """mean(w * loss) of a training batch: what ``training_step`` returns.

    Args:
        module: the LightningModule, ``self`` in ``training_step``.
        outputs, targets: as the criterion takes them.
        index: (n,) each sample's number in the training set.
        inputs: the inputs of the pass, for methods that run the model again.
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
        raise RuntimeError("weighted_loss is for training_step: elsewhere samples have no weights, use your own loss")
    return found[0].loss(outputs, targets, index, inputs)


def _check_strategy(trainer: Trainer) -> None:
    """Every process must have the whole model, for it runs a part of the trusted samples through it."""
    if trainer.world_size > 1 and not isinstance(trainer.strategy, DDPStrategy):
        raise ValueError(
            f"{type(trainer.strategy).__name__} with {trainer.world_size} processes may split the model, and trusted "
            'samples need all of it: use Trainer(strategy="ddp")'
        )


def _loader(trainer: Trainer) -> Any:
    loader = trainer.train_dataloader
    if not hasattr(loader, "dataset"):
        raise TypeError(
            f"expected one DataLoader for training, got {type(loader).__name__}: weights belong to one training set"
        )
    return loader


def _check_batch(batch: Any, numbered: bool) -> None:
    """A mapping has the key "index"; a tuple has it last, and without ``Indexed`` needs room for x and y as well."""
    if isinstance(batch, Mapping):
        if "index" not in batch:
            raise ValueError(f'batches have no "index", only {", ".join(map(str, batch))}: {NO_INDEX}')
    elif not isinstance(batch, (tuple, list)) or (len(batch) < 3 and not numbered):
        what = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else type(batch).__name__
        raise ValueError(f"batches have no index, got {what}: {NO_INDEX}")
