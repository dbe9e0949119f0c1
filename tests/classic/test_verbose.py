"""Progress of the classic estimators: lines with ``verbose``, none without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adiw.classic import KLIEP, KMM, LSIF, RULSIF, ULSIF
from adiw.classic import estimator as module


@pytest.mark.filterwarnings("ignore:KLIEP.* the objective is not within")
@pytest.mark.parametrize("kind", [KLIEP, KMM, LSIF, RULSIF, ULSIF])
def test_lines_only_with_verbose(
    kind: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "SECONDS", -1.0)  # after no time at all
    rng = np.random.default_rng(0)
    samples = rng.normal(0, 1, (300, 1)), rng.normal(1, 0.5, (100, 1))
    quiet = kind().fit(*samples)
    assert capsys.readouterr().out == ""
    loud = kind(verbose=1).fit(*samples)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith(f"{kind.__name__}: ") and " of " in line for line in lines)
    np.testing.assert_array_equal(quiet.weights_, loud.weights_)
