"""``adiw check``: its output for tables, images and data sets by name."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command
from tests.cli.images import write_images
from tests.experiments.tables import write_table


def test_a_table_is_checked_before_any_training(adiw: Command) -> None:
    write_table(Path("t.csv"), rows=400)
    output = adiw("check", "t.csv", "--trusted", 60)
    assert (output.code, output.err) == (0, "")
    lines = output.out.splitlines()
    assert lines[0] == "t.csv: 320 training, 60 trusted and 80 test samples"
    assert [line.split()[0] for line in lines[4:7]] == ["ant", "bee", "cat"]
    assert lines[-5].startswith("  class mix: training and trusted samples do not differ significantly")
    assert lines[-4] == "  duplicates: no training sample is an exact copy of a trusted sample"
    assert lines[-1].startswith("! trusted samples: none of 60 is held out, as 30% would be fewer than 20")
    assert not Path("runs").exists()


def test_the_findings_as_json(adiw: Command) -> None:
    found = json.loads(adiw("check", "digits", "--json").out)
    assert found["classes"] == [str(digit) for digit in range(10)]
    assert {each["name"]: each["warns"] for each in found["findings"]}["labels"] is True
    again = json.loads(adiw("check", "digits", "--json").out)
    assert again == found  # the same seed


def test_images_are_checked_too(adiw: Command) -> None:
    write_images(Path("photos"))
    output = adiw("check", "photos", "--trusted", 6)
    assert output.code == 0, output.err
    assert "duplicates: " in output.out


def test_bad_data_is_an_error_in_one_line(adiw: Command) -> None:
    for given, message in (
        ("digit", "unknown data set, file or folder 'digit': expected one of digits"),
        ("csv", "csv is a kind of data: name the file or folder itself"),
        ("none.csv", "none.csv does not exist"),
    ):
        for command in ("check", "run"):
            output = adiw(command, given, "--trusted", 10)
            assert output.code == 2
            assert message in output.err
            assert output.err.count("\n") == 1
