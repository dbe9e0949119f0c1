"""A parsed HTML page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

VOID = {"img", "input", "meta", "br"}


class Elements(HTMLParser):
    """All elements, and every text with its element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == [], "elements that were not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data))

    def named(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The attributes of these elements; ``kind`` is the class."""
        wanted = {("class" if key == "kind" else key): value for key, value in attributes.items()}
        return [a for t, a in self.tags if t == tag and wanted.items() <= a.items()]

    def text(self, tag: str) -> list[str]:
        return [text for t, text in self.texts if t == tag]

    def data(self) -> Any:
        """The data of the page's script."""
        return json.loads(next(text for text in self.text("script") if text.startswith("{")))
