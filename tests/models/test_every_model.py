"""What every network of the table must do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from adiw.models import MODELS, LeNet5, build
from adiw.models.resnet18 import Stem, space_to_depth_conv

RESNET = sys.modules["adiw.models.resnet18"]  # the package has a function of this name


@dataclass(frozen=True)
class Case:
    """A network at the size its parameter count is known for, and a smaller input to run it on."""

    input_shape: tuple[int, ...]
    num_classes: int
    parameters: int
    features: int
    run_shape: tuple[int, ...]


CASES = {
    "mlp": Case((8, 8), 10, 64 * 256 + 256 + 256 * 256 + 256 + 2570, 256, (8, 8)),
    "lenet5": Case((1, 28, 28), 10, 61_706, 84, (1, 28, 28)),
    "resnet18": Case((3, 224, 224), 1000, 11_689_512, 512, (3, 33, 40)),
    "resnet18-cifar": Case((3, 32, 32), 10, 11_173_962, 512, (3, 16, 16)),
}


@pytest.fixture(scope="module", params=CASES)
def built(request: pytest.FixtureRequest) -> Iterator[tuple[nn.Module, Case]]:
    case = CASES[request.param]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield build(request.param, case.input_shape, case.num_classes), case


def batch(case: Case) -> Tensor:
    return torch.randn(4, *case.run_shape, generator=torch.Generator().manual_seed(1))


def test_cases_are_the_table() -> None:
    assert CASES.keys() == MODELS.keys()


def test_parameter_count(built: tuple[nn.Module, Case]) -> None:
    model, case = built
    assert sum(p.numel() for p in model.parameters()) == case.parameters
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_feature_layer_feeds_the_last_layer(built: tuple[nn.Module, Case]) -> None:
    """Its output is (B, features), and the last linear layer makes the logits from exactly that."""
    model, case = built
    seen: list[Tensor] = []
    layer = model.get_submodule(str(model.feature_layer))
    handle = layer.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    logits = model.eval()(batch(case))
    handle.remove()
    assert logits.shape == (4, case.num_classes)
    assert seen[0].shape == (4, case.features)
    assert bool((seen[0] >= 0).all())  # after the ReLU
    head = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    torch.testing.assert_close(head(seen[0]), logits)


def test_gradient_reaches_every_parameter(built: tuple[nn.Module, Case]) -> None:
    model, case = built
    nn.functional.cross_entropy(model.train()(batch(case)), torch.arange(4)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
        assert bool(parameter.grad.any()), name
    model.zero_grad()


def test_evaluation_is_deterministic_and_per_sample(built: tuple[nn.Module, Case]) -> None:
    model, case = built
    x = batch(case)
    with torch.no_grad():
        once, again, alone = model.eval()(x), model(x), model(x[:1])
        trained, trained_again = model.train()(x), model(x)
    assert torch.equal(once, again)
    torch.testing.assert_close(alone, once[:1], rtol=1e-4, atol=1e-5)
    assert torch.equal(trained, trained_again)  # no dropout; batch norm normalises by the batch


@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_same_seed_same_weights(name: str) -> None:
    case, states = CASES[name], []
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            states.append(build(name, case.input_shape, case.num_classes).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_lenet_takes_28_padded_32_bare_and_any_channels() -> None:
    for shape in ((1, 28, 28), (1, 32, 32), (3, 32, 32)):
        assert LeNet5(shape, 7)(torch.zeros(2, *shape)).shape == (2, 7)
    assert LeNet5((1, 28, 28), 10).features[0].padding == (2, 2)
    assert LeNet5((1, 32, 32), 10).features[0].padding == (0, 0)


def test_resnet_parameters_bear_torchvision_names() -> None:
    with torch.device("meta"):
        names = build("resnet18", (3, 224, 224), 1000).state_dict()
    assert len(names) == 122
    for name in ("conv1.weight", "bn1.running_var", "layer1.0.conv2.weight", "layer4.1.bn2.bias", "fc.bias"):
        assert name in names
    assert names["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert "layer1.0.downsample.0.weight" not in names


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("size", [(8, 8), (9, 12), (12, 7), (1, 1)])
def test_the_space_to_depth_stem_is_the_convolution(channels: int, size: tuple[int, int]) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, channels, *size, dtype=torch.double, generator=random, requires_grad=True)
    weight = torch.randn(5, channels, 7, 7, dtype=torch.double, generator=random, requires_grad=True)
    expected, found = conv2d(x, weight, stride=2, padding=3), space_to_depth_conv(x, weight)
    torch.testing.assert_close(found, expected)
    back = torch.randn(expected.shape, dtype=torch.double, generator=random)
    slopes = [torch.autograd.grad(y, (x, weight), back) for y in (found, expected)]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (2, 1, 8, 8), (2, 3, 1, 1), (2, 2, 1, 8)])
def test_the_space_to_depth_stem_keeps_the_layout(shape: tuple[int, ...], layout: torch.memory_format) -> None:
    x, weight = torch.rand(shape).contiguous(memory_format=layout), torch.rand(5, shape[1], 7, 7)
    expected = conv2d(x, weight, stride=2, padding=3)
    assert space_to_depth_conv(x, weight).stride() == expected.stride()
    part = torch.cat([x, x], dim=3)[..., ::2]  # with gaps
    assert space_to_depth_conv(part, weight).stride() == conv2d(part, weight, stride=2, padding=3).stride()


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_blocks_have_a_multiple_of_eight_channels(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(RESNET, "conv2d", lambda x, weight: seen.extend([x.shape[1], weight.shape[1]]))
    space_to_depth_conv(torch.rand(2, channels, 8, 8), torch.rand(5, channels, 7, 7))
    assert seen == [8 * ((channels + 1) // 2)] * 2


class OnGpu(Tensor):
    """A tensor that claims to be on a GPU."""

    is_cuda = True


@pytest.mark.parametrize(
    ("channels", "change", "by_squares"),
    [
        (3, {}, True),
        (1, {}, True),
        (5, {}, False),
        (3, {"stride": (1, 1)}, False),
        (3, {"padding": (0, 0)}, False),
        (3, {"bias": nn.Parameter(torch.rand(6))}, False),
    ],
)
@pytest.mark.parametrize("device", ["gpu", "cpu"])
def test_the_stem_is_a_convolution_and_on_a_gpu_space_to_depth_conv(
    channels: int, change: dict[str, Any], by_squares: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Tensor] = []
    monkeypatch.setattr(
        RESNET, "space_to_depth_conv", lambda *given: calls.append(space_to_depth_conv(*given)) or calls[-1]
    )
    stem = Stem(channels, 6)
    for name, value in change.items():
        setattr(stem, name, value)
    x = torch.rand(2, channels, 9, 8)
    x = x.as_subclass(OnGpu) if device == "gpu" else x
    expected = conv2d(x, stem.weight, stem.bias, stem.stride, stem.padding)
    torch.testing.assert_close(stem(x), expected)
    torch.testing.assert_close(stem(x[0]), expected[0])
    assert len(calls) == (by_squares and device == "gpu")


def test_a_resnet_can_be_traced_and_its_stem_fused() -> None:
    model = build("resnet18", (3, 33, 40), 10).eval()
    x = torch.rand(2, 3, 33, 40)
    torch.testing.assert_close(torch.fx.symbolic_trace(model)(x), model(x))
    fused = nn.utils.fuse_conv_bn_eval(model.conv1, model.bn1)  # type: ignore[arg-type, type-var]
    expected = model.bn1(model.conv1(x))  # type: ignore[operator]
    torch.testing.assert_close(fused(x.as_subclass(OnGpu)).as_subclass(Tensor), expected)


@pytest.mark.parametrize(
    ("name", "input_shape", "num_classes", "message"),
    [
        ("lenet5", (28, 28), 10, r"lenet5: expected \(channels, height, width\).*\(1, 28, 28\)"),
        ("lenet5", (1, 28, 32), 10, "expected images of 28 x 28 or 32 x 32, got 28 x 32"),
        ("resnet18", (3,), 10, "resnet18: .*use mlp for other data"),
        ("resnet18-cifar", (32, 32), 10, "resnet18-cifar: expected"),
        ("mlp", (), 10, "mlp: expected one sample's shape"),
    ],
)
def test_bad_shapes(name: str, input_shape: tuple[int, ...], num_classes: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(name, input_shape, num_classes)
