"""The summary of a report: progress, the best method, and the paper's figures."""

from __future__ import annotations

from adiw.experiments.run_record import LAST
from adiw.reports.diagnosis import first_runs, is_compared
from adiw.reports.notes import counted
from adiw.reports.results import Results, Trial


def sentences(results: Results) -> list[str]:
    """The summary, a sentence or two in each entry."""
    if len(results.trials) == 1 and results.planned is None:
        found = _one_run(results.trials[0])
    else:
        found = [_progress(results), *(_best(results, column) for column in results.columns), _verdict(results)]
        for cell, trial in first_runs(results):
            if is_compared(trial):
                data = f" on {cell.column}" if len(results.columns) > 1 else ""
                found += [f"The compared run of {trial.method}{data}: {text}" for text in _one_run(trial)[1:]]
    return [text for text in (*found, _against_paper(results)) if text]


def _progress(results: Results) -> str:
    """How many trials there are and how they ended."""
    cells = results.cells.values()
    statuses = ("done", "dead", "failed", "unfinished", "missing")
    counts = {status: sum(cell.count(status) for cell in cells) for status in statuses}
    total = sum(counts.values())
    what = f"{counted(total, 'run')} of {counted(len(results.rows), 'method')}"
    what += f" in {len(results.columns)} settings" if len(results.columns) > 1 else ""
    if counts["done"] == total:
        return f"{what}, all finished."
    rest = ", ".join(f"{count} {status}" for status, count in counts.items() if count and status != "done")
    return f"{what}: {counts['done'] or 'none'} finished, {rest}."


def _best(results: Results, column: str) -> str:
    """The highest mean in a column, without the oracle, which has the true weights; empty for fewer than two."""
    rows = [row for row in results.rows if results.method(row) != "oracle"]
    measure, cells = results.measures[0], [results.cells[row, column] for row in rows]
    means = {cell.row: figure.mean for cell in cells if (figure := cell.figure(measure))}
    if len(means) < 2:
        return ""
    best = max(means, key=lambda row: means[row])
    text = f"{column}: highest" if len(results.columns) > 1 else "Highest"
    judged = {str(trial.record["judged_on"]) for trial in results.trials if "judged_on" in trial.record}
    text += f" mean accuracy{' on the ' + judged.pop() if len(judged) == 1 else ''} {means[best]:.2f}% with {best}"
    papers = {row: paper.mean for row in rows if (paper := results.paper(measure, row, column))}
    if papers:
        top = max(papers, key=lambda row: papers[row])
        text += f" (in the paper: {papers[top]:.2f}% with {top})"
    return text + "."


def _against_paper(results: Results) -> str:
    """How many figures of the first measure reach the paper's."""
    measure = results.measures[0]
    pairs = [(cell.figure(measure), results.paper(measure, *place)) for place, cell in results.cells.items()]
    differences = [ours.mean - paper.mean for ours, paper in pairs if ours and paper]
    if not differences:
        return ""
    reached = sum(difference >= 0 for difference in differences)
    low, high = min(differences), max(differences)
    return f"{reached} of {len(differences)} figures reach the paper's (differences from {low:+.2f} to {high:+.2f})."


def _verdict(results: Results) -> str:
    """That there is none, if weights were estimated and no run was compared."""
    runs = [trial for _, trial in first_runs(results) if trial.record.get("verdict")]
    if not runs or any(map(is_compared, runs)):
        return ""
    return (
        "There is no verdict on the weights: it needs a comparison on held-out trusted samples (adiw run --compare)."
    )


def _majority(trial: Trial, accuracy: float) -> str:
    """The accuracy of always predicting the most frequent class, to compare with."""
    majority = (trial.record.get("predictions") or {}).get("majority")
    if not majority:
        return ""
    than = "more" if accuracy > majority["rate"] else "not more"
    rate = f"{majority['rate']:.2f}%"
    return f" That is {than} than always predicting the most frequent class, {majority['class']}: {rate}."


def _one_run(trial: Trial) -> list[str]:
    """Status, accuracy and weights at the end of a single run."""
    why = f": {trial.short_reason}" if trial.short_reason else ""
    found = [f"One run, {'finished' if trial.status == 'done' else trial.status}{why}."]
    accuracy, epochs = trial.mean("accuracy"), len(trial.curves.get("accuracy", []))
    if accuracy is not None:
        best = trial.record.get("best")
        figure = f"mean of the last {min(LAST, epochs)} of {epochs} epochs"
        if best is not None:
            figure = f"in epoch {best['epoch']}, the best of {epochs} on held-out trusted samples"
            last_accuracy = trial.record["last"]["accuracy"]
            figure += f"; the last epoch has {last_accuracy:.2f}%"
        found.append(f"Accuracy {accuracy:.2f}%, {figure}.{_majority(trial, accuracy)}")
    last = {name: curve[-1] for name, curve in trial.curves.items() if curve and curve[-1] is not None}
    if "ess" not in last:
        return found
    count = sum(group["count"] for group in trial.weights["groups"].values()) if trial.weights else None
    text = f"Effective sample size at the end: {last['ess']:.0f}" + (f" of {count} samples" if count else "")
    if "weight_intact" in last and "weight_mislabelled" in last:
        text += (
            f". Mean weight of intact samples {last['weight_intact']:.2f}, "
            f"of mislabelled samples {last['weight_mislabelled']:.2f}"
        )
    return [*found, f"{text}."]
