"""Which changes of a module are tried as mutants, which never are, and how a mutant is named."""

from __future__ import annotations

import pytest

pytest.importorskip("mutmut", reason='mutmut comes with the extra: pip install "adiw[torture]"')

import libcst as cst

from torture.mutation.candidates import Mutant, mutants
from torture.mutation.change import describe

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


def test_every_mutant_compiles_and_names_its_function() -> None:
    assert {mutant.function for mutant in tried()} == {"Halving", "Halving.name", "Halving.halve"}
    for mutant in tried():
        compile(mutant.source, "mutant", "exec")
        assert mutant.source != SOURCE
        assert mutant.was in " ".join(SOURCE.split("\n"))


def test_mutated_expressions() -> None:
    now = {mutant.now for mutant in tried()}
    assert {"by: float = 3.0", 'return "XXhalvingXX"', "if x is not None:", "self.last = None"} <= now
    assert {"return sign * rest * self.by", "return sign / rest / self.by"} <= now
    assert {"rest = min(x, key=abs, )", "rest = min(x, default=0)", "rest = min(x, key=None, default=0)"} <= now


def test_expressions_that_are_never_mutated() -> None:
    for mutant in tried():
        assert "raise" not in mutant.was
        assert "Literal" not in mutant.was
        assert "__all__" not in mutant.was
        assert '"""' not in mutant.was
    now = {mutant.now for mutant in tried()}
    assert not {"rest = None", "rest = min(None, key=abs, default=0)", "rest = min(key=abs, default=0)"} & now
    assert not any("float & None" in text for text in now)


def test_names_are_unique_and_do_not_depend_on_comments_and_layout() -> None:
    keys = [mutant.key for mutant in tried()]
    assert len(set(keys)) == len(keys)
    other = SOURCE.replace("return sign", "# a comment\n        return (\n            sign").replace(
        ".by\n", ".by\n        )\n"
    )
    assert [mutant.key for mutant in mutants(other)] == keys
    assert {("Halving.halve", "* to /", 1), ("Halving.halve", "argument key to None", 1)} <= set(keys)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("a - 1", "a - 2", "1 to 2"),
        ("a - 1", "a + 1", "- to +"),
        ("a and b", "a or b", "and to or"),
        ("a is None", "a is not None", "is to is not"),
        ("not a", "a", "not removed"),
        ("f(a, b)", "f(a)", "argument 2 removed"),
        ("f(a, k=b)", "f(a)", "argument k removed"),
        ("f(a, k=g(b))", "f(a, k=None)", "argument k to None"),
        ("dict(a=1)", "dict(aXX=1)", "argument a renamed"),
        ("a.lower()", "a.upper()", "name to name"),
        ("a if b == c else d", "a if (b == c) and False else d", "condition and False"),
        ("lambda: a", "lambda: None", "name to None"),
        ("'a'", "'XXaXX'", "'a' to 'XXaXX'"),
    ],
)
def test_a_change_is_described_without_the_source_around_it(old: str, new: str, change: str) -> None:
    assert describe(cst.parse_expression(old), cst.parse_expression(new)) == change
