"""L2R and MW-Net as their papers define them, by differentiating through a virtual step, and models for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

Batch = tuple[Tensor, Tensor]
CRITERION = nn.CrossEntropyLoss(reduction="none")


def losses_at(model: nn.Module, theta: dict[str, Tensor], batch: Batch) -> Tensor:
    """Per-sample losses in the model's current mode; the running averages of batch norm change on copies only."""
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    with sdpa_kernel(SDPBackend.MATH):  # the fused attention has no second derivative
        outputs = functional_call(model, {**theta, **buffers}, (batch[0],))
    return cross_entropy(outputs, batch[1], reduction="none")


def l2r_weights(model: nn.Module, train: Batch, val: Batch, step_size: float = 0.1) -> Tensor:
    """Algorithm 1 of Ren et al. (2018): a virtual step through eps = 0, and the gradient of eps: (n,), sum one."""
    theta = dict(model.named_parameters())
    eps = torch.zeros(len(train[1]), dtype=train[0].dtype, requires_grad=True)
    virtual_loss = (eps * losses_at(model, theta, train)).sum()
    gradients = torch.autograd.grad(virtual_loss, list(theta.values()), create_graph=True)
    ahead = {name: p - step_size * g for (name, p), g in zip(theta.items(), gradients, strict=True)}
    (descent,) = torch.autograd.grad(losses_at(model, ahead, val).mean(), eps)
    weights = (-descent).clamp_min(0)
    total = weights.sum()
    return (weights / total if total > 0 else weights).detach()


def mwnet_gradient(model: nn.Module, network: nn.Module, train: Batch, val: Batch, rate: float) -> list[Tensor]:
    """d L_val(theta_hat(psi)) / d psi of Shu et al. (2019), through the virtual step."""
    theta = dict(model.named_parameters())
    losses = losses_at(model, theta, train)
    weights = network(losses.detach()[:, None])[:, 0]
    gradients = torch.autograd.grad((weights * losses).mean(), list(theta.values()), create_graph=True)
    ahead = {name: p - rate * g for (name, p), g in zip(theta.items(), gradients, strict=True)}
    return list(torch.autograd.grad(losses_at(model, ahead, val).mean(), list(network.parameters())))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn() -> nn.Module:
    head = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), head)


def batch_norm() -> nn.Module:
    head = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    return nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), head)


class Attention(nn.Module):
    """Each image's rows attend to each other, by the fused operator."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(6, 12), nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.enter(x).unflatten(3, (3, 4)).unbind(3)
        return self.leave(nn.functional.scaled_dot_product_attention(query, key, value).flatten(1))


class Recurrent(nn.Module):
    """An LSTM over each image's rows; on the CPU it has no forward mode."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.leave = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.leave(self.lstm(x.squeeze(1))[0][:, -1])
        return out


class _Double(torch.autograd.Function):
    """An operator without forward mode."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * gradient


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = mlp()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _Double.apply(self.body(x))
        return out


class Tied(nn.Module):
    """One weight used twice, and a parameter that is not used at all."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.unused = nn.Linear(36, 36), nn.Linear(36, 36), nn.Parameter(torch.ones(2))
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(torch.tanh(self.first(x.flatten(1))))
        return out[:, :3]


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": mlp,
    "cnn": cnn,
    "batch_norm": batch_norm,
    "attention": Attention,
}
FALLBACK: dict[str, Callable[[], nn.Module]] = {"lstm": Recurrent, "custom": Custom}


def build(factory: Callable[[], nn.Module], dtype: torch.dtype = torch.float64) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return factory().to(dtype)


def images(n: int, seed: int, dtype: torch.dtype = torch.float64) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 1, 6, 6, generator=generator, dtype=dtype)
    return x, torch.randint(3, (n,), generator=generator)
