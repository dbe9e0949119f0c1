"""The model's pass over trusted samples, on a GPU as a CUDA graph where the model allows it."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from adiw.distributed.process_group import Processes
from adiw.reweighting.cuda_graphs import GraphedCalls, NotCaptured
from adiw.reweighting.model_evaluator import EvaluatedBatch, ModelEvaluator, Precision, modules_of
from adiw.reweighting.validation_schedule import ValidationSchedule

MOST_CHANGES = 8  # of the model, after which its passes stay eager
LARGE = 256 * 2**20  # bytes of parameters: a longer pass takes longer than its launches, and a graph holds memory
PLAIN = (bool, int, float, str)
INTERNAL = frozenset(vars(nn.Module()))  # attributes that every module has, its mode among them


class GraphedPass:
    """``val_schedule.evaluate_next`` as a CUDA graph, after a few eager calls.

    The graph has the selection and the forward pass; in a single process also the criterion and the storing, if the
    criterion is a module of PyTorch. Others run eagerly: they may be any function, with settings that change. The
    graph is captured again after the model or the criterion has changed, see ``fingerprint``. The passes of a large
    model stay eager.
    """

    def __init__(self, evaluator: ModelEvaluator, val_schedule: ValidationSchedule) -> None:
        self.evaluator, self.val_schedule = evaluator, val_schedule
        self.calls = GraphedCalls("passes over the trusted samples")
        self.fingerprint: Any = None
        self.changes = 0

    def __call__(self, precision: Precision, processes: Processes, dtype: torch.dtype) -> None:
        device = self.val_schedule.order.device
        if self.calls.reason is None:
            self._follow_changes()
        if processes.size == 1 and _is_of_pytorch(self.evaluator.criterion):
            self.calls(partial(self._run_and_store, precision, processes, dtype), (), device, key=(precision, dtype))
            return
        (index, evaluated), _ = self.calls(partial(self._run, precision, processes), (), device, key=precision)
        self.val_schedule.store(index, self.evaluator.transformed(evaluated, dtype), processes)

    def clear(self) -> None:
        """Drop the graphs, after tensors of the validation schedule were replaced."""
        self.calls.clear()

    def _run(self, precision: Precision, processes: Processes) -> tuple[Tensor, EvaluatedBatch]:
        index, samples = self.val_schedule.next_samples(processes)
        evaluated = self.evaluator.run_in_evaluation_mode(samples, precision)
        if evaluated.features is None:  # now: a replay does not call the hook
            evaluated = evaluated._replace(features=self.evaluator.transform.take_output())
        return index, evaluated

    def _run_and_store(self, precision: Precision, processes: Processes, dtype: torch.dtype) -> None:
        index, evaluated = self._run(precision, processes)
        self.val_schedule.store(index, self.evaluator.transformed(evaluated, dtype), processes)

    def _follow_changes(self) -> None:
        """Drop the graphs if the model has changed; stop capturing if it cannot be captured."""
        if self.val_schedule.host_work is not None:
            self.calls.reason = self.val_schedule.host_work  # known when the samples were read: no warning
            return
        try:
            found = fingerprint(self.evaluator.model, self.evaluator.transform)
            if _is_of_pytorch(criterion := self.evaluator.criterion):
                found += fingerprint(criterion, None)
        except NotCaptured as error:
            self.calls.stop(str(error))
            return
        if found != self.fingerprint:
            if sum(parameter.nbytes for parameter in self.evaluator.model.parameters()) > LARGE:
                self.calls.reason = "the model is large"
                return
            self.changes += self.fingerprint is not None
            self.fingerprint = found
            self.calls.clear()
        if self.changes > MOST_CHANGES:
            self.calls.stop(f"the model changed {self.changes} times: a module, a parameter or an attribute")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "fingerprint": None}


def fingerprint(model: nn.Module, transform: Any) -> tuple[Any, ...]:
    """A value that changes if a module, a tensor or a plain attribute of the model is replaced.

    A graph reads the memory of the tensors, so their values may change. The mode is not part of it: passes are in
    evaluation mode. Raises ``NotCaptured`` for a model with forward hooks, which a replay would not call; the hook
    of ``transform`` is allowed.
    """
    own = getattr(transform, "hook_id", None)
    parts: list[Any] = []
    for module in modules_of(model):
        if _has_hooks(module, own):
            raise NotCaptured(f"{type(module).__name__} has forward hooks, which a graph would not call")
        parts.append(id(module))
        parts += [_memory(x) for x in module._parameters.values() if x is not None]
        parts += [_memory(x) for x in module._buffers.values() if x is not None]
        kind: type = type(module)
        if not _is_metric(kind):
            parts += _attributes(module)
    return tuple(parts)


def _is_of_pytorch(criterion: Any) -> TypeGuard[nn.Module]:
    """Whether this is a loss of PyTorch, whose attributes are its only settings."""
    return isinstance(criterion, nn.Module) and type(criterion).__module__.startswith("torch.nn.")


def _has_hooks(module: nn.Module, own: int | None) -> bool:
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks or module._forward_pre_hooks:
        return True
    return bool(module._forward_hooks) and any(key != own for key in module._forward_hooks)


def _memory(x: Tensor) -> tuple[Any, ...]:
    try:
        return x.data_ptr(), x.shape, x.stride(), x.dtype
    except RuntimeError as error:  # a tensor without memory of its own, such as a lazy or a distributed parameter
        raise NotCaptured(f"a {type(x).__name__} has no address") from error


def _attributes(module: nn.Module) -> list[Any]:
    """Plain attributes, by name, and the memory of tensors that are not registered."""
    found: list[Any] = []
    attributes = vars(module)
    for name in attributes.keys() - INTERNAL:
        value = attributes[name]
        if isinstance(value, PLAIN):
            found.append((name, value))
        elif isinstance(value, Tensor):
            found.append(_memory(value))
    return found


@cache
def _is_metric(kind: type) -> bool:
    """Whether these are metrics, such as a LightningModule has: their attributes change in every step."""
    return any(base.__module__.startswith("torchmetrics.") for base in kind.__mro__)
