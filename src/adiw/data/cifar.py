"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): 32 x 32 colour images, in the binary layout.

The layout for Python is not read: its files are pickles, which can run code.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from adiw.data.dataset import Data
from adiw.data.samples import Samples
from adiw.data.source_files import check_digest, missing_files

PIXELS = 3 * 32 * 32
_TEN = "airplane automobile bird cat deer dog frog horse ship truck"
_HUNDRED = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
    bowl boy bridge bus butterfly camel can castle caterpillar cattle
    chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
    dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
    plain plate poppy porcupine possum rabbit raccoon ray road rocket
    rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CIFAR10_CLASSES = tuple(_TEN.split())
CIFAR100_CLASSES = tuple(_HUNDRED.split())
CIFAR10_TRAIN = {
    "data_batch_1.bin": "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
}
CIFAR10_TEST = {"test_batch.bin": "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}
# The authors publish a digest of the archive only, which `adiw data get` checks; here the sizes are checked.
CIFAR100_TRAIN = {"train.bin": f"bytes:{50_000 * (2 + PIXELS)}"}
CIFAR100_TEST = {"test.bin": f"bytes:{10_000 * (2 + PIXELS)}"}


def load_cifar10(root: Path) -> Data:
    """50000 training and 10000 test colour images of 32 x 32 pixels in ten classes.

    (3, 32, 32) uint8, normalised and augmented on the device.
    """
    train, test = _read(root / "cifar-10-batches-bin", "cifar10", (CIFAR10_TRAIN, CIFAR10_TEST), 1)
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    return Data("cifar10", train, test, CIFAR10_CLASSES, mean, std, augment=True)


def load_cifar100(root: Path) -> Data:
    """50000 training and 10000 test images like those of cifar10, in a hundred classes (the fine labels)."""
    train, test = _read(root / "cifar-100-binary", "cifar100", (CIFAR100_TRAIN, CIFAR100_TEST), 2)
    mean, std = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    return Data("cifar100", train, test, CIFAR100_CLASSES, mean, std, augment=True)


def _read(folder: Path, name: str, splits: Sequence[Mapping[str, str]], label_bytes: int) -> Iterator[Samples]:
    """The samples of each split, which is given by its files and their digests, in their order.

    A record is the label bytes, then the pixels. The last label byte counts: CIFAR-100 has two, coarse and fine.
    """
    absent = [file for files in splits for file in files if not (folder / file).is_file()]
    if absent:
        raise missing_files(name, folder, absent)
    for files in splits:
        payload = b"".join(
            check_digest((folder / file).read_bytes(), digest, folder / file) for file, digest in files.items()
        )
        rows = torch.frombuffer(bytearray(payload), dtype=torch.uint8).reshape(-1, label_bytes + PIXELS)
        yield Samples(rows[:, label_bytes:].reshape(-1, 3, 32, 32), rows[:, label_bytes - 1].long())
