"""Tables: files and their formats, number and text columns, missing values, labels, and what is refused."""

import gzip

import pandas as pd
import pytest
import torch

from adiw.data import DataError, load, tables
from adiw.data.tables import number_columns, read_table
from tests.missing_packages import hide


def write(path, labels, first=0):
    lines = ["height,fixed,kind", *(f"{first + i},7,{label}" for i, label in enumerate(labels))]
    path.write_text("\n".join(lines) + "\n")
    return path


def csv(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    return path


def folder(path, train, test):
    path.mkdir(exist_ok=True)
    (path / "train.csv").write_text(train)
    (path / "test.csv").write_text(test)
    return path


def test_one_file_is_split_and_standardised(tmp_path):
    data = load("csv", path=write(tmp_path / "t.csv", ["b", "a"] * 25))
    assert (len(data.train), len(data.test)) == (40, 10)
    assert data.test.y.bincount().tolist() == [5, 5]
    assert data.classes == ("a", "b")
    x = data.train.x
    assert x.dtype == torch.float32
    assert x[:, 0].mean().abs() < 1e-6
    assert (x[:, 0].std(correction=0) - 1).abs() < 1e-6
    assert (x[:, 1] == 0).all()  # the constant column
    assert (data.mean, data.std, data.augment) == ((), (), False)
    assert data.input_shape == (2,)


def test_trusted_rows_of_their_own_file_are_training_rows(tmp_path):
    path, more = write(tmp_path / "t.csv", ["b", "a"] * 25), write(tmp_path / "checked.csv", ["a", "b", "b"], 90)
    alone, data = load("csv", path=path), load("csv", path=path, trusted=more)
    assert torch.equal(data.rows[data.trusted], torch.tensor([50, 51, 52]))
    assert data.train.y[data.trusted].tolist() == [0, 1, 1]
    assert [data.describe(k)["height"] for k in data.trusted.tolist()] == ["90", "91", "92"]
    assert torch.equal(data.rows[:-3], alone.rows)  # the same rows are tested
    parts = folder(tmp_path / "f", path.read_text(), path.read_text())
    both = load("csv", path=parts, trusted=more)
    assert both.trusted.tolist() == [50, 51, 52]
    assert len(both.test) == 50
    assert both.train.x[:, 0].mean().abs() < 1e-5  # standardised with the trusted rows


def test_trusted_rows_need_the_columns_and_the_classes_of_the_table(tmp_path):
    path, more = write(tmp_path / "t.csv", ["b", "a"] * 25), tmp_path / "checked.csv"
    more.write_text("fixed,height,kind\n1,2,a\n")
    with pytest.raises(DataError, match=r"checked.csv: expected the columns of t.csv in the same order"):
        load("csv", path=path, trusted=more)
    with pytest.raises(DataError, match=r"checked.csv, column 'kind': found classes .* not have: c"):
        load("csv", path=path, trusted=write(more, ["a", "c"]))
    more.write_text("height,fixed,kind\n1,2,a\ntall,2,b\n")
    with pytest.raises(DataError, match=r"checked.csv, column 'height', row 1 .*: expected a finite number"):
        load("csv", path=path, trusted=more)


def test_the_split_is_always_the_same(tmp_path):
    path = write(tmp_path / "t.csv", ["b", "a"] * 25)
    first, again = (load("csv", path=path) for _ in range(2))
    assert torch.equal(first.test.x, again.test.x)
    assert (len(first.train), len(first.test), first.test.y.bincount().tolist()) == (40, 10, [5, 5])


def test_named_rows_of_one_file_are_not_drawn_for_testing(tmp_path):
    path = write(tmp_path / "t.csv", ["b", "a"] * 25)
    drawn = load("csv", path=path).rows.tolist()
    tested = [row for row in range(50) if row not in drawn]
    rows = load("csv", path=path, train_rows=tested).rows.tolist()
    assert set(tested) <= set(rows)
    assert len(rows) == 10 + 32


def test_rows_are_named_in_a_table_of_one_file_only(tmp_path):
    both = folder(tmp_path / "both", "a,y\n1,p\n2,q\n3,p\n4,q\n", "a,y\n3,p\n")
    with pytest.raises(DataError, match="train_rows are for a table that is one file"):
        load("csv", path=both, train_rows=[0])


def test_two_files_use_training_statistics(tmp_path):
    write(tmp_path / "train.csv", ["x", "y", "x", "y"])  # heights 0 1 2 3: mean 1.5, variance 1.25
    write(tmp_path / "test.csv", ["y"], first=4)
    data = load("csv", path=tmp_path)
    assert data.test.x[0, 0].item() == pytest.approx(2.5 / 1.25**0.5)
    assert data.test.y.tolist() == [1]


def test_missing_numbers_become_the_training_median(tmp_path):
    # present: 0 1 5, median 1; with the filled value 0 1 1 5, mean 1.75, variance 3.6875
    train = "a,kind\n0,x\n1,y\nNA,x\n5,y\n"
    data = load("csv", path=folder(tmp_path, train, "a,kind\n?,x\n100,y\n,x\n"))
    filled = (1 - 1.75) / 3.6875**0.5
    assert data.train.x[2, 0].item() == pytest.approx(filled)
    assert data.test.x[[0, 2], 0].tolist() == pytest.approx([filled, filled])


def test_text_columns_are_one_hot_with_missing_values_as_a_category(tmp_path):
    train = "colour,a,kind\nred,1,x\nblue,2,y\n?,3,x\nred,4,y\n"
    data = load("csv", path=folder(tmp_path, train, "colour,a,kind\nNA,1,x\ngreen,1,y\nblue,1,y\n"))
    # inputs: the number column, then "" (missing), blue, red
    assert data.train.x[:, 1:].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert data.test.x[:, 1:].tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]  # green is not in the training rows


