"""The shared suite of the baselines: one case per class, a toy problem, and checks that each case must pass."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from adiw import baselines

Factory = Callable[..., nn.Module]
N, BATCH, CLASSES = 90, 30, 3
CASES: dict[str, Factory] = {
    "Uniform": baselines.Uniform,
    "Random": baselines.Random,
    "Fixed": partial(baselines.Fixed, weights=torch.linspace(0.5, 1.5, N)),
    "L2R": baselines.L2R,
    "MWNet": partial(baselines.MWNet, learning_rate=0.1),
    "DIW": partial(baselines.DIW, width=0.5, warmup_steps=0),
}
NEED_INPUTS = {"L2R", "MWNet", "DIW"}


def make_data(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three classes, one Gaussian each, two standard deviations apart."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (n,), generator=generator)
    return torch.randn(n, 4, generator=generator) + 2 * nn.functional.one_hot(y, 4), y


X, Y = make_data(N, seed=1)
VAL_SET = TensorDataset(*make_data(24, seed=2))


def make_model(batch_norm: bool = False) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        between = [nn.BatchNorm1d(8)] if batch_norm else []
        return nn.Sequential(nn.Linear(4, 8), *between, nn.ReLU(), nn.Linear(8, CLASSES))


def make(factory: Factory, model: nn.Module, seed: int = 0, **options: Any) -> Any:
    criterion = options.pop("criterion", nn.CrossEntropyLoss(reduction="none"))
    val_set = options.pop("val_set", VAL_SET)
    generator = torch.Generator().manual_seed(seed)
    return factory(model, criterion, val_set, N, val_batch=8, generator=generator, **options)


def batches(epochs: int, start: int = 0) -> Iterator[Tensor]:
    """Indices of the batches, in another order in each epoch."""
    for epoch in range(start, start + epochs):
        yield from torch.randperm(N, generator=torch.Generator().manual_seed(epoch)).split(BATCH)


def train(
    reweight: Any, model: nn.Module, optimizer: torch.optim.Optimizer, epochs: int, start: int = 0
) -> list[Tensor]:
    losses = []
    for index in batches(epochs, start):
        loss = reweight(model(X[index]), Y[index], index, inputs=X[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def one_step(reweight: Any, model: nn.Module, index: Tensor, x: Tensor | None = None) -> Tensor:
    x = X[index] if x is None else x
    loss: Tensor = reweight(model(x), Y[index], index, inputs=x)
    return loss


def mean_loss(model: nn.Module) -> float:
    return float(nn.functional.cross_entropy(model(X), Y).detach())


def same(left: Any, right: Any) -> bool:
    """Whether two nested states agree bit for bit."""
    if isinstance(left, Tensor):
        return isinstance(right, Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def through_a_file(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def check_training_lowers_the_loss(factory: Factory) -> None:
    model = make_model()
    before = mean_loss(model)
    train(make(factory, model), model, torch.optim.SGD(model.parameters(), lr=0.3), epochs=10)
    assert mean_loss(model) < 0.75 * before


def check_weights_are_those_of_the_loss(factory: Factory) -> None:
    """The loss is mean(weights * loss). Samples outside the batch keep their first weight."""
    model = make_model()
    reweight = make(factory, model)
    first = reweight.weights.clone()
    assert first.shape == (N,)
    index = torch.arange(10, 40)
    loss = one_step(reweight, model, index)
    losses = nn.functional.cross_entropy(model(X[index]), Y[index], reduction="none")
    torch.testing.assert_close(loss, (reweight.weights[index] * losses).mean())
    assert bool((reweight.weights >= 0).all())
    assert torch.equal(reweight.weights[:10], first[:10])
    assert torch.equal(reweight.weights[40:], first[40:])


def check_eval_freezes(factory: Factory) -> None:
    model = make_model()
    reweight = make(factory, model)
    train(reweight, model, torch.optim.SGD(model.parameters(), lr=0.1), epochs=1)
    reweight.eval()
    before = through_a_file(reweight.state_dict())
    index = torch.arange(BATCH)
    loss = reweight(model(X[index]), Y[index], index)
    torch.testing.assert_close(loss, nn.functional.cross_entropy(model(X[index]), Y[index], reduction="none").mean())
    assert same(reweight.state_dict(), before)
    reweight.train()
    one_step(reweight, model, index)
    assert not same(reweight.state_dict(), before)


def check_resumes_bit_for_bit(factory: Factory) -> None:
    """A run saved to a file halfway and resumed by a new model with another seed equals an uninterrupted run."""
    model = make_model(batch_norm=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    reweight = make(factory, model)
    train(reweight, model, optimizer, epochs=2)
    saved = through_a_file([model.state_dict(), optimizer.state_dict(), reweight.state_dict()])
    losses = train(reweight, model, optimizer, epochs=2, start=2)

    other = make_model(batch_norm=True)
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    other_reweight = make(factory, other, seed=99)
    other.load_state_dict(saved[0])
    other_optimizer.load_state_dict(saved[1])
    other_reweight.load_state_dict(saved[2])
    assert same(train(other_reweight, other, other_optimizer, epochs=2, start=2), losses)
    assert same(other_reweight.state_dict(), reweight.state_dict())
    assert same(other.state_dict(), model.state_dict())


def check_a_loaded_state_is_a_copy(factory: Factory) -> None:
    model = make_model()
    reweight, other = make(factory, model), make(factory, model, seed=99)
    one_step(reweight, model, torch.arange(BATCH))
    before = through_a_file(reweight.state_dict())
    other.load_state_dict(reweight.state_dict())
    one_step(other, model, torch.arange(BATCH))
    assert same(reweight.state_dict(), before)


def check_model_does_not_change(factory: Factory) -> None:
    """The model is not part of the method, and a call does not change its modes, buffers, gradients or randomness."""
    model = make_model(batch_norm=True)
    model[2].eval()
    index = torch.arange(BATCH)
    outputs = model(X[index])
    before = through_a_file(model.state_dict())
    random = torch.random.get_rng_state()
    reweight = make(factory, model)
    reweight(outputs, Y[index], index, inputs=X[index])
    assert same(dict(model.state_dict()), dict(before))
    assert [module.training for module in model] == [True, True, False, True]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), random)
    own = {id(parameter) for parameter in reweight.parameters()}
    assert not own & {id(parameter) for parameter in model.parameters()}
    assert not any("model" in key for key in reweight.state_dict())
    reweight.eval()
    assert model.training


def check_gradient_is_that_of_fixed_weights(factory: Factory) -> None:
    """The weights are constants: no gradient flows through them."""
    model = make_model()
    reweight = make(factory, model)
    index = torch.arange(BATCH)
    one_step(reweight, model, index).backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    losses = nn.functional.cross_entropy(model(X[index]), Y[index], reduction="none")
    expected = torch.autograd.grad((reweight.weights[index] * losses).mean(), list(model.parameters()))
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got, want)


def check_bad_index_is_an_error(factory: Factory) -> None:
    model = make_model()
    reweight = make(factory, model)
    before = through_a_file(reweight.state_dict())
    for index, error, message in (
        (torch.tensor([0, N]), IndexError, f"index {N} is not in the training set"),
        (torch.tensor([0, -1]), IndexError, "index -1 is not in the training set"),
        (torch.tensor([0.0, 1.0]), TypeError, "index must be a tensor of integers"),
        (torch.tensor([0]), ValueError, "but there are 2 losses"),
    ):
        with pytest.raises(error, match=message):
            reweight(model(X[:2]), Y[:2], index, inputs=X[:2])
    assert same(reweight.state_dict(), before)


def check_scalar_criterion_is_an_error(factory: Factory) -> None:
    model = make_model()
    reweight = make(factory, model, criterion=nn.CrossEntropyLoss())
    with pytest.raises(ValueError, match='reduction="none"'):
        one_step(reweight, model, torch.arange(4))


def nonfinite_at_minus_one(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, except that for a target of -1 the loss and its gradient are not finite."""
    losses = nn.functional.cross_entropy(outputs, targets.clamp_min(0), reduction="none")
    below_zero = outputs[:, 0] - outputs[:, 0].detach() - 1
    return torch.where(targets < 0, torch.where(targets < 0, below_zero, 1).sqrt(), losses)


