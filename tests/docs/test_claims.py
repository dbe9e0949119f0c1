"""What the pages say in words about figures and settings, checked against the records and the code."""

from __future__ import annotations

import csv
import inspect
import json
import re
import statistics
from pathlib import Path

import pytest

import adiw
from adiw.cli import console
from adiw.experiments.recipes import load
from adiw.experiments.run import run
from adiw.experiments.sealed import read_lines
from adiw.experiments.settings import resolve
from adiw.reports.audit import load_audit, write_csv
from adiw.reports.folders import read_sweep

ROOT = Path(__file__).parents[2]
NOISE = ("20% symmetric", "40% symmetric", "60% symmetric", "30% pair")
PRIOR = "class prior, 10 to 1"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def accuracies(sweep: str) -> dict[tuple[str, str], float]:
    """(row, column) -> mean accuracy."""
    cells = read_sweep(ROOT / "results" / sweep).cells
    figures = {place: cell.figure("accuracy") for place, cell in cells.items()}
    return {place: figure[0] for place, figure in figures.items() if figure is not None}


def test_what_is_said_of_the_divergences_on_digits() -> None:
    found = accuracies("digits-divergences")
    rows = ("ADIW-KL", "ADIW-KM", "ADIW-LS", "ADIW-WA")
    gains = [found[row, column] - found["Uniform", column] for row in rows for column in NOISE]
    assert 5 < min(gains) < max(gains) < 40
    for column in NOISE:
        assert found["ADIW-LS", column] == min(found[row, column] for row in rows)
        assert found["Oracle", column] > max(found[row, column] for row in rows)
        assert max(found[row, column] for row in rows) - found["ADIW-KL", column] < 2.5
    for column in NOISE[:2]:
        assert found["ADIW-WA", column] == max(found[row, column] for row in rows)
    for column in NOISE[2:]:
        assert found["ADIW-WA", column] < min(found["ADIW-KL", column], found["ADIW-KM", column])
    for column in (*NOISE, PRIOR):
        assert found["ADIW-KM, local step", column] > found["ADIW-KM", column]
        assert found["ADIW-LS, width 0.1", column] > found["ADIW-LS", column]


def test_what_is_said_of_the_class_mix() -> None:
    found = accuracies("digits-divergences")
    features = "ADIW-KL on features, class by class"
    assert found["ADIW-KL", PRIOR] < found["Uniform", PRIOR] - 5
    assert found[features, PRIOR] == max(value for (row, column), value in found.items() if column == PRIOR)
    assert abs(found[features, PRIOR] - found["Oracle", PRIOR]) < 0.5
    weighted = [row for row, column in found if column == NOISE[1] and row.startswith("ADIW")]
    for column in NOISE[1:]:
        assert found[features, column] == min(found[row, column] for row in weighted)


def test_what_is_said_of_fashion_mnist() -> None:
    found = accuracies("fmnist-choices-2")
    best = [
        max(v for (row, _), v in found.items() if row.startswith(f"ADIW-{kind}")) for kind in ("KM", "KL", "LS", "WA")
    ]
    assert max(best) - min(best) < 1


def test_what_is_said_of_widths() -> None:
    found = accuracies("digits-widths")
    rows = {row for row, _ in found}
    at = {row: {column: value for (one, column), value in found.items() if one == row} for row in rows}
    for row in rows:
        tried = {float(column): value for column, value in at[row].items() if column != "auto"}
        near = [width for width, value in tried.items() if value > max(tried.values()) - 2]
        assert max(near) >= 4 * min(near) or row == "ADIW-KL"
        assert at[row]["auto"] > max(tried.values()) - 1.5
        assert row == "ADIW-WA" or tried[10.0] == min(tried.values())
    assert at["ADIW-KL"]["0.5"] == max(at["ADIW-KL"].values())
    assert max(at["ADIW-LS"]["0.1"], at["ADIW-LS"]["0.5"]) > at["ADIW-LS"]["0.01"] + 1
    assert set(at["ADIW-WA"]).isdisjoint({"0.001", "0.01"})  # all of these died


