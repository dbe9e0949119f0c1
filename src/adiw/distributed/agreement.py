"""Whether all processes have batches of the same form: collectives of different sizes would wait for ever."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

Found = Exception | Sequence[Tensor | None]  # what a process has in a step: columns (n, ...), or an error


def form_of(found: Found) -> str:
    """An error's text, or the dtype and the shape of each column without its number of rows.

    >>> form_of(ValueError("the batch is empty"))
    'ValueError: the batch is empty'
    >>> import torch
    >>> form_of([torch.zeros(3, 2), None])
    'float32 (n, 2), none'
    """
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {found}"
    return ", ".join("none" if x is None else _shape(x) for x in found)


def _shape(column: Tensor) -> str:
    return f"{str(column.dtype).removeprefix('torch.')} ({', '.join(['n', *map(str, column.shape[1:])])})"


def describe_difference(forms: Sequence[tuple[str, bool]]) -> str:
    """The error for a process without one: the first error of another process, or the forms.

    Args:
        forms: of each process its form, and whether that is an error.

    >>> describe_difference([("float32 (n)", False), ("float64 (n)", False)])  # doctest: +ELLIPSIS
    'the processes have different losses, outputs or targets: process 0 sends float32 (n), process 1 sends ...'
    """
    for rank, (form, is_error) in enumerate(forms):
        if is_error:
            return f"process {rank} stopped with {form}"
    each = ", ".join(f"process {rank} sends {form}" for rank, (form, _) in enumerate(forms))
    return (
        f"the processes have different losses, outputs or targets: {each}. All need the same criterion, and outputs "
        "and targets of the same dtype and number of dimensions"
    )
