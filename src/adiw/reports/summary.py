"""A page in words: how much is done, what came out best, what did not finish, and how it compares with the paper."""

from __future__ import annotations

from adiw.reports.page_model import Page, Trial

SHOWN = 3  # reasons of failure; the rest is counted


def sentences(page: Page) -> list[str]:
    """The summary, a sentence or two in each entry."""
    found = [_progress(page)]
    if len(page.trials) == 1 and page.planned is None:
        found += _one_run(page.trials[0])
    else:
        found += [text for column in page.columns if (text := _best(page, column))]
    found += [text for text in (_against_paper(page), page.changes, *_reasons(page)) if text]
    return found


def _progress(page: Page) -> str:
    """How many trials there are and how they ended."""
    total = len(page.trials) if page.planned is None else page.planned * len(page.rows) * len(page.columns)
    if total == 1 and page.trials:
        return f"One run, {'finished' if page.trials[0].status == 'done' else page.trials[0].status}."
    kinds = ("done", "dead", "failed", "unfinished")
    counts = {kind: sum(trial.status == kind for trial in page.trials) for kind in kinds}
    counts["missing"] = total - len(page.trials)
    methods = f"{len(page.rows)} method{'s' if len(page.rows) != 1 else ''}"
    what = f"{total} run{'s' if total != 1 else ''} of {methods}"
    if len(page.columns) > 1:
        what += f" in {len(page.columns)} settings"
    if counts["done"] == total:
        return f"{what}, all finished."
    rest = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count and kind != "done")
    return f"{what}: {counts['done'] or 'none'} finished, {rest}."


def _best(page: Page, column: str) -> str:
    """The highest mean in a column; nothing where there is only one."""
    measure = page.measures[0]
    means = {row: mean for row in page.rows if (mean := page.cell(row, column, measure).mean) is not None}
    if len(means) < 2:
        return ""
    best = max(means, key=lambda row: means[row])
    where = f"{column}: highest" if len(page.columns) > 1 else "Highest"
    text = f"{where} mean accuracy {means[best]:.2f}% with {best}"
    papers = {row: paper for row in page.rows if (paper := page.cell(row, column, measure).paper) is not None}
    if papers:
        top = max(papers, key=lambda row: papers[row])
        text += f" (the paper's highest: {papers[top]:.2f}% with {top})"
    return text + "."


def _against_paper(page: Page) -> str:
    """How many figures reach the paper's, over all cells of the first measure that have both."""
    cells = [page.cell(row, column, page.measures[0]) for row in page.rows for column in page.columns]
    differences = [cell.difference for cell in cells if cell.difference is not None]
    if not differences:
        return ""
    reached = sum(difference >= 0 for difference in differences)
    low, high = min(differences), max(differences)
    return f"{reached} of {len(differences)} figures are at or above the paper's (from {low:+.2f} to {high:+.2f})."


def _one_run(trial: Trial) -> list[str]:
    """Accuracy and the state of the weights at the end of a single run."""
    found = []
    if "accuracy" in trial.values:
        epochs = len(trial.curves.get("accuracy", []))
        found.append(
            f"Accuracy {trial.values['accuracy'][0]:.2f}%, mean of the last {min(10, epochs)} of {epochs} epochs."
        )
    last = {name: curve[-1] for name, curve in trial.curves.items() if curve and curve[-1] is not None}
    count = sum(group["count"] for group in trial.weights["groups"].values()) if trial.weights else None
    if "ess" in last:
        text = f"At the end the weights are worth {last['ess']:.0f} samples"
        text += f" of {count} (effective sample size)" if count else " (effective sample size)"
        if "weight_intact" in last and "weight_mislabelled" in last:
            text += f"; intact samples weigh {last['weight_intact']:.2f} on average, "
            text += f"mislabelled ones {last['weight_mislabelled']:.2f}"
        found.append(text + ".")
    return found


def _reasons(page: Page) -> list[str]:
    """Why trials died or failed, the first few."""
    broken = [trial for trial in page.trials if trial.reason and trial.status != "done"]
    found = [f"{trial.row}, {trial.column}, {trial.status}: {trial.reason}" for trial in broken[:SHOWN]]
    rest = len(broken) - SHOWN
    return found + ([f"{rest} more trials ended before their time."] if rest > 0 else [])
