"""The tables of docs/scale.md, from scale.json (bytes, counted) and growth-cuda.json (times on a GPU)."""

from __future__ import annotations

from tables import Content, grid, number

SAMPLES = (10**6, 10**9)
BATCHES = (256, 1024, 4096, 8192)
VAL_BATCH = 256  # that of the axis "batch" in growth.py, whose times are in the same table


def store(counted: Content, timed: Content | None) -> str:
    """Bytes that each method keeps."""
    per_val = counted["bytes_per_validation_sample"]
    lines = [
        [name, str(size), *(_bytes(size * samples) for samples in SAMPLES), str(per_val.get(name, "-"))]
        for name, size in counted["bytes_per_training_sample"].items()
    ]
    sizes = [f"{samples:,} samples" for samples in SAMPLES]
    return grid(["method", "bytes a training sample", *sizes, "bytes a validation sample"], lines)


def moved(counted: Content, timed: Content | None) -> str:
    """Bytes that a step reads from the weights and writes to them."""
    batch = counted["batch"]
    lines = [[name, _bytes(size), number(size / batch)] for name, size in counted["bytes_moved_per_step"].items()]
    return grid(["method", f"a step of {batch}", "bytes a sample of the batch"], lines)


def gathered(counted: Content, timed: Content | None) -> str:
    """Bytes that several GPUs gather in a step, beside their gradients, and the time of the estimate on each."""
    each, gradient = counted["bytes_gathered"], counted["bytes_of_gradient"]["resnet18"]
    times = {} if timed is None else _times(timed)
    lines = []
    for batch in BATCHES:
        size = each["training"] * batch + each["validation"] * VAL_BATCH
        share = f"{100 * size / gradient:.2g}%"
        lines.append([f"{batch:,}", _bytes(size), share, times.get(batch, "not measured yet")])
    head = ["global batch", "gathered", "of ResNet-18's gradient", "estimate on each GPU (adiw-kl), ms"]
    return grid(head, lines)


def by_size(counted: Content, timed: Content | None) -> str:
    """Time of an estimate by the size of the training set."""
    if timed is None:
        return "Not measured yet."
    rows = [row for row in timed["rows"] if row["axis"] == "training set" and row["method"] == "adiw-kl"]
    lines = [[f"{row['size']:,}", number(row["bytes"] / 2**20), number(row.get("ms"))] for row in rows]
    return grid(["training samples", "MiB kept", "estimate (adiw-kl), ms"], lines) + f"\n\n{timed['device']}."


def _times(timed: Content) -> dict[int, str]:
    rows = [row for row in timed["rows"] if row["axis"] == "batch" and row["method"] == "adiw-kl"]
    return {row["size"]: number(row.get("ms")) for row in rows}


def _bytes(count: int) -> str:
    """A number of bytes in decimal units.

    >>> _bytes(8_000_000), _bytes(3072)
    ('8 MB', '3.07 kB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


TABLES = {"store": store, "moved": moved, "gathered": gathered, "by-size": by_size}
