"""mkdocs hook: equations become MathML when the site is built, so that browsers draw them without a script.

arithmatex turns Markdown's ``$...$`` and ``$$...$$`` into ``\\(...\\)`` and ``\\[...\\]`` in an element of the
class "arithmatex". GitHub renders the same Markdown itself.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """The page with every equation as MathML."""
    return _EQUATION.sub(lambda found: to_mathml(found, page.file.src_uri), content)


def to_mathml(found: re.Match[str], page: str) -> str:
    """One equation; an unknown macro is an error."""
    tag, kind, latex = found.groups()
    display = "inline" if kind == "(" else "block"
    mathml = convert(html.unescape(latex.strip()), display=display)
    unknown = re.search(r"\\[a-zA-Z]+", html.unescape(re.sub(r"<[^>]+>", "", mathml)))
    if unknown:
        raise PluginError(f"{page}: {unknown[0]} is not known to latex2mathml, in {latex.strip()!r}")
    return f'<{tag} class="maths">{mathml}</{tag}>'
