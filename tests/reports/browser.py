"""Pages in headless Chromium: opened in a frame of a chosen width, where a script is evaluated."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path to open the page with")

LISTEN = """<script>
var errors = [];
addEventListener('error', event => errors.push(event.message));
addEventListener('unhandledrejection', event => errors.push(String(event.reason)));
console.error = console.warn = (...words) => errors.push(words.join(' '));
</script>"""
# The script is a function body, whose result is returned to the test.
EVALUATE = """<script>
const result = (() => { %s })();
parent.postMessage(JSON.stringify({errors, result, wide: document.documentElement.scrollWidth}), '*');
</script>"""
OUTER = """<!doctype html><iframe style="border: 0; width: %dpx; height: 900px" srcdoc="%s"></iframe><script>
addEventListener('message', event => {
  const out = document.createElement('pre');
  out.id = 'result'; out.textContent = event.data;
  document.body.append(out);
});
</script>"""

# What is wider than the frame and not in a box that scrolls by itself.
OVERFLOWING = """return [...document.body.querySelectorAll('*')].filter(e => !e.closest('.scroll table, .plot svg'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 200));"""


def evaluate(page: str, script: str, folder: Path, width: int = 1000) -> Any:
    """The result of the script in the page, after a check for errors and for overflow."""
    inner = page.replace("<head>", f"<head>{LISTEN}").replace("</body>", EVALUATE % script + "</body>")
    file = folder / "outer.html"
    file.write_text(OUTER % (width, escape(inner, quote=True)), encoding="utf-8")
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000"),
        *("--window-size=1400,1000", "--dump-dom", file.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = re.search('<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    message = json.loads(unescape(found[1]))
    assert message["errors"] == []
    assert message["wide"] <= width
    return message["result"]
