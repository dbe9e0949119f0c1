"""The audit in a run's folder: audit.npy and audit.json, beside the labels and the weights of the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adiw.audit_cutoff import Losses
from adiw.experiments.checked_io import DamagedError, read_array, read_json
from adiw.label_audit import Audit

if TYPE_CHECKING:
    from adiw.experiments.run_folder import Folder

FIELDS = ("losses", "unseen", "confidence", "neighbour", "distance", "source", "is_trusted")  # rows of audit.npy
WHOLE = {"neighbour": np.int64, "source": np.int64, "is_trusted": np.bool_}  # the other rows are float64
WARM_UP = 1  # epochs in which all weights are one


def write_audit(folder: Folder, audit: Audit) -> None:
    """Write what other files of the run do not have: scores, neighbours, numbers in the source, and columns."""
    found = {name: getattr(audit, name) for name in FIELDS}
    kept = {name: np.asarray(values, np.float64) for name, values in found.items() if values is not None}
    folder.write_array("audit.npy", np.stack(list(kept.values())))
    trusted = (
        {} if audit.trusted is None else {k: v.tolist() for k, v in vars(audit.trusted).items() if v is not None}
    )
    about = {"fields": list(kept), "numbering": audit.numbering, "trusted": trusted}
    folder.write_json("audit.json", {**about, "columns": {str(i): row for i, row in audit.columns.items()}})


def read_audit(folder: Path) -> Audit:
    """The audit of a run that has ended."""
    if not (folder / "audit.npy").exists():
        raise ValueError(f"{folder} has no audit.npy, which an earlier version of adiw did not write: run it again")
    about, rows = read_json(folder / "audit.json"), read_array(folder / "audit.npy")
    labels, weights = read_array(folder / "labels.npy"), read_array(folder / "weights.npy").astype(np.float64)
    if len(about["fields"]) != len(rows) or rows.shape[1:] != weights.shape or labels.shape[1:] != weights.shape:
        raise DamagedError(f"{folder}: its weights, labels and losses differ in length; run it again")
    # Folders of earlier versions have other losses of trusted samples, or none: they are ranked without a cut-off.
    trusted = about["trusted"] if "unseen" in about.get("trusted", {}) else {}
    fields = zip(about["fields"], rows, strict=True)
    found = {name: row.astype(WHOLE.get(name, np.float64)) for name, row in fields if name in FIELDS}
    _, given, true, predicted = labels
    return Audit(
        given=given,
        predicted=predicted,
        true=true if (given != true).any() else None,
        weights=weights,
        trusted=Losses(**{k: np.array(v) for k, v in trusted.items()}) if trusted else None,
        numbering=about["numbering"],
        names=class_names(folder),
        columns={int(i): row for i, row in about["columns"].items()},
        more=_history(folder, weights),
        **found,
    )


def class_names(folder: Path) -> list[str]:
    """The names of a run's labels; an empty list where they were not recorded."""
    file = folder / "classes.json"
    return [str(name) for name in read_json(file)] if file.exists() else []


def _history(folder: Path, weights: Any) -> dict[str, Any]:
    """The mean weight over the epochs after the warm-up, and the weight after each epoch that was kept."""
    epochs = read_json(folder / "weight_history.json")["epochs"]
    if not epochs:
        return {"mean_weight": weights}
    history = read_array(folder / "weight_history.npy").astype(np.float64)
    if history.shape != (len(epochs), len(weights)):
        raise DamagedError(f"{folder}: its weights and their history differ in length; run it again")
    after = history[np.array(epochs, int) > WARM_UP]
    mean = after.mean(axis=0) if len(after) else weights
    return {"mean_weight": mean, **{f"epoch_{e}": row for e, row in zip(epochs, history, strict=True)}}
