"""Hugging Face: a mixin that gives ``transformers.Trainer`` weights for its training samples."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from adiw.engine.checkpoint import load_file, save_file
from adiw.integrations.collated import Collated, KeepIndex
from adiw.integrations.method import Method, check_method, health
from adiw.integrations.training_set import check_length, check_repeats, count_samples, numbered_part
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.indexed import Indexed
from adiw.reweighting.model_evaluator import check_trainable
from adiw.versions import require

require("transformers", "5.6", "hf")
require("accelerate", "1.3", "hf")

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = object  # a mixin: the Trainer is the class beside it

__all__ = ["ADIW", "Collated", "Indexed", "ReweightingMixin", "classify"]

FILE = "adiw.pt"  # in each checkpoint folder


def classify(model: nn.Module, batch: Mapping[str, Any]) -> tuple[Any, Any]:
    """(logits, labels) of a classifier for a batch of columns, for loops of one's own.

    A batch to train on must have the column "index", which the model does not see.
    """
    if not isinstance(model, nn.Module) or not isinstance(batch, Mapping):
        raise TypeError(
            f"classify takes a model and a batch of columns by name, got {type(model).__name__} and "
            f"{type(batch).__name__}"
        )
    if model.training and "index" not in batch:
        raise ValueError(
            f'batches have no "index", only {", ".join(batch)}: wrap the training set, '
            "DataLoader(Indexed(train_set), ...)"
        )
    return _logits_and_labels(model, {key: value for key, value in batch.items() if key != "index"})


def _logits_and_labels(model: nn.Module, batch: dict[str, Any]) -> tuple[Any, Any]:
    if "labels" not in batch:
        raise ValueError(
            f'batches have no "labels", only {", ".join(batch)}: a model whose forward has no such argument needs '
            'TrainingArguments(label_names=["labels"]), and other names an outputs_and_targets of their own'
        )
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    outputs = model(**inputs)
    if not hasattr(outputs, "logits"):
        raise TypeError(
            f"the model gave {type(outputs).__name__} without .logits: use a model for classification, or an "
            "outputs_and_targets of your own"
        )
    return outputs.logits, batch["labels"]


def _shown(pair: Any) -> str:
    return f"{len(pair)} values" if isinstance(pair, tuple) else type(pair).__name__


class ReweightingMixin(Trainer):
    """``class ReweightedTrainer(ReweightingMixin, Trainer): trusted_set = trusted_set``, and train as ever.

    The training samples get their numbers here; they pass ``remove_unused_columns`` and the data collator. The
    weights are ``trainer.weights``; their health is logged with the loss. Checkpoints hold them in ``adiw.pt``, and
    ``train(resume_from_checkpoint=...)`` goes on from it.

    Attributes:
        trusted_set: the trusted samples, like those of ``train_dataset``.
        method: the weighting method, made when training starts.
    """

    trusted_set: Any = None
    method: Method | None = None
    _method_of: Any = None  # the model that the method was made for
    _signature_columns: Any  # the Trainer's: the columns that may stay

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> Method:
        """The weighting method; override it for other settings or another criterion than cross-entropy.

        ``val_set`` are the trusted samples as the data collator gives them, on which ``outputs_and_targets`` runs.
        """
        criterion = nn.CrossEntropyLoss(reduction="none")
        return ADIW(model, criterion, val_set, num_train, forward=self.outputs_and_targets)

    def outputs_and_targets(self, model: nn.Module, batch: dict[str, Any]) -> tuple[Any, Any]:
        """What the criterion takes, for training and trusted batches: by default logits and labels."""
        return _logits_and_labels(model, batch)

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,)."""
        if self.method is None:
            raise RuntimeError("there are no weights before training starts: call trainer.train() first")
        return self.method.weights

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """mean(w * loss) while training; in evaluation the Trainer's own loss."""
        if not model.training or self.method is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if "index" not in inputs:
            raise ValueError(
                f'batches have no "index", only {", ".join(inputs)}: a get_train_dataloader of your own must come '
                "after ReweightingMixin in the bases of the class, which adds it"
            )
        batch = dict(inputs)
        index = batch.pop("index")
        pair = self.outputs_and_targets(model, batch)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"outputs_and_targets must return (outputs, targets), got {_shown(pair)}")
        outputs, targets = pair
        loss = self.method(outputs, targets, index, batch)
        return (loss, {"logits": outputs}) if return_outputs else loss

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: torch.device) -> tuple[Any, None]:
        """The Trainer's own small batches, uncounted: their losses are means, so it divides by their number."""
        samples, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        return samples, None

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The Trainer's own loader, whose batches also have "index"; makes the method when there is none."""
        self._get_ready(self.model)
        self._set_signature_columns_if_needed()
        columns, dataset, collator = self._signature_columns, self.train_dataset, self.data_collator
        try:
            self._signature_columns = [*columns, "index"]  # for this loader only
            self.train_dataset = dataset if numbered_part(dataset) else Indexed(dataset)
            self.data_collator = KeepIndex(collator)
            loader = super().get_train_dataloader()
        finally:
            self._signature_columns, self.train_dataset, self.data_collator = columns, dataset, collator
        assert self.method is not None  # _get_ready made it
        check_repeats(self.method, loader)
        return loader

    def _get_ready(self, model: Any) -> None:
        """Make the method, or check that the one of an earlier call still fits."""
        check_trainable(model)
        self._check_settings()
        num_train = count_samples(self.train_dataset)
        if self.method is None or self._method_of is not model:
            loader = self.get_test_dataloader(self.trusted_set)  # for its collator: unused columns are removed
            trusted = Collated(loader.dataset, loader.collate_fn)
            self.method = check_method(self.make_reweight(model, trusted, num_train), "make_reweight")
            self._method_of = model
        check_length(self.method, self.train_dataset)

    def _check_settings(self) -> None:
        if self.trusted_set is None:
            raise ValueError(
                "there is no trusted set: class ReweightedTrainer(ReweightingMixin, Trainer): trusted_set = ..."
            )
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            raise ValueError(
                "DeepSpeed and FSDP split the model, and trusted samples need all of it in every process: leave them "
                "out, and several processes train with DistributedDataParallel"
            )
        if self.compute_loss_func is not None or self.args.label_smoothing_factor > 0:
            raise ValueError(
                "compute_loss_func and label_smoothing_factor would not be used: override make_reweight and give "
                "ADIW a criterion with one loss per sample"
            )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the health of the weights beside the training loss."""
        if "loss" in logs and self.method is not None:
            logs = {**logs, **health(self.method)}
        super().log(logs, start_time)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """The weights go where the optimizer goes: ``save_only_model`` leaves both out."""
        super()._save_optimizer_and_scheduler(output_dir)
        if self.method is not None and self.args.should_save:  # all processes have the same
            save_file(Path(output_dir, FILE), self.method.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None or self.method is None:
            return
        path = Path(checkpoint, FILE)
        if path.exists():
            self.method.load_state_dict(load_file(path, self.args.device, "go on with weights of one"))
        else:
            warnings.warn(f"{path} is not there: the weights start at one", stacklevel=2)
