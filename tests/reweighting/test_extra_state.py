"""A generator that is saved, restored and moved."""

from __future__ import annotations

import torch
from torch import Tensor

from adiw.reweighting.extra_state import ResumableGenerator

CPU = torch.device("cpu")


def draw(randomness: ResumableGenerator, count: int = 4) -> Tensor:
    return torch.rand(count, generator=randomness.on(CPU))


def test_it_continues_from_a_saved_state() -> None:
    first, second = (
        ResumableGenerator(torch.Generator().manual_seed(1)),
        ResumableGenerator(torch.Generator().manual_seed(2)),
    )
    draw(first)
    second.restore(first.state(), CPU)
    assert torch.equal(draw(first), draw(second))
    assert second.seed == 1


def test_a_saved_state_does_not_change_with_the_generator() -> None:
    randomness = ResumableGenerator(torch.Generator().manual_seed(1))
    state = randomness.state()
    expected = draw(randomness)
    draw(randomness)
    randomness.restore(state, CPU)
    assert torch.equal(draw(randomness), expected)


def test_a_state_from_another_device_type_starts_again_from_its_seed() -> None:
    source = ResumableGenerator(torch.Generator().manual_seed(5))
    draw(source)
    target = ResumableGenerator(torch.Generator().manual_seed(6))
    target.restore({**source.state(), "device": "cuda", "state": torch.zeros(16, dtype=torch.uint8)}, CPU)
    assert torch.equal(draw(target), torch.rand(4, generator=torch.Generator().manual_seed(5)))


def test_without_a_generator_it_uses_the_global_seed_and_does_not_change_it() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        before = torch.get_rng_state()
        first = draw(ResumableGenerator(None))
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(3)
        assert torch.equal(draw(ResumableGenerator(None)), first)
        torch.manual_seed(12)
        assert not torch.equal(draw(ResumableGenerator(None)), first)


def test_the_users_generator_is_used_itself() -> None:
    generator = torch.Generator().manual_seed(3)
    assert ResumableGenerator(generator).on(CPU) is generator
