"""The user's own network, given as ``package.module:factory``."""

from __future__ import annotations

from torch import nn

from adiw.user_code import current_directory_first, load


def build_user_model(spec: str, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """Import ``package.module``, call ``factory(input_shape, num_classes)``, and return its network.

    Modules in the current directory are found, as with ``python -m``. Exceptions in the user's code are raised
    unchanged.

    >>> build_user_model("adiw.models.mlp:MLP", (64,), 10).head
    Linear(in_features=256, out_features=10, bias=True)
    """
    factory = load(spec, "model", "a function or class", "package.module:factory", "my_models:build")
    with current_directory_first():
        model = factory(input_shape, num_classes)
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise ValueError(f"model {spec!r}: expected a torch.nn.Module from the factory, got type {kind}; return one")
    return model
