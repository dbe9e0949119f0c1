"""The network, the optimizer and the learning rate of a run."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from adiw.engine.preprocessing import NormalizedNetwork
from adiw.experiments.settings import Settings, SettingsError
from adiw.experiments.splits import Splits
from adiw.models import build as build_network


def build_model(settings: Settings, splits: Splits) -> nn.Module:
    """The network, which scales the stored samples first."""
    data = splits.data
    network = build_network(settings.model, data.input_shape, data.num_classes)
    return NormalizedNetwork(network, data.mean, data.std, settings.channels_last)


def feature_layer(model: nn.Module) -> str:
    """The name of the hidden layer of a network from ``build_model``, which the network states."""
    layer = getattr(model.network, "feature_layer", None)
    if not isinstance(layer, str):
        raise SettingsError(
            "features need a network with an attribute feature_layer that names its hidden layer, for --transform "
            "features and two-step methods"
        )
    return f"network.{layer}"


def build_optimizer(settings: Settings, model: nn.Module) -> Optimizer:
    """SGD or Adam. On a GPU it is fused, with the learning rate as a tensor: a captured graph can then change it."""
    device = next(model.parameters()).device
    on_gpu = device.type == "cuda"
    rate: Any = torch.tensor(settings.lr, device=device) if on_gpu else settings.lr
    decay, fused = settings.weight_decay, True if on_gpu else None
    if settings.optimizer == "sgd":
        return SGD(model.parameters(), lr=rate, momentum=settings.momentum, weight_decay=decay, fused=fused)
    return Adam(model.parameters(), lr=rate, weight_decay=decay, fused=fused, capturable=on_gpu)


def learning_rate(settings: Settings, epoch: int) -> float:
    """The learning rate of an epoch; the first epoch is 0."""
    return settings.lr * settings.decay ** (epoch // settings.decay_every)


def load_optimizer_state(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Load ``state``, but keep the options that depend on the device, so that a GPU can resume a run of a CPU."""
    groups = []
    for saved, own in zip(state["param_groups"], optimizer.param_groups, strict=True):
        groups.append({**saved, **{key: own[key] for key in ("lr", "fused", "capturable") if key in own}})
    optimizer.load_state_dict({**state, "param_groups": groups})
