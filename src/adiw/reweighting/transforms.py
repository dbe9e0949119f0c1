"""Transforms: z, the values that are matched, from the losses or features of a batch; as one group or by class."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.hooks import RemovableHandle

from adiw.argument_checks import check_count, check_labels


class TransformedBatch(NamedTuple):
    """z (n, d) of a batch, and the group of each sample (n,) int64, None for one group."""

    z: Tensor
    group: Tensor | None


class LossValue:
    """z is the loss of each sample, one group (Algorithm 1).

    >>> LossValue().apply(torch.tensor([0.3, 2.0]), None, None).z
    tensor([[0.3000],
            [2.0000]])
    """

    num_groups = 1
    minimum = 1  # samples that a group needs on either side to be estimated

    def apply(self, losses: Tensor, targets: object, features: Tensor | None) -> TransformedBatch:
        """z and groups of a batch, from losses (n,), targets, and the caller's features (n, ...) or None."""
        return TransformedBatch(losses.unsqueeze(1), None)

    def class_factor(self, group: Tensor) -> Tensor | None:
        """The factor of each sample's weight in the loss, by its class, (n,); None if all factors are one."""
        return None

    def attach(self, model: nn.Module) -> None:
        """Register the hooks that the transform needs on this model."""

    def take_output(self) -> Tensor | None:
        """The output of a hidden layer in the model's last pass, which is then forgotten; None without a hook."""
        return None

    def __repr__(self) -> str:
        return "LossValue()"


class LossAndLabel(LossValue):
    """z is the loss of each sample; the group is its label where targets are integers (n,).

    >>> LossAndLabel().apply(torch.tensor([0.3, 2.0]), torch.tensor([1, 0]), None).group
    tensor([1, 0])
    """

    def apply(self, losses: Tensor, targets: object, features: Tensor | None) -> TransformedBatch:
        return TransformedBatch(losses.unsqueeze(1), self.groups(losses, targets))

    def groups(self, losses: Tensor, targets: object) -> Tensor | None:
        """The group of each sample, (n,); None where targets are not labels."""
        if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.shape != losses.shape:
            return None
        return targets.long()

    def __repr__(self) -> str:
        return "LossAndLabel()"


