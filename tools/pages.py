"""mkdocs hook: pages of the site from outside docs/, and the links to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# A page of the site -> its file, from the root.
ELSEWHERE = {
    "benchmarks.md": "benchmarks/results/README.md",
    "changes.md": "CHANGELOG.md",
    "gauntlet.md": "benchmarks/gauntlet/README.md",
}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for page, source in ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to such a file in the repository become links to its page on the site, and so do its own links to docs/.

    >>> on_page_markdown("[tables](../benchmarks/results/README.md#growth), [maths](../../docs/maths.md)")
    '[tables](benchmarks.md#growth), [maths](maths.md)'
    """
    for page, source in ELSEWHERE.items():
        markdown = markdown.replace(f"](../{source}", f"]({page}")
    return markdown.replace("](../../docs/", "](")
