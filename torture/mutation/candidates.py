"""The mutants of a module: mutmut's operators on every expression whose change a test can detect.

mutmut's own runner is not used: it forks after the tests have run once, and PyTorch refuses to differentiate in a
process forked from one that did, which would count as a kill. It also skips decorated functions and the defaults of
dataclasses, which are mutated here.

Never mutated: docstrings, type hints and type aliases, ``__all__``, decorators, ``raise`` statements and other text
for people (a string with a space in it), and the arguments of ``len`` and ``isinstance``. Mutants that can only end
in a TypeError would raise the score and test nothing: a local variable or a positional argument does not become None,
and an argument is removed only where a default may replace it (a keyword argument, or the last one). mutmut spells a
mutated string in three ways; the first is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

from torture.mutation.change import describe

WHOLE = ("len", "isinstance", "Literal")


@dataclass(frozen=True)
class Mutant:
    """One change of one module. Function, change and number name it, whatever becomes of comments and layout."""

    function: str  # with its class, such as "MMD.problem"; empty for statements of the module
    change: str  # such as "> to >="
    number: int  # among the same changes of the function, from 1 in the order of the source
    was: str  # the changed lines, to show to people
    now: str
    source: str

    @property
    def key(self) -> tuple[str, str, int]:
        return self.function, self.change, self.number


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module that compiles, in the order of the source.

    >>> for mutant in mutants("def double(x: int) -> int:\\n    return 2 * x\\n"):
    ...     print(mutant.key, mutant.now)
    ('double', '2 to 3', 1) return 3 * x
    ('double', '* to /', 1) return 2 / x
    """
    module = cst.parse_module(source)
    found: dict[str, Mutant] = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for statement in module.body:
        collector = _Collector()
        statement.visit(collector)
        before, after = source.split(module.code_for_node(statement), 1)  # no two statements are alike
        for function, node, changed in collector.changes:
            text = before + module.code_for_node(statement.deep_replace(node, changed)) + after
            was, now = _difference(source, text)
            if text in found or was == now or not _compiles(text):
                continue
            change = describe(node, changed)
            numbers[function, change] += 1
            found[text] = Mutant(function, change, numbers[function, change], was, now, text)
    return list(found.values())


class _Collector(cst.CSTVisitor):
    """(function, node, its replacement) for every node that may change."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[tuple[str, cst.CSTNode, cst.CSTNode]] = []
        self.path: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _left_alone(node):
            return False
        if isinstance(node, (cst.ClassDef, cst.FunctionDef)):
            self.path.append(node.name.value)
        self.changes += [(".".join(self.path), node, changed) for changed in _changes(node)]
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.ClassDef, cst.FunctionDef)):
            self.path.pop()


def _changes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for kind, operator in mutation_operators:
        if isinstance(node, kind) and not (isinstance(node, cst.BaseString) and _is_prose(node)):
            changes = [changed for changed in operator(node) if not _pointless(node, changed)]
            yield from changes[:1] if isinstance(node, cst.BaseString) else changes


def _left_alone(node: cst.CSTNode) -> bool:
    if isinstance(node, (cst.Annotation, cst.Decorator, cst.Raise)):
        return True
    if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name):
        alias = isinstance(node.value, cst.Subscript) and cst.ensure_type(node.value, cst.Subscript).value
        if node.targets[0].target.value == "__all__" or (isinstance(alias, cst.Name) and alias.value == "Literal"):
            return True
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in WHOLE


def _is_prose(node: cst.CSTNode) -> bool:
    """Whether a string is text for people, such as an error message: it has a space in it."""
    if isinstance(node, cst.SimpleString):
        return " " in node.value or node.value.startswith('"""')
    return isinstance(node, (cst.FormattedString, cst.ConcatenatedString))


def _pointless(node: cst.CSTNode, changed: cst.CSTNode) -> bool:
    """Whether a local variable or a positional argument becomes None, or an argument in the middle is removed."""
    if isinstance(node, cst.Assign) and isinstance(changed, cst.Assign):
        return not isinstance(node.targets[0].target, cst.Attribute)
    if not isinstance(node, cst.Call) or not isinstance(changed, cst.Call):
        return False
    fewer = len(changed.args) < len(node.args)
    at = next((i for i, (old, new) in enumerate(zip(node.args, changed.args, strict=False)) if old is not new), -1)
    if node.args and node.args[at].keyword is not None:
        return not fewer and _is_prose(node.args[at].value)
    return at != -1 if fewer else node.func is changed.func


def _difference(old: str, new: str) -> tuple[str, str]:
    """The lines that differ, before and after."""
    was, now = old.splitlines(), new.splitlines()
    while was and now and was[0] == now[0]:
        del was[0], now[0]
    while was and now and was[-1] == now[-1]:
        del was[-1], now[-1]
    return " ".join(line.strip() for line in was), " ".join(line.strip() for line in now)


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True
