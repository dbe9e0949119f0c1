"""The page in a real browser: no errors, and its names can be clicked."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from adiw.reports.page import render
from adiw.reports.results import Result, load_results
from tests.reports.folders import write_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path to open the page with")
HOSTILE = "<b>\"'</script>\\"

LISTEN = "<script>var errors = []; addEventListener('error', event => errors.push(event.message));</script>"
PROBE = """<script>
const answer = {errors, at: [], steps: []};
const shown = () => [...document.querySelectorAll('#curves .curve')]
  .filter(curve => getComputedStyle(curve).display !== 'none').map(curve => curve.dataset.name);
const press = i => { const key = document.querySelectorAll('#keys .key')[i]; key.click();
  answer.steps.push([shown(), key.getAttribute('aria-pressed')]); };
const point = share => {
  const svg = document.querySelector('#curves svg');
  const box = svg.getBoundingClientRect(), x = box.left + box.width * (46 + share * (720 - 58)) / 720;
  svg.dispatchEvent(new PointerEvent('pointermove', {clientX: x, clientY: box.top + 50}));
  answer.at.push(document.getElementById('at').textContent); };
answer.before = shown();
if (document.querySelector('#curves svg')) { point(0); press(0); point(1); press(0); press(1); }
const out = document.createElement('pre'); out.id = 'answer'; out.textContent = JSON.stringify(answer);
document.body.append(out);
</script>"""


def open_page(page: str, folder: Path) -> Any:
    """What the page answers to a few clicks, after a check that it opens."""
    file = folder / "page.html"
    file.write_text(page.replace("<head>", f"<head>{LISTEN}").replace("</body>", f"{PROBE}</body>"))
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000"),
        *("--dump-dom", file.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = re.search('<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found[1]))


def results(tmp_path: Path) -> list[Result]:
    write_run(tmp_path / "runs" / "1", "adiw-kl", [50.0, 70.0])
    write_run(tmp_path / "runs" / "2", HOSTILE, [30.0, 40.0, 45.5])
    return load_results(tmp_path / "runs")


def test_names_hide_and_show_their_curves_and_pointing_reads_values(tmp_path: Path) -> None:
    answer = open_page(render(results(tmp_path), ["adiw-kl"], "Two runs"), tmp_path)
    assert answer["errors"] == []
    assert answer["before"] == ["adiw-kl", HOSTILE]
    assert answer["steps"] == [
        [[HOSTILE], "false"],
        [["adiw-kl", HOSTILE], "true"],
        [["adiw-kl"], "false"],
    ]
    assert answer["at"] == [f"Epoch 1: adiw-kl 50.0, {HOSTILE} 30.0", f"Epoch 3: {HOSTILE} 45.5"]


def test_a_page_without_curves_opens_without_errors(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "1", "diw", [], None)
    answer = open_page(render(load_results(tmp_path / "runs"), [], "Nothing yet"), tmp_path)
    assert answer["errors"] == []
    assert answer["before"] == []
