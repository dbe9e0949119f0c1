"""Markdown tables from the results of the benchmarks, one function for each kind of result, without torch."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import linear_regression
from typing import Any

Row = dict[str, Any]
Content = dict[str, Any]


def grid(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table with the first column aligned left and the others right.

    >>> print(grid(["n", "ms"], [["64", "0.10"]]))
    | n | ms |
    | --- | ---: |
    | 64 | 0.10 |
    """
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, without an exponent.

    >>> number(0.0123456), number(1234.5), number(None)
    ('0.0123', '1234', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"


def made_on(content: Content) -> str:
    """The line under a table: hardware, versions, commit."""
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    commit = f", commit {content['commit']}" if content.get("commit") else ""
    device, load = content.get("device", "CPU"), content.get("load")
    busy = f" The load of the machine was {load} at the start." if load is not None and load > 1 else ""
    return f"{device}, {content['cpus']} CPU cores, Python {content['python']}, {versions}{commit}.{busy}"


def steps(content: Content) -> str:
    """Milliseconds of a step and the ratio to uniform with the same engine, a column for each variant."""
    rows = {(row["method"], row["variant"]): row for row in content["rows"]}
    methods, variants = (list(dict.fromkeys(key[i] for key in rows)) for i in (0, 1))
    first = variants[0]
    epochs = [variant for variant in variants if variant in (first, "compiled")]
    lines = []
    for method in methods:
        cells = [_step_cell(rows.get((method, variant))) for variant in variants]
        peak = rows.get((method, first), {}).get("peak_ratio")
        cells.append("-" if peak is None else f"x{peak:.3f}")
        cells += [number(rows.get((method, variant), {}).get("seconds_per_epoch")) for variant in epochs]
        lines.append([method, *cells])
    head = ["method", *(f"{heading(variant)}, ms" for variant in variants), f"peak memory ({first})"]
    head += [f"s / epoch ({variant})" for variant in epochs]
    notes = [_note(row) for row in content["rows"] if row.get("error")]
    notes += sorted(
        {f"- {row['method']}, {row['variant']}: {note}" for row in rows.values() for note in row.get("notes", ())}
    )
    return "\n".join([grid(head, lines), *(["", *notes] if notes else []), "", made_on(content)])


def plain_loop(content: Content) -> str:
    """Milliseconds of a step in a loop of one's own, and the ratio to uniform with its 95% interval."""
    rows = {(row["network"], row["method"]): row for row in content["rows"]}
    networks, methods = (list(dict.fromkeys(key[i] for key in rows)) for i in (0, 1))
    lines = [[method, *(_loop_cell(rows.get((network, method))) for network in networks)] for method in methods]
    return "\n".join([grid(["method", *(f"{network}, ms" for network in networks)], lines), "", made_on(content)])


def _loop_cell(row: Row | None) -> str:
    if row is None:
        return ""
    low, high = row["interval"]
    ratio = "" if row["method"] == "uniform" else f" (x{row['ratio']:.2f}, {low:.2f} to {high:.2f})"
    return number(row["ms"]) + ratio


def frameworks(content: Content) -> str:
    """The ratio to uniform in each loop, with its 95% interval, and its difference to that of the plain loop."""
    rows = {(row["network"], row["method"], row["loop"]): row for row in content["rows"]}
    networks, methods, loops = (list(dict.fromkeys(key[i] for key in rows)) for i in (0, 1, 2))
    lines = [
        [f"{network}, {method}", *(_framework_cell(rows.get((network, method, loop))) for loop in loops)]
        for network in networks
        for method in methods
    ]
    return "\n".join([grid(["step, ms", *loops], lines), "", made_on(content)])


def _framework_cell(row: Row | None) -> str:
    if row is None or "error" in row:
        return "not run" if row is None else "failed"
    if row["method"] == "uniform" or row["loop"] == "plain" or "over_plain" not in row:
        return _loop_cell(row)
    low, high = row["interval"]
    return f"{number(row['ms'])} (x{row['ratio']:.2f}, {low:.2f} to {high:.2f}; {row['over_plain']:+.2f})"


def engine(content: Content) -> str:
    """Steps and epochs with each engine and method, and the seconds until the first graph."""
    rows = {(row["workload"], row["engine"], row["method"]): row for row in content["rows"]}
    lines = [
        [f"{workload}, {engine}", method, *_engine_cells(row)] for (workload, engine, method), row in rows.items()
    ]
    head = ["engine", "method", "step, ms", "s / epoch", "s until it is ready"]
    return "\n".join([grid(head, lines), "", made_on(content)])


def _engine_cells(row: Row) -> list[str]:
    if "error" in row:
        return [row["error"], "-", "-"]
    ratio = "" if row["method"] == "uniform" else f" (x{row['ratio']:.3f})"
    return [number(row["ms"]) + ratio, f"{row['seconds_per_epoch']:.3f}", f"{row['set_up_seconds']:.1f}"]


def many_runs(content: Content) -> str:
    """Seconds of 100 epochs of a run when runs share a device."""
    lines = [
        [row["way"], *(("-", "-", row["error"]) if "error" in row else _many_cells(row))] for row in content["rows"]
    ]
    return "\n".join(
        [grid(["way", "runs", "epochs of each", "s / 100 epochs of a run"], lines), "", made_on(content)]
    )


def _many_cells(row: Row) -> tuple[str, ...]:
    return f"{row['runs']}", f"{row['epochs']}", f"{row['seconds_per_100_epochs']:.1f}"


def busy(content: Content) -> str:
    """Seconds of a run beside busy processes, and relative to the run without them."""
    lines = [
        [row["threads"], str(row["neighbours"]), f"{row['seconds']:.1f}", f"x{row['ratio']:.1f}"]
        for row in content["rows"]
    ]
    return "\n".join([grid(["threads", "busy neighbours", "s", "ratio"], lines), "", made_on(content)])


def language_model(content: Content) -> str:
    """Seconds and memory of an optimizer step, and their ratios to uniform."""
    lines = []
    for row in content["rows"]:
        low, high = row["interval"]
        uniform = row["method"] == "uniform"
        ratio = "" if uniform else f" (x{row['ratio']:.3f}, {low:.3f} to {high:.3f})"
        memory = "" if uniform else f" (x{row['memory_ratio']:.4f})"
        lines.append([row["method"], f"{1000 * row['seconds']:.0f}{ratio}", f"{row['mib'] / 1024:.2f}{memory}"])
    return "\n".join([grid(["method", "optimizer step, ms", "peak memory, GiB"], lines), "", made_on(content)])


def stream(content: Content) -> str:
    """Bytes that a stream keeps after its first part and at its end, and the CPU time of a step beside an index."""
    head = ["method", "kB kept at first", "kB kept at the end", "MB kept with an index", "step / step with an index"]
    lines = [
        [
            row["method"],
            f"{row['bytes_kept_first'] / 1e3:.0f}",
            f"{row['bytes_kept_last'] / 1e3:.0f}",
            f"{row['bytes_kept_indexed'] / 1e6:.0f}",
            f"{row['step_over_indexed']:.2f}",
        ]
        for row in content["rows"]
    ]
    return "\n".join([grid(head, lines), "", made_on(content)])


def heading(variant: str) -> str:
    """The name of a variant, which is different in older records.

    >>> heading("compiled, full probe")
    'compiled, full validation pass'
    """
    return variant.replace("full probe", "full validation pass")


def _step_cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.get("ms") is None:
        return "failed" if row.get("error") else "not run"
    ratio = "" if row["ratio"] is None or row["method"] == "uniform" else f" (x{row['ratio']:.2f})"
    return number(row["ms"]) + ratio


def _note(row: Row) -> str:
    return f"- {row['method']}, {row.get('variant', row.get('engine'))}: {row['error']}"


def estimation(content: Content) -> str:
    """Milliseconds of an estimate and the ratio to ADIW-KL's, a column for each batch size and engine."""
    rows = {(row["method"], row["engine"], row["batch"]): row for row in content["rows"]}
    engines, batches = (list(dict.fromkeys(key[i] for key in rows)) for i in (1, 2))
    columns = [(engine, batch) for engine in engines for batch in batches]
    lines = [
        [method, *(_estimate_cell(rows.get((method, *column))) for column in columns)]
        for method in dict.fromkeys(key[0] for key in rows)
    ]
    head = ["method", *(f"{engine}, {batch}, ms" for engine, batch in columns)]
    notes = [f"{_note(row)} (batch {row['batch']})" for row in content["rows"] if row.get("error")]
    return "\n".join([grid(head, lines), *(["", *notes] if notes else []), "", made_on(content)])


def _estimate_cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.get("ms") is None:
        return "failed" if row.get("error") else row["skipped"]
    return number(row["ms"]) + ("" if row.get("ratio") is None else f" (x{row['ratio']:.3g})")


def divergences(content: Content) -> str:
    """Milliseconds of an estimate and the ratio to KL's, a column for each engine and z, and who waits."""
    rows = {(row["method"], row["engine"], row["z"]): row for row in content["rows"]}
    columns = list(dict.fromkeys(key[1:] for key in rows))
    lines = [
        [method, *(_estimate_cell(rows.get((method, *column))) for column in columns)]
        for method in dict.fromkeys(key[0] for key in rows)
    ]
    names = {"loss": "losses", "features": "features"}
    notes = [_note(row) for row in content["rows"] if row.get("error")]
    waits = [f"{row['method']}, {row['engine']}, {names[row['z']]}" for row in rows.values() if row.get("host_waits")]
    if waits:
        notes.append(f"- The host waits for the device: {'; '.join(waits)}.")
    elif any(row.get("host_waits") is False for row in rows.values()):
        notes.append("In none of these estimates does the host wait for the device.")
    table = grid(["method", *(f"{engine}, {names[z]}, ms" for engine, z in columns)], lines)
    return "\n".join([table, *(["", *notes] if notes else []), "", made_on(content)])


def growth(content: Content) -> str:
    """Milliseconds by size for each axis, and the exponent of the last three sizes."""
    parts = []
    for axis in dict.fromkeys(row["axis"] for row in content["rows"]):
        rows = [row for row in content["rows"] if row["axis"] == axis]
        sizes = list(dict.fromkeys(row["size"] for row in rows))
        fixed = ", ".join(f"{_NAMES[name]} {rows[0][name]}" for name in ("train", "val") if name in rows[0])
        parts.append(f"By {axis} ({fixed}; {rows[0]['engine']}):\n")
        parts.append(grid([axis, *(f"{size:,}" for size in sizes), "exponent"], _growth_lines(rows, sizes)) + "\n")
    return "\n".join([*parts, made_on(content)])


_NAMES = {"train": "batch", "val": "validation batch"}


def _growth_lines(rows: list[Row], sizes: list[int]) -> Iterable[list[str]]:
    for method in dict.fromkeys(row["method"] for row in rows):
        found = {row["size"]: row.get("ms") for row in rows if row["method"] == method}
        yield [f"{method}, ms", *(number(found[size]) for size in sizes), number(exponent(found), 2)]
    if rows[0]["axis"] == "training set":
        kept = {row["size"]: row["bytes"] for row in rows if row["method"] == rows[0]["method"]}
        mebibytes = {size: value and value / 2**20 for size, value in kept.items()}
        yield ["MiB kept", *(number(mebibytes[size]) for size in sizes), number(exponent(mebibytes), 2)]


def exponent(found: dict[int, float | None], last: int = 3) -> float | None:
    """The slope of log time over log size through the last sizes; None with fewer than two.

    >>> round(exponent({10: 3.0, 100: 1.0, 1000: 100.0, 10000: 10000.0}), 6)
    2.0
    """
    points = [(math.log(size), math.log(value)) for size, value in sorted(found.items()) if value][-last:]
    if len(points) < 2:
        return None
    return linear_regression(*zip(*points, strict=True)).slope


def peers(content: Content) -> str:
    """The squared errors of the classic estimators beside those of other packages, a column for each problem."""
    rows = content["estimators"]
    problems, names = (list(dict.fromkeys(row[key] for row in rows)) for key in ("problem", "name"))
    of = {(row["name"], row["problem"]): row for row in rows}
    lines = [
        [name, *(_peer_error(of[name, problem]) for problem in problems), _peer_time(of[name, problems[0]])]
        for name in names
    ]
    text = [grid(["estimator", *problems, f"ms, {problems[0]}"], lines)]
    kmm = content.get("kmm")
    if kmm:
        text += ["", f"KMM at n = 2000: {1000 * kmm['adiw_seconds']:.0f} ms, cvxopt {kmm['cvxopt_seconds']:.1f} s."]
    missing = content.get("not_installed")
    if missing:
        text += ["", f"Not installed, so not compared: {', '.join(missing)}."]
    return "\n".join([*text, "", made_on(content)])


def _peer_error(row: Content) -> str:
    return row["error"] if "error" in row else number(row["median_error"])


def _peer_time(row: Content) -> str:
    return "-" if "error" in row else f"{1000 * row['median_seconds']:.1f}"


def oracle_error(content: Content) -> str:
    """Squared error over seeds that no setting was chosen on."""
    lines = [[row["name"], f"{row['median']:.4f}"] for row in content["rows"]]
    first, last = content["seeds"]
    return "\n".join([grid(["estimator", f"median over seeds {first} to {last}"], lines), "", made_on(content)])


def million(content: Content) -> str:
    """Seconds and memory of the classic estimators on many points."""
    lines = [[row["estimator"], str(row["seconds"]), str(row["peak_memory_gib"])] for row in content["rows"]]
    head = [f"{content['points']:,} points", "seconds", "peak GiB"]
    return "\n".join([grid(head, lines), "", made_on(content)])


def load(path: Path) -> Content | None:
    """A result, or None where the file does not exist."""
    return json.loads(path.read_text()) if path.is_file() else None


def false_shifts(content: Content) -> str:
    """How often each test found a difference in random splits of clean tables."""
    lines = [[name, str(row["found"]), str(row["splits"])] for name, row in content["tests"].items()]
    tables = f"Level {content['level']:.0%}; tables: {', '.join(content['tables'])}."
    return "\n".join([grid(["test", "differences found", "splits"], lines), "", tables, made_on(content)])


def whole(content: Content) -> str:
    """Seconds of a complete run, and of its parts."""
    head = [
        "data",
        "epochs",
        "whole command, s",
        "training, s",
        "of it the first epoch, s",
        "evaluation, s",
        "accuracy",
    ]
    names = ("command_seconds", "train_seconds", "first_epoch_seconds", "evaluate_seconds")
    lines = [
        [row["dataset"], str(row["epochs"]), *(f"{row[name]:.1f}" for name in names), f"{row['accuracy']:.2f}"]
        for row in content["rows"]
    ]
    return "\n".join([grid(head, lines), "", made_on(content)])


TABLES: dict[str, Callable[[Content], str]] = {
    "steps": steps,
    "plain-loop": plain_loop,
    "frameworks": frameworks,
    "engine": engine,
    "many-runs": many_runs,
    "busy": busy,
    "language-model": language_model,
    "stream": stream,
    "estimation": estimation,
    "divergences": divergences,
    "growth": growth,
    "peers": peers,
    "oracle_error": oracle_error,
    "million": million,
    "false_shifts": false_shifts,
    "whole": whole,
}