def test_what_the_readme_says_of_a_step() -> None:
    (said,) = re.findall(r"On an H200 a compiled.*?times\.", (ROOT / "README.md").read_text(), re.DOTALL)
    rows = {}
    for work in ("cifar10", "imagenet", "fashion-mnist"):
        record = json.loads((ROOT / "benchmarks" / "results" / f"steps-{work}-cuda.json").read_text())
        rows |= {(work, row["method"]): row for row in record["rows"] if row["variant"] == "compiled"}
    ratio = {place: f"{row['ratio']:.2f}" for place, row in rows.items() if "ratio" in row}
    adiw_rows = [f"adiw-{name}" for name in ("kl", "km", "ls", "wa")]
    of_resnet = [ratio[work, row] for work in ("cifar10", "imagenet") for row in adiw_rows]
    of_lenet = [ratio["fashion-mnist", row] for row in adiw_rows]
    assert f"takes {min(of_resnet)} to {max(of_resnet)} times" in said
    assert f"it is {min(of_lenet)} to {max(of_lenet)} times" in said
    for work, memory in (("cifar10", "{:.1f}% more memory"), ("imagenet", "{:.0f}% more")):
        others = [f"{name}: {ratio[work, name.lower()]}" for name in ("DIW", "L2R", "MW-Net")]
        most = max(100 * (rows[work, row]["peak_ratio"] - 1) for row in adiw_rows)
        assert f"({', '.join(others)}; {memory.format(most)})" in said.replace("\n", " ")


def test_the_goals_of_a_step_and_what_was_reached() -> None:
    text = (ROOT / "benchmarks" / "results" / "README.md").read_text()
    lines = re.findall(r"^\| (cifar10|fashion-mnist|imagenet), ([^|]+?) \|(.*)\|$", text, re.MULTILINE)
    assert len(lines) == 12
    recipes = {"cifar10": "cifar10-noise", "fashion-mnist": "fmnist-noise", "imagenet": "imagenet-noise"}
    for work, what, rest in lines:
        method, _, probe = what.partition(", ")
        measured = {}
        for file in (ROOT / "benchmarks" / "results").glob(f"steps-{work}-cuda*.json"):
            rows = [row for row in json.loads(file.read_text())["rows"] if row["method"] == method]
            measured |= {(file.stem.endswith("probes"), row["variant"]): row.get("ratio") for row in rows}
        compiled = measured[False, "compiled" + (f", {probe}" if probe else "")]
        captured = measured[bool(probe), probe or "captured"]
        paper, goal, *shown = (cell.strip() for cell in rest.split("|"))
        assert shown == [f"{compiled:.3f}", f"{captured:.3f}"], what
        assert compiled <= float(goal), what
        if method.startswith("adiw") and work != "fashion-mnist":
            assert captured <= float(goal) + (0.02 if probe or work == "imagenet" else 0.002), what
        recipe = load(recipes[work])
        at = [column.label for column in recipe.columns].index("0.4 symmetric")
        label = next(row.label for row in recipe.rows if row.settings["method"] == method)
        theirs, uniform = (recipe.paper["seconds"][name][at] for name in (label, "Uniform"))
        assert paper == (f"{theirs / uniform:.2f}" if theirs else "-"), what


def test_what_the_readme_says_of_cifar10() -> None:
    (said,) = re.findall(r"On CIFAR-10 at 0\.4 .*?falls short", (ROOT / "README.md").read_text(), re.DOTALL)
    sweep, column = read_sweep(ROOT / "results" / "cifar10-noise-ours"), "0.4 symmetric"
    at = [column["label"] for column in sweep.recipe["columns"]].index(column)
    ours = {row: value for (row, of), value in accuracies("cifar10-noise-ours").items() if of == column}
    assert len(ours) == 4
    for row, value in ours.items():
        paper = sweep.recipe["paper"]["accuracy"][row][at][0]
        assert f"{row} {value:.2f} ({paper:.2f})" in " ".join(said.split())
        assert len(sweep.cells[row, column].done) == 1


def test_what_is_said_of_cifar10_over_the_epochs() -> None:
    folder, said = ROOT / "results" / "cifar10-noise-ours", " ".join(page("results.md").split())
    lines = [line for name in ("results", "earlier") for line in read_lines(folder / f"{name}.jsonl")]
    _, km_first = [line["curves"]["accuracy"] for line in lines if line["row"] == "ADIW-KM"]
    curve = {line["row"]: line["curves"]["accuracy"] for line in reversed(lines)}
    km, kl, wa = ((f"{curve[row][109]:.1f}", f"{curve[row][-1]:.1f}") for row in ("ADIW-KM", "ADIW-KL", "ADIW-WA"))
    assert (
        f"KM has {km[0]} in epoch 110, after the rate has fallen for the first time, and {km[1]} in epoch 400" in said
    )
    assert f"KL {kl[0]} and {kl[1]}." in said
    assert f"the same way: {wa[0]} in epoch 110, {wa[1]} in epoch 400" in said
    assert f"it had {km_first[101]:.1f} in epoch 102 and lost {km_first[101] - km_first[-1]:.0f} points" in said
    chosen = read_lines(ROOT / "results" / "cifar10-choices" / "results.jsonl")
    lost = [f"{max(line['curves']['accuracy']) - line['curves']['accuracy'][-1]:.1f}" for line in chosen]
    assert f"Width 0.1 loses {lost[0]} points from its best epoch to its last, 0.03 loses {lost[1]}" in said
    assert f"0.01 loses {lost[2]} and 0.003 loses {lost[3]}." in said


