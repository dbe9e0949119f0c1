"""Networks: each is built by factory(input_shape, num_classes) and names the layer of its features.

``model.feature_layer`` is the dotted name of the submodule whose output is the last hidden representation.
A new network is one file, and one line in the table below.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import SequenceMatcher

from torch import nn

from adiw.models.lenet5 import LeNet5
from adiw.models.mlp import MLP
from adiw.models.resnet18 import ResNet18, resnet18, resnet18_cifar
from adiw.user_code import current_directory_first, load

__all__ = ["MLP", "MODELS", "LeNet5", "ResNet18", "build", "resnet18", "resnet18_cifar"]

MODELS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "mlp": MLP,
    "lenet5": LeNet5,
    "resnet18": resnet18,
    "resnet18-cifar": resnet18_cifar,
}
"""The names that ``build`` accepts, and the factory of each network."""


def build(name: str, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The network of that name in ``MODELS``, or what the user's own ``package.module:factory`` returns.

    The module is searched for in the current directory first, as with ``python -m``.

    >>> type(build("lenet5", (1, 28, 28), 10)).__name__
    'LeNet5'
    >>> build("lenet", (3, 32, 32), 10)
    Traceback (most recent call last):
    ValueError: model 'lenet': expected one of lenet5, resnet18, resnet18-cifar, mlp, or package.module:factory
    """
    if ":" in name:
        factory = load(name, "model", "a function or class", "package.module:factory", "my_models:build")
        with current_directory_first():
            model = factory(input_shape, num_classes)
        if not isinstance(model, nn.Module):
            kind = type(model).__name__
            raise ValueError(
                f"model {name!r}: expected a torch.nn.Module from the factory, got type {kind}; return one"
            )
        return model
    if name not in MODELS:
        nearest = sorted(MODELS, key=lambda known: -SequenceMatcher(None, name, known).ratio())
        raise ValueError(f"model {name!r}: expected one of {', '.join(nearest)}, or package.module:factory")
    return MODELS[name](input_shape, num_classes)