def test_a_table_of_text_only_and_an_empty_column(tmp_path):
    rows = "".join(f"{colour},,{kind}\n" for colour, kind in [("r", "x"), ("b", "y")] * 5)
    data = load("csv", path=csv(tmp_path, f"colour,nothing,kind\n{rows}"))
    assert data.input_shape == (3,)
    assert (data.train.x[:, 0] == 0).all()


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet"])
def test_other_formats_give_what_csv_gives(tmp_path, name):
    text = "a,flag,colour,kind\n" + "1.5,True,red,1\n,False,,0\n0.1,True,blue,1\n-2,False,red,0\n" * 3
    expected = load("csv", path=csv(tmp_path, text))
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    else:
        pd.read_csv(tmp_path / "t.csv").to_parquet(tmp_path / name)  # with pandas' own types
    found = load("csv", path=tmp_path / name)
    assert found.classes == expected.classes == ("0", "1")
    assert torch.equal(found.train.x, expected.train.x)
    assert torch.equal(found.test.y, expected.test.y)


def test_a_folder_may_mix_formats(tmp_path):
    (tmp_path / "train.csv.gz").write_bytes(gzip.compress(b"a,kind\n1,x\n2,y\n3,x\n4,y\n"))
    pd.DataFrame({"a": [1, 4], "kind": ["x", "y"]}).to_parquet(tmp_path / "test.parquet")
    data = load("csv", path=tmp_path)
    assert torch.equal(data.test.x, data.train.x[[0, 3]])


def test_rows_keep_their_order_and_blank_lines_do_not_count(tmp_path):
    data = load("csv", path=folder(tmp_path, "a,kind\n1,x\n\n2,y\n\n\n3,x\n4,y\n", "a,kind\n1,x\n"))
    assert data.train.y.tolist() == [0, 1, 0, 1]
    assert data.train.x[:, 0].argsort().tolist() == [0, 1, 2, 3]


def test_numbers_and_labels_are_stripped_and_quotes_removed(tmp_path):
    table = read_table(csv(tmp_path, 'a, b,label\n1,-2.5e1,"yes, sir"\r\n\n 3 ,4, no\n'), None)
    assert list(table.features.columns) == number_columns(table) == ["a", "b"]
    assert table.features.astype(float).values.tolist() == [[1.0, -25.0], [3.0, 4.0]]
    assert table.labels.tolist() == ["yes, sir", "no"]


