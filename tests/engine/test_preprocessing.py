"""Normalisation and augmentation: the inputs that a network gets from stored samples."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from adiw.engine.preprocessing import NormalizedNetwork, crop_and_flip, draw_crops


class Seen(nn.Module):
    """Returns its input and keeps it."""

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        return x


def test_bytes_are_normalised_per_channel() -> None:
    x = torch.randint(256, (2, 3, 4, 5), generator=Generator().manual_seed(0), dtype=torch.uint8)
    mean, std = (0.5, 0.25, 0.0), (0.5, 2.0, 1.0)
    scaled = NormalizedNetwork(Seen(), mean, std)(x)
    for channel in range(3):
        expected = (x[:, channel].double() / 255 - mean[channel]) / std[channel]
        torch.testing.assert_close(scaled[:, channel].double(), expected, atol=1e-6, rtol=0)


def test_bytes_without_mean_and_std_end_up_between_zero_and_one() -> None:
    x = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 1, 1, 3)
    torch.testing.assert_close(NormalizedNetwork(Seen())(x).flatten(), torch.tensor([0.0, 0.2, 1.0]))


def test_floats_are_not_changed() -> None:
    x = torch.tensor([[-3.0, 7.5]])
    assert torch.equal(NormalizedNetwork(Seen(), (0.5,), (0.5,))(x), x)


def test_channels_last_changes_the_layout_only() -> None:
    x = torch.rand(2, 3, 4, 5)
    seen = Seen()
    torch.testing.assert_close(NormalizedNetwork(seen, channels_last=True)(x), x)
    assert seen.x.is_contiguous(memory_format=torch.channels_last)
    NormalizedNetwork(seen, channels_last=False)(x)
    assert seen.x.is_contiguous()
    vectors = torch.rand(2, 3)
    assert torch.equal(NormalizedNetwork(seen, channels_last=True)(vectors), vectors)


def test_the_state_dict_is_that_of_the_network() -> None:
    network = nn.Linear(2, 2)
    assert set(NormalizedNetwork(network, (0.1,), (0.2,)).state_dict()) == {"network.weight", "network.bias"}


def shifts_and_mirrors(image: Tensor, padding: int) -> list[Tensor]:
    """All images that a crop and a flip can make of one."""
    height, width = image.shape[1:]
    padded = torch.nn.functional.pad(image, (padding,) * 4)
    crops = [
        padded[:, top : top + height, left : left + width]
        for top in range(2 * padding + 1)
        for left in range(2 * padding + 1)
    ]
    return crops + [crop.flip(2) for crop in crops]


def test_every_image_becomes_a_shifted_or_flipped_copy_of_itself() -> None:
    x = torch.randint(1, 256, (40, 2, 5, 6), generator=Generator().manual_seed(1), dtype=torch.uint8)
    out = crop_and_flip(x, draw_crops(40, Generator().manual_seed(0), padding=2), padding=2)
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    chosen = []
    for before, after in zip(x, out, strict=True):
        possible = shifts_and_mirrors(before, 2)
        found = [i for i, candidate in enumerate(possible) if torch.equal(candidate, after)]
        assert found, "not a shifted or mirrored copy"
        chosen.append(found[0])
    mirrored = sum(i >= 25 for i in chosen)
    assert 8 <= mirrored <= 32  # half of 40, within four standard deviations
    assert len({i % 25 for i in chosen}) > 10  # shifts differ from image to image


def test_all_shifts_occur() -> None:
    single = torch.zeros(2000, 1, 9, 9)
    single[:, :, 4, 4] = 1
    out = crop_and_flip(single, draw_crops(2000, Generator().manual_seed(0)))
    assert set(out.flatten(1).argmax(1).tolist()) == set(range(81))


def test_the_generator_decides() -> None:
    first, again, other = (draw_crops(16, Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
