"""Evaluation of the model on a batch: under the autocast of the training pass, and without side effects."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from adiw.baselines import Uniform
from adiw.reweighting.loss_shapes import Criterion
from adiw.reweighting.model_evaluator import ModelEvaluator, evaluation_mode, modules_of, unwrap
from adiw.reweighting.transforms import Features, LossValue
from tests.gloo_processes import group_of_one

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")
X, Y = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1, 2])


class Recorder(nn.Module):
    """A small network with dropout and batch norm that records its mode and precision in each pass."""

    def __init__(self, whole_outputs: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU())
        self.head = nn.Linear(8, 3)
        self.whole_outputs = whole_outputs
        self.calls: list[tuple[bool, bool, torch.dtype]] = []

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body[0](x)
        self.calls.append((self.training, torch.is_grad_enabled(), hidden.dtype))
        outputs = self.head(self.body[1:](hidden))
        return outputs.float() if self.whole_outputs else outputs


def evaluator(model: nn.Module, criterion: Criterion = CROSS_ENTROPY, forward: Any = None) -> ModelEvaluator:
    return ModelEvaluator(model, criterion, forward, LossValue())


def test_every_module_keeps_its_mode() -> None:
    model = Recorder()
    model.train()
    model.body[1].eval()  # a frozen batch norm in a model in training mode
    modes = [module.training for module in model.modules()]
    with evaluation_mode(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == modes
    with pytest.raises(RuntimeError, match="inside"), evaluation_mode(model):
        raise RuntimeError("inside")
    assert [module.training for module in model.modules()] == modes


def test_all_modules_are_found_once_and_in_order() -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.Sequential(nn.ReLU(), shared, nn.Dropout()), nn.TransformerEncoderLayer(4, 2))
    model.register_module("missing", None)
    assert modules_of(model) == list(model.modules())


def test_evaluation_has_no_side_effects() -> None:
    model = Recorder()
    state, rng = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    observed = evaluator(model).evaluate((X, Y), torch.zeros(6, 3), torch.float32)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), rng)
    assert model.calls == [(False, False, torch.float32)]
    assert not observed.z.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    model.eval()
    torch.testing.assert_close(observed.z[:, 0], CROSS_ENTROPY(model(X), Y).detach())


def test_inside_autocast_the_model_runs_in_half_precision_and_the_losses_do_not() -> None:
    model, seen = Recorder(), []

    def criterion(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.append(outputs.dtype)
        return CROSS_ENTROPY(outputs, targets)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = evaluator(model, criterion).evaluate((X, Y), model(X), torch.float32).z
    assert model.calls == [(True, True, torch.bfloat16), (False, False, torch.bfloat16)]
    assert seen == [torch.float32]
    assert z.dtype == torch.float32


def test_inside_autocast_float32_outputs_do_not_disable_it() -> None:
    model = Recorder(whole_outputs=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        evaluator(model).evaluate((X, Y), model(X), torch.float32)
    assert model.calls[-1] == (False, False, torch.bfloat16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_after_autocast_half_precision_outputs_determine_it(dtype: torch.dtype) -> None:
    model = Recorder()
    with torch.autocast("cpu", dtype=dtype):
        outputs = model(X)
    z = evaluator(model).evaluate((X, Y), outputs, torch.float32).z
    assert model.calls[-1] == (False, False, dtype)
    with torch.no_grad(), evaluation_mode(model), torch.autocast("cpu", dtype=dtype):
        expected = model(X)
    assert torch.equal(z[:, 0], CROSS_ENTROPY(expected.float(), Y))


def test_without_autocast_evaluation_uses_none() -> None:
    model = Recorder()
    evaluator(model).evaluate((X, Y), model(X), torch.float32)
    assert model.calls[-1] == (False, False, torch.float32)


def test_a_half_precision_model_needs_no_autocast() -> None:
    model = nn.Sequential(nn.Linear(4, 3)).to(torch.bfloat16)
    seen: list[bool] = []
    model.register_forward_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    half = X.to(torch.bfloat16)
    z = evaluator(model).evaluate((half, Y), model(half), torch.float32).z
    assert seen == [False, False]
    assert z.dtype == torch.float32


def test_autocast_copies_of_an_evaluation_do_not_reach_the_next_training_pass() -> None:
    """Autocast caches cast weights. In older versions of PyTorch copies made without gradients would be reused.

    The training pass would then have no gradient, so evaluation does not use the cache.
    """
    model = nn.Linear(4, 3)
    kept: list[bool] = []
    model.register_forward_hook(lambda *_: kept.append(torch.is_autocast_cache_enabled()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        evaluator(model).evaluate((X, Y), torch.zeros(6, 3), torch.float32)
        CROSS_ENTROPY(model(X).float(), Y).mean().backward()
    assert kept == [False, True]
    assert model.weight.grad is not None
    assert model.weight.grad.abs().sum() > 0


def test_forward_evaluates_other_batches() -> None:
    model = nn.Linear(4, 3)
    batch = {"inputs": X, "labels": Y}

    def forward(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return model(batch["inputs"]), batch["labels"]

    z = evaluator(model, forward=forward).evaluate(batch, None, torch.float64).z
    assert z.dtype == torch.float64
    torch.testing.assert_close(z[:, 0].float(), CROSS_ENTROPY(model(X), Y).detach())


def test_forward_may_return_features_too() -> None:
    model = nn.Linear(4, 3)
    watching = ModelEvaluator(model, CROSS_ENTROPY, lambda m, b: (m(b[0]), b[1], b[0]), Features())
    z = watching.evaluate((X, Y), None, torch.float32).z
    torch.testing.assert_close(z, nn.functional.normalize(X))


@pytest.mark.parametrize(
    "result", [torch.zeros(6, 3), (torch.zeros(6, 3),), [torch.zeros(6, 3), Y], (1, 2, 3, 4), None]
)
def test_forward_that_returns_something_else(result: object) -> None:
    with pytest.raises(TypeError, match=r"must return \(outputs, targets\) or \(outputs, targets, features\)"):
        evaluator(nn.Linear(4, 3), forward=lambda m, b: result).evaluate((X, Y), None, torch.float32)


@pytest.mark.parametrize("batch", [{"x": X}, X, (X,)])
def test_batches_that_are_not_pairs_need_forward(batch: object) -> None:
    with pytest.raises(TypeError, match=r"batches must be \(x, y\), got .*forward=lambda"):
        evaluator(nn.Linear(4, 3)).evaluate(batch, None, torch.float32)


def test_a_model_without_parameters() -> None:
    z = evaluator(nn.Flatten(), lambda o, t: o[:, 0]).evaluate((X, Y), torch.zeros(6, 4), torch.float32).z
    assert torch.equal(z[:, 0], X[:, 0])


def test_invalid_arguments_of_the_constructor() -> None:
    with pytest.raises(TypeError, match=r"model must be an nn\.Module, got function"):
        evaluator(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="criterion must be callable"):
        evaluator(nn.Linear(4, 3), "cross-entropy")  # type: ignore[arg-type]


def test_evaluation_uses_the_model_inside_the_wrapper() -> None:
    plain = Recorder()
    with group_of_one():
        wrapped = DistributedDataParallel(plain)
        wrapped.register_forward_hook(lambda *_: pytest.fail("the wrapper was called"))
        evaluator(wrapped).evaluate((X, Y), torch.zeros(6, 3), torch.float32)
        assert evaluator(torch.compile(wrapped, backend="eager")).model is plain
    assert len(plain.calls) == 1


def test_a_model_that_is_wrapped_twice() -> None:
    with group_of_one():
        twice = DistributedDataParallel(DistributedDataParallel(nn.Linear(4, 3)))
        with pytest.raises(ValueError, match="wrapped in DistributedDataParallel twice: wrap it once"):
            evaluator(twice)


def test_join_is_an_error_that_names_the_alternative() -> None:
    with group_of_one():
        wrapped = DistributedDataParallel(nn.Linear(4, 3))
        reweight = Uniform(wrapped, nn.CrossEntropyLoss(reduction="none"), None, len(X))
        with Join([wrapped]), pytest.raises(RuntimeError, match=r"Iterate over adiw.together\(loader\) instead"):
            reweight(wrapped(X), Y, torch.arange(len(X)))


@pytest.mark.parametrize("name", ["DeepSpeedEngine", "FullyShardedDataParallel"])
def test_wrappers_that_allow_no_pass_in_between_are_refused(name: str) -> None:
    engine = type(name, (nn.Linear,), {})(1, 1)
    with pytest.raises(TypeError, match=rf"{name} does not allow .*fully_shard \(FSDP2\)"):
        unwrap(engine)


def test_fully_shard_casts_to_half_precision_without_autocast() -> None:
    with group_of_one():
        model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
        fully_shard(model[0], mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
        outputs = model[0](torch.zeros(1, 2))
        assert outputs.dtype == torch.bfloat16
        outputs.sum().backward()
        evaluator = ModelEvaluator(model, nn.CrossEntropyLoss(reduction="none"), None, LossValue())
        assert evaluator.precision_of(outputs) == ("cpu", None)
