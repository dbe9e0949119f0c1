"""The mutants of a module: mutmut's operators on every expression that a test could tell apart.

mutmut's own runner is not used: it forks after the tests have run once, and PyTorch refuses to differentiate in a
process forked from one that did, which would count as a kill. It also passes over decorated functions and the
defaults of dataclasses, which are mutated here.

Left alone, by rule: docstrings, type hints and type aliases, ``__all__``, decorators, ``raise`` statements and other
text for people (a string with a space in it), and the arguments of ``len`` and ``isinstance``. Mutants that could
only end in a TypeError would raise the score and test nothing: a local variable or a positional argument does not
become None, and an argument is taken away only where a default may stand in for it (a keyword, or the last one). Of
the three spellings that mutmut gives a string the first is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

WHOLE = ("len", "isinstance", "Literal")


@dataclass(frozen=True)
class Mutant:
    """One change of one module, named by the text of the lines it changes so that it survives line shifts."""

    where: str  # class and function
    was: str
    now: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines; changes that do not compile are left out.

    >>> [mutant.now for mutant in mutants("def double(x: int) -> int:\\n    return 2 * x\\n")]
    ['return 3 * x', 'return 2 / x']
    """
    module = cst.parse_module(source)
    found: dict[str, Mutant] = {}
    for statement in module.body:
        collector = _Collector()
        statement.visit(collector)
        before, after = source.split(module.code_for_node(statement), 1)  # no two statements are alike
        for where, node, changed in collector.changes:
            text = before + module.code_for_node(statement.deep_replace(node, changed)) + after
            was, now = _difference(source, text)
            if _compiles(text) and was != now:
                found.setdefault(text, Mutant(where, was, now, text))
    return list(found.values())


class _Collector(cst.CSTVisitor):
    """(class and function, node, what it becomes) for every node that may change."""

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
    """A string with a space in it is for people: an error's text, not a name."""
    if isinstance(node, cst.SimpleString):
        return " " in node.value or node.value.startswith('"""')
    return isinstance(node, (cst.FormattedString, cst.ConcatenatedString))


def _pointless(node: cst.CSTNode, changed: cst.CSTNode) -> bool:
    """A local variable or a positional argument that became None, or an argument lost from the middle."""
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
