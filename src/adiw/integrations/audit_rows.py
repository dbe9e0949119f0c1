"""The audit of the rows that a scikit-learn estimator was fitted on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from adiw.integrations.network_training import IndexedRows, Progress, ReweightedNet, Rows, dense, stack_rows
from adiw.label_audit import Audit
from adiw.reweighting.diagnostics.audit import by_quick_model, can_be_quick, first_losses, make_audit
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
    targets, unseen, history = torch.from_numpy(progress.targets), None, None
    if progress.weights is not None:
        history = LossHistory(len(targets))
        history.load_state_dict({n: progress.weights[f"weight_state.history.{n}"] for n in history.state_dict()})
        unseen = _unseen_losses(progress, rows, targets, progress.weights, tell)
    return make_audit(
        history,
        last,
        unseen,
        targets,
        progress.roles.matched if join_trusted else None,
        (lambda i: table.iloc[i]) if hasattr(table, "iloc") else None,
        tell,
        is_trusted=progress.is_trusted[:count],
        numbering="row of X, from 0",
    )


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
