"""One file from the web to disk: resumed where it was cut, checked before it gets its name."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import cast

from adiw.data.errors import DataError

Progress = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all when known

BLOCK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte


def download(
    url: str,
    target: Path,
    check: Callable[[Path], None],
    progress: Progress | None = None,
    advice: str = "check the network",
) -> None:
    """Fetch url to target through target.part, which a later call takes up again after a cut.

    check: raises DataError for a wrong file, which is then deleted; only a checked file becomes target.
    advice: ends the error when the file cannot be had.
    """
    if not url.startswith(("http://", "https://")):
        raise DataError(f"expected an address that begins with http:// or https://, found {url}")
    part = target.with_name(f"{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _transfer(url, part, target.name, progress)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"could not download {url} ({error}); {advice}") from error
    try:
        check(part)
    except DataError:
        part.unlink()  # resuming it would fail the check again
        raise
    part.replace(target)


def _transfer(url: str, part: Path, name: str, progress: Progress | None) -> None:
    """Append what is missing to part, or write it anew when the server cannot resume."""
    start = part.stat().st_size if part.exists() else 0
    try:
        response = _open(url, start)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:  # nothing beyond the bytes we have: the check decides
            return
        raise
    with response:
        done = start if response.status == 206 else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        with part.open("ab" if done else "wb") as file:
            while block := response.read(BLOCK):
                file.write(block)
                done += len(block)
                if progress is not None:
                    progress(name, done, total)
    if total is not None and done < total:
        raise ConnectionError(f"cut after {done} of {total} bytes; run it again to resume")


def _open(url: str, start: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": "adiw"} | ({"Range": f"bytes={start}-"} if start else {})
    request = urllib.request.Request(url, headers=headers)
    return cast(http.client.HTTPResponse, urllib.request.urlopen(request, timeout=TIMEOUT))