def test_what_is_said_of_trusted_samples_in_every_fourth_step() -> None:
    folder, text = ROOT / "results" / "fmnist-probe", page("results.md")
    first, more = (cost_of_every_fourth(folder / f"{name}.jsonl") for name in ("earlier", "results"))
    both = {row: first[row] + more[row] for row in first}
    rows = [f"ADIW-{short}" for short in ("KL", "KM", "LS", "WA")]
    for start, costs, errors in (("three of", first, False), ("five more", more, False), ("all eight", both, True)):
        (cells,) = re.findall(rf"^\| {start}[^|]*\| (.*) \|$", text, re.MULTILINE)
        assert cells.split(" | ") == [average(costs[row], errors) for row in rows]
    assert [len(both[row]) for row in rows] == [8] * 4
    assert all(statistics.mean(cost) > -0.2 for cost in both.values())
    assert f"without the fifth trial KL is at {average(both['ADIW-KL'][:-1], False)} and" in " ".join(text.split())


def cost_of_every_fourth(file: Path) -> dict[str, list[float]]:
    """For each row the accuracy with every fourth step less that with every step, trial by trial."""
    found = {(line["row"], line["column"], line["trial"]): line["accuracy"] for line in read_lines(file)}
    costs: dict[str, list[float]] = {}
    for (row, column, trial), accuracy in found.items():
        if column == "all, every 4th step":
            costs.setdefault(row, []).append(accuracy - found[row, "all, every step", trial])
    return costs


def average(values: list[float], with_error: bool) -> str:
    error = f" ({statistics.stdev(values) / len(values) ** 0.5:.2f})" if with_error else ""
    return f"{statistics.mean(values):.2f}{error}"


@pytest.mark.parametrize("name", ["KL", "MMD", "Squared", "Wasserstein"])
def test_the_defaults_in_the_table_are_those_of_the_code(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \|.*$", page("widths-and-steps.md"), re.MULTILINE)
    defaults = inspect.signature(getattr(adiw.divergences, name)).parameters
    shown = dict(re.findall(r"`(\w+)=([^`]+)`", row))
    assert len(shown) > 2
    for setting, value in shown.items():
        assert str(defaults[setting].default) == value.strip('"'), setting


def test_exit_codes() -> None:
    shown = {int(code) for code in re.findall(r"^\| (\d+) \|", page("troubleshooting.md"), re.MULTILINE)}
    assert shown == {0, console.BAD_INPUT, console.DEAD, console.STOPPED}


def test_the_files_of_a_run_and_the_columns_of_its_audit(tmp_path: Path) -> None:
    run(resolve({"dataset": "digits", "epochs": 4}), tmp_path)
    text = page("reading-results.md")
    _, of_audit, rest = re.split(r"^\| (?:column|file) \|.*$", text, flags=re.MULTILINE)
    named = set(first_column(rest))
    assert {file.name for file in tmp_path.iterdir()} | {"checkpoint-previous.pt"} == named  # that one of longer runs
    with (tmp_path / "audit.csv").open("w", newline="") as file:
        write_csv(load_audit(tmp_path), file)
    with (tmp_path / "audit.csv").open() as file:
        columns = next(csv.reader(file))
    always = [name for name in columns if not name.startswith("epoch_")]
    assert [name for name in first_column(of_audit) if not name.startswith("epoch_")] == always
    assert json.loads((tmp_path / "result.json").read_text())["status"] == "done"


def first_column(table: str) -> list[str]:
    """What is marked as code in the first column of a table."""
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return [name for row in rows for name in re.findall("`(.+?)`", row)]


def test_every_field_of_a_summary_is_explained() -> None:
    for field in adiw.Summary.__dataclass_fields__:
        assert field == "steps" or re.search(rf"^\| .*`{field}`", page("reading-results.md"), re.MULTILINE), field


def test_every_test_for_a_gpu_lies_where_contributing_says() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    marked = {file for file in files if re.search(r"pytest\.mark\.gpu", file.read_text(encoding="utf-8"))}
    assert marked == set((ROOT / "tests" / "gpu").glob("test_*.py"))
    assert "python -m pytest tests/gpu`" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
