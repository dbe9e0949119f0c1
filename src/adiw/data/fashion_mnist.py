"""Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 28 x 28 grey images of ten kinds of clothing, in idx files."""

from pathlib import Path

from adiw.data.dataset import Data
from adiw.data.errors import DataError, missing
from adiw.data.idx import read_idx
from adiw.data.labels import check_range
from adiw.data.options import Options
from adiw.data.samples import Samples

FOLDER = "fashion-mnist"
CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
DIGESTS = {  # of the uncompressed files
    "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def load_fashion_mnist(root: Path, options: Options) -> Data:
    """60000 training and 10000 test images (1, 28, 28) uint8 from root/fashion-mnist/*-ubyte[.gz]."""
    options.only("fashion-mnist", "verify")
    paths = {name: _find(root / FOLDER, name) for name in DIGESTS}
    absent = [f"{name}.gz" for name, path in paths.items() if path is None]
    if absent:
        raise missing("fashion-mnist", root / FOLDER, absent)
    found = {name: path for name, path in paths.items() if path is not None}
    return Data(
        name="fashion-mnist",
        train=_split(found, "train", options.verify),
        test=_split(found, "t10k", options.verify),
        classes=CLASSES,
        mean=(0.0,),
        std=(1.0,),
    )


def _find(folder: Path, name: str) -> Path | None:
    # .gz first: that is the file `adiw data get` puts right when the other is damaged.
    return next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)


def _split(paths: dict[str, Path], part: str, verify: bool) -> Samples:
    images, labels = f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
    x = read_idx(paths[images], 3, DIGESTS[images] if verify else None)
    y = read_idx(paths[labels], 1, DIGESTS[labels] if verify else None).long()
    if len(x) != len(y):
        raise DataError(
            f"{paths[labels]}: expected {len(x)} labels, one per image in {paths[images].name}, "
            f"found {len(y)}; fetch both files again"
        )
    check_range(y, len(CLASSES), str(paths[labels]))
    return Samples(x.unsqueeze(1), y)