def test_target_may_be_any_column(tmp_path):
    table = read_table(csv(tmp_path, "a,label,b\n1,x,2\n"), "label")
    assert (list(table.features.columns), table.labels.tolist(), table.target) == (["a", "b"], ["x"], "label")
    path = csv(tmp_path, "kind,a\n" + "x,1\ny,2\n" * 5)
    assert load("csv", path=path, target="kind").classes == ("x", "y")


def test_byte_order_mark_is_not_part_of_a_name(tmp_path):
    assert list(read_table(csv(tmp_path, "a,y\n1,x\n", "utf-8-sig"), None).features.columns) == ["a"]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["1.0", "0.5", "10"], ("0.5", "1.0", "10")),
        (["10", "9", "b"], ("10", "9", "b")),
        (["None", "b", "a"], ("None", "a", "b")),
    ],
)
def test_labels_are_sorted_as_numbers_when_all_are(tmp_path, labels, classes):
    write(tmp_path / "train.csv", labels * 2)
    write(tmp_path / "test.csv", labels[:1])
    data = load("csv", path=tmp_path)
    assert data.classes == classes
    assert [data.classes[y] for y in data.train.y] == labels * 2


def test_one_class(tmp_path):
    with pytest.raises(DataError, match="column 'kind': expected at least two classes, found only 'a'"):
        load("csv", path=write(tmp_path / "t.csv", ["a"] * 10))


@pytest.mark.parametrize(
    "labels", [[str(i / 7) for i in range(10)], [f"{i % 50 / 7}" for i in range(500)]], ids=["distinct", "repeated"]
)
def test_a_regression_target_is_refused(tmp_path, labels):
    distinct = len(set(labels))
    with pytest.raises(DataError, match=f"'kind': expected class labels that repeat, found {distinct} .* regression"):
        load("csv", path=write(tmp_path / "t.csv", labels))


def test_class_only_in_test(tmp_path):
    write(tmp_path / "train.csv", ["x", "y"] * 2)
    write(tmp_path / "test.csv", ["z"])
    with pytest.raises(DataError, match=r"test.csv, column 'kind': found classes that the training file .*: z"):
        load("csv", path=tmp_path)


def test_columns_of_both_files_must_agree(tmp_path):
    write(tmp_path / "train.csv", ["x", "y"] * 2)
    (tmp_path / "test.csv").write_text("fixed,height,kind\n7,1,x\n")
    with pytest.raises(DataError, match=r"expected the columns of train.csv in the same order, height, fixed"):
        load("csv", path=tmp_path)


def test_missing_file_of_a_pair(tmp_path):
    write(tmp_path / "train.csv", ["x", "y"] * 2)
    with pytest.raises(DataError, match=r"file not found, expected one of test\.csv, test\.csv\.gz, test\.parquet"):
        load("csv", path=tmp_path)


def test_text_in_a_number_column_of_the_test_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"test\.csv, column 'a', row 1 .*: expected a finite number.*'about 3'"):
        load("csv", path=folder(tmp_path, "a,kind\n1,x\n2,y\n1,x\n2,y\n", "a,kind\n1,x\nabout 3,y\n"))


@pytest.mark.parametrize("value", ["inf", "-Infinity", "INF"])
def test_infinity_is_refused(tmp_path, value):
    with pytest.raises(DataError, match=f"t.csv, column 'a', row 2 .*: expected a finite number, found '{value}'"):
        load("csv", path=csv(tmp_path, f"a,kind\n1,x\n2,y\n{value},x\n4,y\n"))


@pytest.mark.parametrize("value", ["", "?", "NA", "null"])
def test_a_missing_label_is_refused(tmp_path, value):
    with pytest.raises(DataError, match=r"t.csv, column 'y', row 1 .*: expected a label, found a missing value"):
        read_table(csv(tmp_path, f"a,b,y\n1,2,x\n1,2,{value}\n"), None)


def test_one_text_among_numbers_is_reported(tmp_path):
    rows = "".join(f"{i},{'xy'[i % 2]}\n" for i in range(19)) + "about 3,x\n"
    with pytest.warns(UserWarning, match="column 'a' is read as text, because row 19 .* holds 'about 3'"):
        data = load("csv", path=csv(tmp_path, f"a,kind\n{rows}"))
    assert data.input_shape[0] > 10