class Features:
    """z is the output of a hidden layer, scaled to length one and matched class by class (Algorithm 2).

    Args:
        layer: the module whose output is z, or its dotted name in the model; None when every call passes
            ``features=`` and ``forward`` returns (outputs, targets, features) for validation batches.
        class_prior: ratio r_y = p_test(y) / p_train(y) of each class (C,), e.g. from ``class_prior_ratio``. The
            estimate is stored without it; the weights in the loss are multiplied by it.
        num_classes: C; not needed with ``class_prior``. Without either, all samples are one group (regression).

    A class with fewer than two samples in either batch keeps its weights; when that holds for all classes, all
    weights of the batch are zero.
    """

    def __init__(
        self,
        layer: str | nn.Module | None = None,
        class_prior: Tensor | None = None,
        num_classes: int | None = None,
    ) -> None:
        if not (layer is None or isinstance(layer, str | nn.Module)):
            raise TypeError(f"layer must be a module of the model, its dotted name, or None, got {layer!r}")
        if num_classes is not None:
            check_count("num_classes", num_classes, least=1)
        if class_prior is not None:
            vector = isinstance(class_prior, Tensor) and class_prior.ndim == 1 and not class_prior.is_complex()
            if not vector or not bool(((class_prior >= 0) & class_prior.isfinite()).all()):
                raise ValueError("class_prior must be one ratio per class, (C,), at least 0")
            if num_classes not in (None, len(class_prior)):
                raise ValueError(f"num_classes is {num_classes}, but class_prior has {len(class_prior)} entries")
            num_classes = len(class_prior)
        self.layer, self.class_prior = layer, class_prior
        self.classwise = num_classes is not None
        self.num_groups, self.minimum = num_classes or 1, 2 if self.classwise else 1
        self._output: Tensor | None = None
        self._hook: RemovableHandle | None = None

    def attach(self, model: nn.Module) -> None:
        """Register a hook on the layer of this model."""
        if self.layer is None:
            return
        # torch.compile adds the level "_orig_mod" to names; users write names without it.
        names = {name.replace("_orig_mod.", ""): module for name, module in model.named_modules()}
        if isinstance(self.layer, str) and self.layer not in names:
            known = ", ".join(name for name in names if name)
            raise ValueError(f"Features: the model has no layer {self.layer!r}; it has {known}")
        module = names[self.layer] if isinstance(self.layer, str) else self.layer
        if all(module is not known for known in names.values()):
            raise ValueError("Features: the layer is not part of the model: pass one of model.named_modules()")
        self.detach()
        self._hook = module.register_forward_hook(self._store_output)

    def detach(self) -> None:
        """Remove the hook from the model."""
        if self._hook is not None:
            self._hook.remove()

    @property
    def hook_id(self) -> int | None:
        """The key of the hook among those of the layer; None without a hook."""
        return None if self._hook is None else self._hook.id

    def _store_output(self, module: nn.Module, inputs: object, output: Tensor) -> None:
        self._output = output.detach()

    def take_output(self) -> Tensor | None:
        """The layer's output in the model's last forward pass, then None until the next pass."""
        output, self._output = self._output, None
        return output

    def apply(self, losses: Tensor, targets: object, features: Tensor | None) -> TransformedBatch:
        features = self.take_output() if features is None else features.detach()
        if features is None:
            where = "its layer has not run since the last call" if self.layer is not None else "it has no layer"
            raise ValueError(f"Features: no hidden-layer output ({where}); run the model first, or pass features=")
        if len(features) != len(losses):
            raise ValueError(
                f"Features: {len(features)} hidden-layer outputs for {len(losses)} losses: call reweight right after "
                "the forward pass of its batch"
            )
        z = features.flatten(1).to(losses.dtype)
        largest = z.abs().amax(1, keepdim=True).clamp_min(torch.finfo(z.dtype).tiny)
        z = normalize(z / largest, dim=1)  # divided first: the square of 1e30 overflows, that of 1e-30 underflows
        return TransformedBatch(z, self._groups(losses, targets))

    def _groups(self, losses: Tensor, targets: object) -> Tensor | None:
        if not self.classwise:
            return None
        if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.shape != losses.shape:
            raise ValueError(
                "Features: class-wise estimation needs integer targets (n,), one class per sample; without "
                "class_prior and num_classes all samples are one group"
            )
        known = (targets >= 0) & (targets < self.num_groups)
        return torch.where(known, targets.long(), -1)

    def class_factor(self, group: Tensor) -> Tensor | None:
        """The ratio r_y of each sample's class, (n,); None without ``class_prior``."""
        if self.class_prior is None:
            return None
        self.class_prior = self.class_prior.to(group.device)
        return torch.where(group >= 0, self.class_prior[group.clamp_min(0)], 1)

    def __repr__(self) -> str:
        name = self.layer if isinstance(self.layer, str) else type(self.layer).__name__
        prior = None if self.class_prior is None else [round(r, 6) for r in self.class_prior.tolist()]
        return f"Features({name}, class_prior={prior}, num_groups={self.num_groups})"


Transform = LossValue | Features


def class_prior_ratio(train_labels: Tensor, test_labels: Tensor, num_classes: int) -> Tensor:
    """r_y = p_test(y) / p_train(y) from labels: (num_classes,), zero for classes without training samples.

    >>> class_prior_ratio(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1]), 2)
    tensor([0.6667, 2.0000])
    """
    check_count("num_classes", num_classes, least=1)
    for name, labels in (("train_labels", train_labels), ("test_labels", test_labels)):
        check_labels(name, labels)
        if len(labels) and int(labels.max()) >= num_classes:
            raise ValueError(f"{name} must be below num_classes, {num_classes}, got {int(labels.max())}")
    train = torch.bincount(train_labels.long(), minlength=num_classes) / max(len(train_labels), 1)
    test = torch.bincount(test_labels.long(), minlength=num_classes) / max(len(test_labels), 1)
    return torch.where(train > 0, test / train.clamp_min(torch.finfo(train.dtype).tiny), 0)
