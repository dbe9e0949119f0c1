"""The files of the wheel and of the source archive, and that the installed wheel works."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import adiw

pytest.importorskip("hatchling", reason="needs the extra adiw[dev]")
ROOT = Path(__file__).parents[1]
NAME = f"adiw-{adiw.__version__}"


def build(tree: Path, target: Path, kind: str) -> Path:
    """Build an archive with the build backend itself, so that nothing is downloaded."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(target)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, timeout=300)
    (archive,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source archive, as pip does, so that a file missing there is missing here."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return build(folder / NAME, folder, "wheel")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(interpreter, site-packages) of an environment with only the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=300)
    (site,) = folder.glob("lib/python*/site-packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder / "bin" / "python", site


def tracked(folder: str) -> set[str]:
    """The files of the package relative to src, without compiled ones."""
    source = ROOT / "src"
    files = (path for path in (source / folder).rglob("*") if path.is_file())
    return {path.relative_to(source).as_posix() for path in files if path.suffix not in (".pyc", ".pyo")}


def test_the_wheel_contains_only_the_package(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    about = {name for name in names if name.startswith(f"{NAME}.dist-info/")}
    assert names - about == tracked("adiw")
    assert f"{NAME}.dist-info/licenses/LICENSE" in about
    assert "adiw/py.typed" in names


def test_the_source_archive_contains_what_the_wheel_is_built_from(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    beside = {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", "CHANGELOG.md", "CITATION.cff", ".gitignore"}
    assert names == {f"src/{name}" for name in tracked("adiw")} | beside


def test_the_installed_wheel_is_imported_and_finds_its_files(environment: tuple[Path, Path]) -> None:
    _, site = environment
    code = (
        "import adiw, adiw.experiments.recipes as r; print(adiw.__file__, adiw.__version__, 'val-size' in r.names())"
    )
    done = run([sys.executable, "-c", code], site)
    assert done.stdout.split() == [str(site / "adiw" / "__init__.py"), adiw.__version__, "True"]


def test_the_command_is_installed(environment: tuple[Path, Path]) -> None:
    _, site = environment
    assert "sweep" in run([sys.executable, str(site / "bin" / "adiw"), "--help"], site).stdout


def run(command: list[str], site: Path) -> subprocess.CompletedProcess[str]:
    """Run with the wheel before the packages of this environment, outside of the source tree."""
    known = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(
        command, env=known, cwd=site.parent, check=True, capture_output=True, text=True, timeout=300
    )


USER = """
import adiw

adiw.Limits(cap="ten")
adiw.class_prior_ratio()
reveal_type(adiw.estimate_weights)
reveal_type(adiw.ADIW.summary)
"""


def test_a_users_strict_mypy_sees_the_types(environment: tuple[Path, Path], tmp_path: Path) -> None:
    """mypy finds them in a user's environment through py.typed. Torch is not installed: reading it takes minutes."""
    pytest.importorskip("mypy", reason="needs the extra adiw[dev]")
    interpreter, _ = environment
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    command = [sys.executable, "-m", "mypy", "--python-executable", str(interpreter), "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    expected = ["[arg-type]", "[call-arg]", "-> tuple[", f"-> {adiw.Summary.__module__}.Summary"]
    lines = [line for line in done.stdout.splitlines() if line.startswith("user.py")]
    assert len(lines) == len(expected), done.stdout
    for line, part in zip(lines, expected, strict=True):
        assert part in line
