"""The audit of the rows that a scikit-learn estimator was fitted on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from adiw.integrations.network_training import IndexedRows, Progress, ReweightedNet, Rows, dense, stack_rows
from adiw.label_audit import Audit
from adiw.reweighting.diagnostics.audit import (
    FIRST,
    by_quick_model,
    can_be_quick,
    first_losses,
    losses_at,
    make_audit,
)
from adiw.reweighting.diagnostics.evaluation_pass import BATCH, evaluate_samples
from adiw.reweighting.diagnostics.quick_model import draw_samples, features_of
from adiw.reweighting.progress import OnProgress, at_most_every, silent
from adiw.reweighting.sample_record import LossHistory

SECONDS = 2.0  # between two lines of progress


def audit_rows(
    net: ReweightedNet, rows: Rows, progress: Progress, join_trusted: bool, table: Any, verbose: bool = False
) -> Audit:
    """The audit of rows (n, ...) in the targets of the network; ``table`` (n, ...) may have columns to show."""
    count = rows.shape[0]
    tell = at_most_every(SECONDS, _print) if verbose else silent
    loader = DataLoader(IndexedRows(rows, progress.targets[:count]), BATCH, collate_fn=IndexedRows.collate)
    device = torch.device(net.device)
    last = evaluate_samples(
        net.module_,
        net.criterion_,
        loader,
        lambda batch: (net.module_(batch[0].to(device)), batch[1][0].to(device)),
        tell,
        count,
    )
    history = LossHistory(len(progress.targets))
    for name, buffer in history.named_buffers():
        if progress.weights is not None:
            buffer.copy_(progress.weights[f"weight_state.history.{name}"])
    means = history.means(torch.cat([last.losses, torch.full((len(progress.targets) - count,), torch.nan)]))
    targets, unseen = torch.from_numpy(progress.targets), None
    if progress.weights is not None:
        unseen = _unseen_losses(progress, rows, targets, progress.weights, tell)
    trusted = (
        losses_at(progress.roles.matched, means if unseen is None else unseen, targets) if join_trusted else None
    )
    made = make_audit(
        means[:count],
        last,
        None if unseen is None else unseen[:count],
        tell,
        is_trusted=progress.is_trusted[:count],
        trusted=trusted,
        numbering="row of X, from 0",
    )
    if not hasattr(table, "iloc"):
        return made
    first = made.order[:FIRST].tolist()
    return replace(made, columns={i: {str(k): str(v) for k, v in table.iloc[i].items()} for i in first})


def _unseen_losses(
    progress: Progress, rows: Rows, targets: Tensor, weights: dict[str, Any], tell: OnProgress
) -> Tensor:
    """(n,) losses by networks that were not trained on the row; held-out trusted rows are trusted as well."""
    is_trusted = torch.from_numpy(progress.is_trusted)
    everything = rows if progress.more is None else stack_rows(rows, progress.more)
    place = draw_samples(is_trusted)
    x = dense(everything, place.numpy())
    found = by_quick_model(is_trusted, targets, place, features_of(x), tell) if can_be_quick(x) else None
    counters = (weights[f"weight_state.{name}"] for name in ("seen_steps", "seen_samples"))
    return first_losses(weights["record.early"][:-1], *counters) if found is None else found


def _print(line: str) -> None:
    print(f"audit: {line}", flush=True)
