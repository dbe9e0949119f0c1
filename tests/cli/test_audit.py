"""``adiw audit``: from a real run to a list of labels to check."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Command
from tests.experiments.tables import write_table
from tests.reports.elements import Elements
from tests.reports.folders import record, write_run, write_sweep


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_labels_that_a_run_distrusts_are_the_wrong_ones(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert adiw("run", "--epochs", 8, "--out", "r", "--quiet").code == 0
    output = adiw("audit", "r")
    assert (output.code, output.err) == (0, "")
    assert len([line for line in output.out.splitlines() if re.match(r"\d+ +\d+ ", line)]) == 10
    quality = re.search(r"(\d+) labels are known to be wrong: AUROC (0\.\d+); (\d+\.\d)%", output.out)
    assert quality is not None
    original, given, true, predicted = np.load("r/labels.npy")
    assert int(quality[1]) == (given != true).sum()
    assert re.search(r"Check the first \d+: about \d+% of them are expected to be mislabelled", output.out)
    assert float(quality[2]) > 0.9  # 0.5 by chance
    rows = read(Path("r/audit.csv"))
    assert len(rows) == 1197  # of 1297: 30 trusted samples are held out, 70 are trained on
    i = int(rows[0]["index"])
    found = [int(rows[0][key]) for key in ("number", "given", "true", "predicted")]
    assert found == [original[i], given[i], true[i], predicted[i]]
    page = Elements(Path("r/audit.html").read_text())
    assert len(page.named("svg", kind="spark")) == max(200, sum(row["check"] == "yes" for row in rows))
    assert len(page.named("img")) >= 48  # the least trusted and the other pictures


def test_top_and_out_set_the_number_and_the_folder(adiw: Command) -> None:
    assert adiw("run", "--epochs", 2, "--out", "r", "--quiet").code == 0
    output = adiw("audit", "r", "--top", 3, "--out", "to/here", "--quiet")
    assert (output.code, output.err) == (0, "")
    assert output.out.endswith(f"{Path('to/here/audit.csv')}, {Path('to/here/audit.html')}\n")
    assert len([line for line in output.out.splitlines() if re.match(r"\d+ +\d+ ", line)]) == 3
    assert len(read(Path("to/here/audit.csv"))) == 3
    assert len(Elements(Path("to/here/audit.html").read_text()).named("svg", kind="spark")) == 3
    assert not Path("r/audit.csv").exists()


def test_a_users_own_table_has_its_class_names_and_no_truth(adiw: Command) -> None:
    write_table(Path("t.csv"), rows=150)
    data = ["--dataset", "csv", "--path", "t.csv", "--target", "kind", "--trusted", 30, "--batch", 32]
    assert adiw("run", *data, "--epochs", 3, "--out", "r", "--quiet").code == 0
    output = adiw("audit", "r")
    assert (output.code, output.err) == (0, "")
    assert "How good this ranking is cannot be measured" in output.out
    assert {row["given_name"] for row in read(Path("r/audit.csv"))} == {"ant", "bee", "cat"}
    assert not Elements(Path("r/audit.html").read_text()).named("img")
    with Path("t.csv").open(newline="") as lines:
        table = list(csv.DictReader(lines))
    for row in read(Path("r/audit.csv")):
        assert row["numbering"] == "row of t.csv, from 0 below the column names"
        given = table[int(row["number"])]  # also after the random split of the file
        assert row["given_name"] == given.pop("kind")
        assert {name: row[f"column {name}"] for name in given} == given


@pytest.mark.parametrize(("method", "epochs"), [("uniform", 4), ("val-only", 60), ("mixed", 4), ("adiw-km", 4)])
def test_methods_without_ranks_are_audited_as_well(adiw: Command, method: str, epochs: int) -> None:
    assert adiw("run", "--epochs", epochs, "--method", method, "--out", "r", "--quiet").code == 0
    output = adiw("audit", "r")
    assert (output.code, output.err) == (0, "")
    quality = re.search(r"AUROC (0\.\d+)", output.out)
    assert quality is not None
    assert float(quality[1]) > 0.8  # 0.5 by chance
    assert ("were not trained on" in output.out) == (method == "val-only")


def test_a_class_named_like_markup_stays_text(adiw: Command) -> None:
    hostile = "<script>alert(1)</script>[red]"
    write_table(Path("t.csv"), rows=150, classes=(hostile, "bee", "cat"))
    data = ["--dataset", "csv", "--path", "t.csv", "--target", "kind", "--trusted", 30, "--batch", 32]
    assert adiw("run", *data, "--epochs", 3, "--out", "r", "--quiet").code == 0
    assert adiw("audit", "r").code == adiw("report", "r").code == 0
    for name, scripts in (("audit.html", 1), ("index.html", 2)):
        text = Path("r", name).read_text()
        assert "<script>alert" not in text
        assert len(Elements(text).named("script")) == scripts
    assert hostile in Elements(Path("r/audit.html").read_text()).text("td")


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("old", "old has no audit.npy, which an earlier version of adiw did not write: run it again"),
        ("begun", "the run in begun has not finished: continue it with adiw run --resume"),
        ("nothing", "nothing is not a folder: name the folder of a finished run"),
        ("sweep", "sweep is a sweep: audit one of its runs: sweep/runs/KL-a-0 (KL, a, trial 0)"),
    ],
)
def test_what_cannot_be_ranked_is_an_error_in_one_line(adiw: Command, folder: str, message: str) -> None:
    write_run(Path("old"), "adiw-kl", [50.0])
    write_run(Path("begun"), "adiw-kl", [50.0], None)
    write_sweep(Path("sweep"), [record("KL", "a", 0, [50.0])], ["KL"], ["a"])
    write_run(Path("sweep/runs/KL-a-0"), "adiw-kl", [50.0])
    output = adiw("audit", folder)
    assert (output.code, output.out, output.err) == (2, "", f"adiw: {message}\n")
    assert not list(Path().rglob("audit.*"))
