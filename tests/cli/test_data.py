"""``adiw data get``: the official files, or an error in one line."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from rich.progress import Progress

from adiw.cli.data import _DownloadBar
from adiw.data import download, fashion_mnist
from tests.cli.conftest import Command
from tests.data.conftest import Web, web  # noqa: F401 - a fixture
from tests.data.files import write_fashion


def test_a_data_set_without_a_download(adiw: Command) -> None:
    output = adiw("data", "get", "fashion")
    assert (output.code, output.out) == (2, "")
    assert output.err.startswith("adiw: 'fashion' is not a download; the data sets to download are fashion-mnist, ")
    assert output.err.count("\n") == 1


def test_without_a_network_the_error_is_one_line(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    unreachable = replace(download.SOURCES["fashion-mnist"], address="http://127.0.0.1:1")
    monkeypatch.setitem(download.SOURCES, "fashion-mnist", unreachable)
    output = adiw("data", "get", "fashion-mnist", "--root", "data")
    assert (output.code, output.out) == (2, "")
    assert output.err.count("\n") == 1
    assert output.err.startswith("adiw: could not download http://127.0.0.1:1/train-images-idx3-ubyte.gz (")
    assert "yourself, then run `adiw data get fashion-mnist` again" in output.err


@pytest.mark.parametrize("where", ["option", "variable"])
def test_the_files_are_in_the_given_folder(
    adiw: Command,
    web: Web,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    files = {file.name: file.read_bytes() for file in write_fashion(Path("published")).iterdir()}
    web.files = {f"/{name}": content for name, content in files.items()}
    digests = {
        name.removesuffix(".gz"): "sha256:" + hashlib.sha256(gzip.decompress(content)).hexdigest()
        for name, content in files.items()
    }
    monkeypatch.setattr(fashion_mnist, "DIGESTS", digests)
    source = replace(
        download.SOURCES["fashion-mnist"],
        address=web.address,
        files={name: "md5:" + hashlib.md5(content).hexdigest() for name, content in files.items()},
    )
    monkeypatch.setitem(download.SOURCES, "fashion-mnist", source)
    if where == "variable":
        monkeypatch.setenv("ADIW_DATA", "mine")
    output = adiw("data", "get", "fashion-mnist", *(["--root", "mine"] if where == "option" else []))
    assert (output.code, output.out, output.err) == (0, "fashion-mnist is in mine/fashion-mnist\n", "")
    assert {file.name: file.read_bytes() for file in Path("mine/fashion-mnist").iterdir()} == files


def test_the_bar_starts_again_with_every_file(web: Web, tmp_path: Path) -> None:  # noqa: F811
    bar = _DownloadBar("two files", Progress(disable=True))
    for name, size in (("a", 3_000_000), ("b", 1_000)):
        content = bytes(size)
        web.files[f"/{name}"] = content
        digest = "md5:" + hashlib.md5(content).hexdigest()
        download.retrieve(f"{web.address}/{name}", tmp_path / name, digest, "", bar)
        (task,) = bar.bar.tasks
        assert (task.completed, task.total) == (size, size)