def test_1_000_is_not_a_number(tmp_path):
    assert number_columns(read_table(csv(tmp_path, "a,b,kind\n1_000,1000,x\n0x10,2e3,y\n"), None)) == ["b"]


def test_a_text_column_with_very_many_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_CATEGORIES", 5)
    rows = "".join(f"name {i},{i},{'xy'[i % 2]}\n" for i in range(10))
    with pytest.raises(DataError, match="column 'name': expected at most 5 different texts, found 8"):
        load("csv", path=csv(tmp_path, f"name,a,kind\n{rows}"))


@pytest.mark.parametrize("value", ["1e300", "-1e39"])
def test_numbers_beyond_float32(tmp_path, value):
    write(tmp_path / "train.csv", ["x", "y"] * 2)
    (tmp_path / "test.csv").write_text(f"height,fixed,kind\n{value},7,x\n")
    with pytest.raises(DataError, match="float32"):
        load("csv", path=tmp_path)


def test_numbers_whose_variance_overflows(tmp_path):
    with pytest.raises(DataError, match="float32"):
        load("csv", path=csv(tmp_path, "a,kind\n1e308,x\n-1e308,y\n1e308,x\n-1e308,y\n"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,2", "line 3: expected 3 values as in the first line, found 2"),
        ("1,2,x,4", "line 3: expected 3 values as in the first line, found 4"),
        ('1,2,"x', "line 3: not comma-separated text"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, message):
    with pytest.raises(DataError, match=f"t.csv, {message}"):
        read_table(csv(tmp_path, f"a,b,y\n1,2,x\n{row}\n"), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least two columns"),
        ("a;b;y\n1;2;x\n", "separated by commas"),
        ("1,2,3\n4,5,6\n", "found numbers"),
        ("a,a,y\n1,2,x\n", "found twice: a"),
        ("a,b,y\n", "expected rows below the column names"),
    ],
)
def test_bad_headers(tmp_path, text, message):
    with pytest.raises(DataError, match=f"t.csv: .*{message}"):
        read_table(csv(tmp_path, text), None)


def test_unknown_target_lists_the_columns(tmp_path):
    with pytest.raises(DataError, match="no column 'z' for target; the columns are a, b, y"):
        read_table(csv(tmp_path, "a,b,y\n1,2,x\n"), "z")


def test_damaged_files_are_named(tmp_path):
    with pytest.raises(DataError, match="expected UTF-8"):
        read_table(csv(tmp_path, "a,ü\n1,x\n", "latin-1"), None)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n" * 1000)[:-20])
    with pytest.raises(DataError, match=r"t\.csv\.gz: cannot be read"):
        read_table(tmp_path / "t.csv.gz", None)
    (tmp_path / "t.csv.gz").write_bytes(b"a,b\n1,x\n")
    with pytest.raises(DataError, match=r"t\.csv\.gz: cannot be read"):
        read_table(tmp_path / "t.csv.gz", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1 but not really PAR1")
    with pytest.raises(DataError, match=r"t\.parquet: expected a parquet file"):
        read_table(tmp_path / "t.parquet", None)


def test_a_parquet_file_with_damaged_text_is_named(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": ["marker", "other"], "kind": ["x", "y"]}).to_parquet(path, compression=None)
    payload = path.read_bytes()
    assert b"marker" in payload
    path.write_bytes(payload.replace(b"marker", b"\xff\xfe\xff\xfe\xff\xfe"))
    with pytest.raises(DataError, match=r"t\.parquet: expected a parquet file"):
        read_table(path, None)


@pytest.mark.parametrize("package", ["pandas", "pyarrow", "scikit-learn"])
def test_missing_packages_name_the_extra(tmp_path, monkeypatch, package):
    pd.DataFrame({"a": [1, 2] * 5, "kind": ["x", "y"] * 5}).to_parquet(tmp_path / "t.parquet")
    hide(monkeypatch, package)
    with pytest.raises(ImportError, match=rf'{package} is not installed: pip install "adiw\[cli\]"'):
        load("csv", path=tmp_path / "t.parquet")