def check_a_nonfinite_loss_changes_nothing_else(factory: Factory) -> None:
    model = make_model()
    reweight = make(factory, model, criterion=nonfinite_at_minus_one)
    index, y = torch.arange(BATCH), Y[:BATCH].clone()
    first = reweight.weights.clone()
    y[3] = -1
    loss = reweight(model(X[index]), y, index, inputs=X[index])
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert bool(reweight.weights.isfinite().all())
    assert bool(reweight.weights[index].any())
    assert reweight.weights[3] == first[3]
    with pytest.warns(UserWarning, match="1 training losses so far were not finite"):
        assert reweight.summary().nonfinite_train == 1


def check_nonfinite_validation_losses_change_nothing_else(factory: Factory) -> None:
    model = make_model()
    x, y = VAL_SET.tensors
    for inputs in (x.clone().index_fill_(0, torch.tensor([5]), float("nan")), torch.full_like(x, float("nan"))):
        reweight = make(factory, model, val_set=TensorDataset(inputs, y))
        for index in batches(epochs=1):
            assert bool(one_step(reweight, model, index).isfinite())
        assert bool(reweight.weights.isfinite().all())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the nonfinite validation losses, for methods that use them
            reweight.summary()


def check_mapping_batches(factory: Factory) -> None:
    """Batches that are mappings give the same as tuples, through ``forward``."""

    def forward(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return model(batch["pixels"]), batch["label"]

    model, index = make_model(), torch.arange(BATCH)
    val_set = [{"pixels": x, "label": y} for x, y in VAL_SET]
    reweight = make(factory, model, val_set=val_set, forward=forward)
    batch = {"pixels": X[index], "label": Y[index]}
    loss = reweight(model(batch["pixels"]), batch["label"], index, inputs=batch)
    assert torch.equal(loss, one_step(make(factory, model), model, index))


def check_any_batch_size_and_duplicates(factory: Factory) -> None:
    model = make_model()
    reweight = make(factory, model)
    for index in (torch.arange(20), torch.arange(7), torch.tensor([5]), torch.tensor([3, 4, 3, 3])):
        assert bool(one_step(reweight, model, index).isfinite())
    assert bool(reweight.weights.isfinite().all())


def check_half_precision_outputs(factory: Factory) -> None:
    model = make_model()
    reweight = make(factory, model)
    index = torch.arange(BATCH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model(X[index])
    assert outputs.dtype == torch.bfloat16
    loss = reweight(outputs, Y[index], index, inputs=X[index])
    assert loss.dtype == torch.float32
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def check_settings_are_checked(factory: Factory) -> None:
    with pytest.raises(TypeError, match=r"model must be an nn\.Module"):
        make(factory, lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        make(factory, make_model(), stepsize=1)


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
