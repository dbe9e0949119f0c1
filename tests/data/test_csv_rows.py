import pytest

from adiw.data import DataError
from adiw.data.csv_rows import read_rows


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_reads_numbers_and_labels(tmp_path):
    rows = read_rows(write(tmp_path, 'a, b,label\n1,-2.5e1,"yes, sir"\r\n\n 3 ,4, no\n'), None)
    assert rows.names == ("a", "b")
    assert rows.x.tolist() == [[1.0, -25.0], [3.0, 4.0]]
    assert rows.labels == ("yes, sir", "no")


def test_target_may_be_any_column(tmp_path):
    rows = read_rows(write(tmp_path, "a,label,b\n1,x,2\n"), "label")
    assert (rows.names, rows.labels, rows.target) == (("a", "b"), ("x",), "label")
    assert rows.x.tolist() == [[1.0, 2.0]]


def test_byte_order_mark_is_not_part_of_a_name(tmp_path):
    assert read_rows(write(tmp_path, "a,y\n1,x\n", "utf-8-sig"), None).names == ("a",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,two,x", "line 3, column 'b': expected a number, found 'two'"),
        ("1,,x", r"line 3, column 'b': expected a number, found nothing \(a missing value\)"),
        ("NA,2,x", "line 3, column 'a': expected a number, found 'NA'"),
        ("nan,2,x", "line 3, column 'a': expected a number, found 'nan'"),
        ("inf,2,x", "line 3, column 'a': expected a number, found 'inf'"),
        ("1_000,2,x", "line 3, column 'a': expected a number, found '1_000'"),
        ("1,2,", "line 3, column 'y': expected a label, found nothing"),
        ("1,2", "line 3: expected 3 values as in the first line, found 2"),
        ("1,2,x,4", "line 3: expected 3 values as in the first line, found 4"),
        ('1,2,"x', "line 3: not comma-separated text"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, message):
    with pytest.raises(DataError, match=f"t.csv, {message}"):
        read_rows(write(tmp_path, f"a,b,y\n1,2,x\n{row}\n"), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names at least two columns"),
        ("a;b;y\n1;2;x\n", "separated by commas"),
        ("1,2,3\n4,5,6\n", "found numbers"),
        ("a,a,y\n1,2,x\n", "found twice: a"),
        ("a,b,y\n", "expected rows below the first line"),
    ],
)
def test_bad_headers(tmp_path, text, message):
    with pytest.raises(DataError, match=f"t.csv: .*{message}"):
        read_rows(write(tmp_path, text), None)


def test_unknown_target_lists_the_columns(tmp_path):
    with pytest.raises(DataError, match="no column 'z' for target; the columns are a, b, y"):
        read_rows(write(tmp_path, "a,b,y\n1,2,x\n"), "z")


def test_other_encodings_and_absent_files(tmp_path):
    with pytest.raises(DataError, match="expected UTF-8"):
        read_rows(write(tmp_path, "a,ü\n1,x\n", "latin-1"), None)
    with pytest.raises(DataError, match=r"gone\.csv: file not found"):
        read_rows(tmp_path / "gone.csv", None)
