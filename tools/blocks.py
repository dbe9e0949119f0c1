"""Run the code blocks of pages and write their output into them: ``python tools/blocks.py PAGE ...``.

The Python blocks of a page are run in order, in one namespace. A ``text`` block directly after a Python block is its
output. The tests run every page in the same way and compare.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int  # of its first line of text
    shown: str | None = None  # the output of a Python block, as the page shows it


def read(page: str) -> list[Block]:
    """The blocks of a page; a ``text`` block directly after a Python block belongs to it.

    >>> [(block.language, block.shown) for block in read("```python\\nprint(1)\\n```\\n\\n```text\\n1\\n```\\n")]
    [('python', '1\\n')]
    """
    found: list[Block] = []
    end = -1  # of the last Python block
    for match in _FENCED.finditer(page):
        language, text = match[1].strip(), match[2]
        if language == "text" and found and found[-1].language == "python" and not page[end : match.start()].strip():
            found[-1] = Block("python", found[-1].text, found[-1].line, text)
            continue
        found.append(Block(language, text, page.count("\n", 0, match.start()) + 2))
        end = match.end()
    return found


def run(blocks: list[Block], name: str) -> list[tuple[dict[str, Any], str]]:
    """For each Python block, the namespace after it and its output."""
    names: dict[str, Any] = {"__name__": "page"}
    found = []
    for block in blocks:
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * (block.line - 1) + block.text, name, "exec"), names)
            found.append((dict(names), out.getvalue()))
    return found


def rewrite(page: str, printed: list[str]) -> str:
    """The page with the given output in the text blocks after its Python blocks."""
    python = [block for block in read(page) if block.language == "python"]
    for block, out in zip(python, printed, strict=True):
        if block.shown is not None:
            code = f"```python\n{block.text}```\n\n```text\n"
            page = page.replace(f"{code}{block.shown}```", f"{code}{out}```", 1)
    return page


def main(names: list[str]) -> None:
    """Run the pages in an empty folder, and write their output into them."""
    for file in [Path(name).resolve() for name in names]:
        page = file.read_text()
        before = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            ran = run(read(page), file.name)
            os.chdir(before)
        file.write_text(rewrite(page, [printed for _, printed in ran]))


if __name__ == "__main__":
    main(sys.argv[1:])
