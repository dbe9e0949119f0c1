"""Tar archives that may not leave their folder."""

import os
import tarfile
import tempfile
from pathlib import Path

from adiw.data.errors import DataError


def unpack(archive: Path, root: Path, folder: str) -> None:
    """Move the files below `folder` in a tar archive to root/folder, each in one step.

    A member that would leave the folder (.., a link outside) is refused, and then nothing is kept; an
    absolute path loses its first slash.
    """
    with tempfile.TemporaryDirectory(dir=root, prefix=".unpack-") as work:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(work, filter="data")
        except (tarfile.TarError, OSError, EOFError) as error:
            raise DataError(f"{archive}: refused or damaged ({error}); nothing was unpacked") from error
        files = [
            path for path in sorted((Path(work) / folder).rglob("*")) if path.is_file() and not path.is_symlink()
        ]
        if not files:
            raise DataError(f"{archive}: expected files below {folder}/, found none; fetch it again")
        for path in files:
            target = root / path.relative_to(work)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
