"""Which changes of a module are tried as mutants, and which are left alone by rule."""

from __future__ import annotations

import pytest

pytest.importorskip("mutmut", reason='mutmut comes with the extra: pip install "adiw[torture]"')

from torture.mutation.candidates import Mutant, mutants

SOURCE = '''"""What this module is for."""

from typing import Literal

Side = Literal["train", "val"]
__all__ = ["halve"]


class Halving:
    """A class."""

    by: float = 2.0

    @property
    def name(self) -> str:
        return "halving"

    def halve(self, x: float | None, sign: int = 1) -> float:
        """x / 2 with a sign."""
        if x is None:
            raise ValueError("x must be a number" + str(1))
        rest = min(x, key=abs, default=0)
        self.last = rest
        return sign * rest / self.by
'''


def tried() -> list[Mutant]:
    return mutants(SOURCE)


def test_every_mutant_compiles_and_names_its_place() -> None:
    assert {mutant.where for mutant in tried()} == {"Halving", "Halving.name", "Halving.halve"}
    for mutant in tried():
        compile(mutant.source, "mutant", "exec")
        assert mutant.source != SOURCE
        assert mutant.was in " ".join(SOURCE.split("\n"))


def test_what_is_tried() -> None:
    now = {mutant.now for mutant in tried()}
    assert {"by: float = 3.0", 'return "XXhalvingXX"', "if x is not None:", "self.last = None"} <= now
    assert {"return sign * rest * self.by", "return sign / rest / self.by"} <= now
    assert {"rest = min(x, key=abs, )", "rest = min(x, default=0)", "rest = min(x, key=None, default=0)"} <= now


def test_what_is_left_alone() -> None:
    for mutant in tried():
        assert "raise" not in mutant.was
        assert "Literal" not in mutant.was
        assert "__all__" not in mutant.was
        assert '"""' not in mutant.was
    now = {mutant.now for mutant in tried()}
    assert not {"rest = None", "rest = min(None, key=abs, default=0)", "rest = min(key=abs, default=0)"} & now
    assert not any("float & None" in text for text in now)
