"""Raw data of the confirmation half: each exporter on a small part, and the digests of the files in use."""

from __future__ import annotations

import ast
import hashlib
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.gauntlet import halves
from benchmarks.gauntlet.export_sources import __main__ as command
from benchmarks.gauntlet.export_sources import characters, fragments, languages, python_code, zones
from benchmarks.gauntlet.task import MissingError, Sources

CODE = '''
def _read(path: str, *rest, size=3):
    """Doc."""
    try:
        return [open(p) for p in rest]
    except OSError:
        raise
'''


def test_a_function_is_counted_by_hand() -> None:
    node = ast.parse(CODE).body[0]
    assert isinstance(node, ast.FunctionDef)
    row = python_code.row("stdlib", node, is_method=False, lines=CODE.splitlines()[1:])
    expected = {"visibility": "private", "kind": "function", "documented": True, "arguments": 2, "annotated": 1}
    expected |= {"defaults": 1, "variadic": 1, "tries": 1, "raises": 1, "returns": 1, "comprehensions": 1, "calls": 1}
    expected |= {"lines": 4, "widest": len("        return [open(p) for p in rest]"), "name_letters": 5, "yields": 0}
    assert {name: row[name] for name in expected} == expected


def test_functions_come_once_each_and_without_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_code, "LIBRARIES", ("aiohttp",))
    monkeypatch.setattr(python_code, "EACH", 200)
    monkeypatch.setattr(python_code, "TEXTS", 50)
    table, texts = python_code.table(), python_code.texts()
    assert len(table) == 200
    assert 0.05 < table["documented"].mean() < 0.95
    assert (table["widest"] <= python_code.WIDEST).all()
    assert len(texts) == texts["text"].nunique() == 50


def test_a_missing_library_is_reported_by_name() -> None:
    with pytest.raises(MissingError, match="no_such_library is not installed"):
        python_code.folder_of("no_such_library")


def test_images_show_the_characters_of_their_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characters, "EACH", 20)
    made = characters.glyphs()
    assert made["images"].shape == (20 * len(characters.SCRIPTS), characters.SIDE**2)
    names = [unicodedata.name(chr(point)).split()[0] for point in made["character"]]
    assert names == [characters.SCRIPTS[label] for label in made["script"]]
    inked = (made["images"] > 0).sum(1)
    assert (inked > 0).mean() > 0.95  # some characters are blank


def test_properties_are_those_of_the_character() -> None:
    table = characters.properties().set_index("point")
    assert table.loc[ord("a"), ["category", "bytes", "name_words"]].tolist() == ["Ll", 1, 4]
    assert table.loc[ord("é"), ["category", "bytes", "decomposition"]].tolist() == ["Ll", 2, 1]
    assert ord("中") not in table.index


def test_names_belong_to_one_language() -> None:
    pytest.importorskip("babel")
    table = languages.names()
    assert set(table["language"]) == set(languages.LANGUAGES)
    assert table["text"].is_unique
    assert table.set_index("text").loc["Deutschland", "language"] == "de"


def test_zones_change_their_clocks_where_they_do() -> None:
    if not zones.FILE.exists():
        pytest.skip("this system has no table of time zones")
    table = zones.table()
    assert table["latitude"].abs().max() <= 90
    assert table["longitude"].abs().max() <= 180
    berlin = table[(table["latitude"] - 52.5).abs().lt(0.01) & (table["longitude"] - 13.37).abs().lt(0.01)]
    assert berlin[["january", "region", "changes"]].to_numpy().tolist() == [[1.0, "Europe", True]]


@pytest.mark.parametrize(("text", "expected"), [("-0030", -0.5), ("+1234530", 123 + 45 / 60 + 30 / 3600)])
def test_angles_by_hand(text: str, expected: float) -> None:
    assert zones.degrees(text) == pytest.approx(expected)


def test_pieces_of_a_file_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_bytes(b"a" * 2 * fragments.PIECE + b"b")  # the rest is too short for a piece
    (tmp_path / "b.txt").write_bytes(b"c" * fragments.PIECE)  # not a type that is read
    monkeypatch.setattr(fragments.sysconfig, "get_path", lambda name: str(tmp_path))
    made = fragments.pieces()
    assert made["counts"][:, ord("a")].tolist() == [fragments.PIECE] * 2
    assert made["counts"].sum() == 2 * fragments.PIECE
    assert made["packed"].max() < 50
    assert len(np.unique(made["number"])) == 1


def test_the_same_data_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "TABLES", {"table": lambda: pd.DataFrame({"text": ["é", "?"]})})
    monkeypatch.setattr(command, "ARRAYS", {"arrays": lambda: {"x": np.arange(3)}})
    for folder in ("one", "two"):
        command.export(tmp_path / folder)
    for name in ("table.csv.gz", "arrays.npz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert pd.read_csv(tmp_path / "one/table.csv.gz")["text"].tolist() == ["é", "?"]


def test_the_files_have_the_digests_of_those_in_use() -> None:
    lines = halves.HALVES.with_name("confirmation.sha256").read_text().splitlines()
    names = {line.split()[1] for line in lines}
    assert names == {f"{name}.csv.gz" for name in command.TABLES} | {f"{name}.npz" for name in command.ARRAYS}
    folder = Sources().data / "confirmation"
    if not folder.exists():
        pytest.skip("python -m benchmarks.gauntlet.export_sources data has not run here")
    found = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}" for name in sorted(names)]
    assert found == lines
