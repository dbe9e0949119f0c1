"""Hugging Face: a mixin for ``transformers.Trainer`` that weights its training samples, and help for accelerate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from adiw.engine.checkpoint import load_file, save_file
from adiw.integrations import checks
from adiw.integrations.checks import WeightingMethod
from adiw.integrations.data_collators import Collated, CollateWithIndex, PackedRows, apart
from adiw.integrations.token_losses import IGNORED, ClassLosses, by_sequence, check_labels, labels_of, predicts_next
from adiw.label_audit import Audit
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.diagnostics.audit import audit
from adiw.reweighting.indexed_with_trusted import Indexed, TrustedSamples, find_indexed
from adiw.reweighting.model_evaluator import check_trainable
from adiw.reweighting.progress import OnProgress, silent
from adiw.versions import require

require("transformers", "5.6", "hf")
require("accelerate", "1.3", "hf")

if TYPE_CHECKING:
    from transformers import Trainer
else:
    Trainer = object  # the user's class has transformers.Trainer as its second base

__all__ = ["ADIW", "ClassLosses", "Collated", "Indexed", "ReweightingMixin", "classify"]

FILE = "adiw.pt"  # in each checkpoint folder


def classify(model: nn.Module, batch: Mapping[str, Any]) -> tuple[Any, Any]:
    """(logits, labels) of a model for a batch of columns, for custom training loops.

    The labels of a language model are shifted: each is the token after the one that the logits belong to.

    A training batch must have the column "index", which is not passed to the model.
    """
    if not isinstance(model, nn.Module) or not isinstance(batch, Mapping):
        raise TypeError(
            f"classify takes a model and a batch that maps names to columns, got {type(model).__name__} and "
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
            f'batches have no "labels", only {", ".join(batch)}: if the forward of the model has no argument labels, '
            'use TrainingArguments(label_names=["labels"]); for other names, override outputs_and_targets'
        )
    if isinstance(batch["labels"], Tensor) and batch["labels"].numel() == 0:
        raise ValueError(f"labels are {tuple(batch['labels'].shape)}: leave out sequences of length zero")
    inputs = {key: value for key, value in batch.items() if key not in ("labels", "shift_labels")}
    outputs = model(**inputs)
    if not hasattr(outputs, "logits"):
        raise TypeError(
            f"the model returned {type(outputs).__name__} without .logits: use a model for classification, or "
            "override outputs_and_targets"
        )
    return outputs.logits, labels_of(model, batch)


def _shown(pair: Any) -> str:
    return f"{len(pair)} values" if isinstance(pair, tuple) else type(pair).__name__


class ReweightingMixin(Trainer):
    """Weights the training samples of a Trainer: ``class WeightedTrainer(ReweightingMixin, Trainer)``.

    The mixin adds the column "index" to the training samples and keeps it through ``remove_unused_columns`` and the
    data collator. The weights are ``trainer.weights``, and their summary is logged with the loss. Checkpoints hold
    them in ``adiw.pt``, from which ``train(resume_from_checkpoint=...)`` resumes.

    Attributes:
        trusted_set: the trusted samples, with the columns of ``train_dataset``; not needed where the training set is
            ``adiw.Indexed(train_set, trusted)``, which trains on them as well.
        join_trusted: also train on the ``trusted_set``, for trainers such as trl's ``SFTTrainer`` that do not accept
            an ``adiw.Indexed``.
        whole_step: estimate the weights of an optimizer step together, also where it accumulates gradients, with
            ``ADIW.look_ahead``: a step then has one forward pass more.
        method: the weighting method, created when training starts.
    """

    trusted_set: Any = None
    join_trusted: bool = False
    whole_step: bool = False
    method: WeightingMethod | None = None
    _method_of: Any = None  # the model that the method was created for
    _formatting_func: Any  # set by trl's SFTTrainer
    _signature_columns: Any  # set by the Trainer: the columns that remove_unused_columns keeps

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int | None) -> WeightingMethod:
        """Create the weighting method; override it for other settings or for another criterion than cross-entropy.

        ``val_set`` has the trusted samples after the data collator, as ``outputs_and_targets`` takes them;
        ``num_train`` is None for a stream.
        """
        criterion, forward = ClassLosses(), self.outputs_and_targets
        if not predicts_next(model):
            return ADIW(model, criterion, val_set, num_train, forward=forward)
        # Trusted sequences need no more memory than a training batch, in every process.
        refresh = self.args.train_batch_size * self.args.world_size
        every = 4 if self.whole_step else 4 * self.args.gradient_accumulation_steps
        return ADIW(model, criterion, val_set, num_train, forward=forward, val_refresh=refresh, val_every=every)

    def outputs_and_targets(self, model: nn.Module, batch: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments of the criterion for a training or trusted batch: logits and labels unless overridden."""
        return _logits_and_labels(model, batch)

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,)."""
        if self.method is None:
            raise RuntimeError("there are no weights before training starts: call trainer.train() first")
        return self.method.weights

    def audit(
        self,
        names: Sequence[str] = (),
        columns: Callable[[int], Mapping[str, Any]] | None = None,
        progress: OnProgress = silent,
    ) -> Audit:
        """The audit of the training set after ``train``, in one process; arguments as for ``adiw.audit``."""
        if self.method is None:
            raise RuntimeError("there is nothing to audit before training starts: call trainer.train() first")
        train_set: Any = self.train_dataset
        loader = self.get_test_dataloader(train_set)  # without unused columns
        dataset = loader.dataset if find_indexed(loader.dataset) else Indexed(loader.dataset)
        collate = CollateWithIndex(apart(loader.collate_fn))
        batches: Any = DataLoader(dataset, self.args.per_device_eval_batch_size, collate_fn=collate)
        return audit(self.method, batches, names=names, columns=columns, progress=progress)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """mean(w * loss) in training; the Trainer's own loss in evaluation.

        With ``num_items_in_batch``, it is sum(w * loss) of this batch / the number of items of the optimizer step.
        """
        if not model.training or self.method is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        outputs, targets, index, batch = self._split(model, inputs)
        loss = self.method(outputs, targets, index, batch)
        if num_items_in_batch is not None:
            loss = loss * self._share(labels_of(model, batch), num_items_in_batch)
        return (loss, {"logits": outputs}) if return_outputs else loss

    def _split(self, model: nn.Module, inputs: dict[str, Any]) -> tuple[Any, Any, Tensor | None, dict[str, Any]]:
        """Outputs, targets and index (None of a stream) of a training batch, and its other columns."""
        if "index" not in inputs:
            raise ValueError(
                f'batches have no "index", only {", ".join(inputs)}: a class that overrides get_train_dataloader '
                "must come after ReweightingMixin in the bases, because the mixin adds the index there"
            )
        batch = dict(inputs)
        index = batch.pop("index")
        pair = self.outputs_and_targets(model, batch)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"outputs_and_targets must return (outputs, targets), got {_shown(pair)}")
        outputs, targets = pair[0], by_sequence(pair[1], batch, len(index))
        assert self.method is not None  # created by _prepare_method
        return outputs, targets, None if self.method.weight_state.is_stream else index, batch

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Any:
        """The batches of an optimizer step. With ``whole_step`` their weights are estimated here."""
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        if self.whole_step and batches:
            method: Any = self.method
            with self.compute_loss_context_manager():
                prepared = [self._prepare_inputs(batch) for batch in batches]
                method.look_ahead(prepared, lambda batch: self._split(method.evaluator.model, batch)[:2])
        return batches, num_items

    def _share(self, labels: Tensor, num_items_in_batch: Any) -> Tensor:
        """The items of this batch divided by those of the optimizer step, of all processes together."""
        items, total = (labels != IGNORED).sum(), torch.as_tensor(num_items_in_batch).max()
        if self.args.world_size > 1:
            items = self.accelerator.reduce(items)
            total = total * (1 if self.args.average_tokens_across_devices else self.args.world_size)
        return items / total.clamp_min(1)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The Trainer's DataLoader with "index" in its batches; creates the method if there is none."""
        self._prepare_method(self.model)
        self._set_signature_columns_if_needed()
        columns, dataset, collator = self._signature_columns, self.train_dataset, self.data_collator
        try:
            self._signature_columns = [*columns, "index"]  # for this loader only
            indexed = not checks.is_stream(dataset)
            if indexed:
                self.train_dataset = self._packed(dataset if find_indexed(dataset) else Indexed(dataset))
            self.data_collator = CollateWithIndex(collator, indexed)
            loader = super().get_train_dataloader()
        finally:
            self._signature_columns, self.train_dataset, self.data_collator = columns, dataset, collator
        assert self.method is not None  # created by _prepare_method
        checks.check_repeats(self.method, loader)
        return loader

    def _packed(self, dataset: Any) -> Any:
        """The training samples in rows where trl is to pack them, otherwise as they are."""
        if not self._packs:
            return dataset
        args: Any = self.args
        rows = PackedRows(dataset, args.max_length)
        assert self.method is not None  # created by _prepare_method
        number = args.gradient_accumulation_steps if self.whole_step else 1
        self.method.weight_state.largest_batch = rows.largest_batch(args.train_batch_size * number)
        return rows

    def _prepare_method(self, model: Any) -> None:
        """Create the method, or check that the method of an earlier call fits the training set."""
        check_trainable(model)
        self._check_settings()
        if self.join_trusted and checks.joined_samples(self.train_dataset) is None:
            self.train_dataset = Indexed(self.train_dataset, self._prepared(self.trusted_set))
        num_train = checks.count_samples(self.train_dataset)
        if self.method is None or self._method_of is not model:
            joined = checks.joined_samples(self.train_dataset)
            loader = self.get_test_dataloader(self._prepared(self.trusted_set) if joined is None else joined)
            trusted: Any = Collated(loader.dataset, loader.collate_fn)  # the collator removes unused columns
            check_labels(model, trusted.columns)
            if joined is not None:
                trusted = TrustedSamples(trusted, joined.index)
            self.method = checks.check_method(self.make_reweight(model, trusted, num_train), "make_reweight")
            if self.whole_step and not hasattr(self.method, "look_ahead"):
                raise TypeError(f"whole_step needs ADIW, which has look_ahead, got {type(self.method).__name__}")
            self._method_of = model
            if self.is_fsdp_enabled:  # the model is moved to its device later, when it is split
                self.method.to(self.args.device)
        checks.check_length(self.method, self.train_dataset)

    def _prepared(self, trusted: Any) -> Any:
        """The trusted samples as trl's ``SFTTrainer`` prepares training samples: with tokens and labels."""
        if getattr(self, "_skip_prepare_dataset", True):  # of trl's SFTTrainer
            return trusted
        args: Any = copy(self.args)
        args.shuffle_dataset = False
        return self._prepare_dataset(trusted, self.processing_class, args, False, self._formatting_func, "trusted")

    @property
    def _packs(self) -> bool:
        """Whether this is trl's ``SFTTrainer``, which is to pack the training samples that it has prepared."""
        return getattr(self.args, "packing", False) and not getattr(self, "_skip_prepare_dataset", True)

    def _prepare_dataset(
        self, dataset: Any, processing_class: Any, args: Any, packing: bool, formatting_func: Any, dataset_name: str
    ) -> Any:
        """As trl's ``SFTTrainer``, but training samples stay apart: they are packed once they have an index."""
        packing = packing and dataset_name != "train"
        prepare: Any = super()._prepare_dataset  # type: ignore[misc]
        return prepare(dataset, processing_class, args, packing, formatting_func, dataset_name)

    def _check_settings(self) -> None:
        if self.trusted_set is None and checks.joined_samples(self.train_dataset) is None:
            raise ValueError(
                "there is no trusted set: class WeightedTrainer(ReweightingMixin, Trainer): trusted_set = ..."
            )
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        if self.is_deepspeed_enabled or (self.is_fsdp_enabled and getattr(plugin, "fsdp_version", 1) != 2):
            raise ValueError(
                "trusted samples pass through the model between its forward and backward pass, which DeepSpeed and "
                'FSDP1 do not allow: use FSDP2, TrainingArguments(fsdp=..., fsdp_config={"version": 2}), or '
                "neither, for DistributedDataParallel"
            )
        strategy = getattr(self.args, "packing_strategy", "bfd")
        if self._packs and strategy != "bfd":
            raise ValueError(
                f'packing_strategy="{strategy}" cuts sequences into pieces that are trained on in '
                'different steps, so that a sequence has no loss of its own: use "bfd", which packs whole sequences'
            )
        if self._packs and checks.is_stream(self.train_dataset):
            raise ValueError(
                "packing=True needs a training set with a length, of which the longest sequences are packed first: "
                "for a stream use padding_free=True"
            )
        loss_type = getattr(self.args, "loss_type", "nll")  # of trl's SFTConfig
        if loss_type != "nll":
            raise ValueError(
                f'loss_type="{loss_type}" would not be used: override make_reweight and pass ADIW a '
                "criterion with one loss per token"
            )
        if self.compute_loss_func is not None or self.args.label_smoothing_factor > 0:
            raise ValueError(
                "compute_loss_func and label_smoothing_factor would not be used: override make_reweight and pass "
                "ADIW a criterion with one loss per sample"
            )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the summary of the weights with the training loss."""
        if "loss" in logs and self.method is not None:
            logs = {**logs, **checks.weight_metrics(self.method)}
        super().log(logs, start_time)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """Save the weights with the optimizer: ``save_only_model`` excludes both."""
        super()._save_optimizer_and_scheduler(output_dir)
        if self.method is not None and self.args.should_save:  # all processes have equal weights
            save_file(Path(output_dir, FILE), self.method.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None or self.method is None:
            return
        path = Path(checkpoint, FILE)
        if path.exists():
            self.method.load_state_dict(load_file(path, self.args.device, "continue with weights of one"))
        else:
            warnings.warn(f"{path} does not exist: the weights start at one", stacklevel=2)
