"""A change of the syntax tree in a few words that do not quote the source around it."""

from __future__ import annotations

from itertools import zip_longest

import libcst as cst

SYMBOLS = (cst.BaseBinaryOp, cst.BaseBooleanOp, cst.BaseCompOp, cst.BaseUnaryOp, cst.BaseAugOp)
CONSTANTS = (cst.BaseNumber, cst.SimpleString)


def describe(node: cst.CSTNode, changed: cst.CSTNode) -> str:
    """How ``node`` differs from ``changed``, read off the smallest part that differs.

    >>> describe(cst.parse_expression("x > 1"), cst.parse_expression("x >= 1"))
    '> to >='
    >>> describe(cst.parse_expression("f(x, k=y)"), cst.parse_expression("f(x, k=None)"))
    'argument k to None'
    """
    if isinstance(node, cst.Call) and isinstance(changed, cst.Call) and node.func.deep_equals(changed.func):
        return _arguments(node, changed)
    if type(node) is not type(changed):
        return _replaced(node, changed)
    pairs = list(zip(node.children, changed.children, strict=False))
    parts = [(old, new) for old, new in pairs if not old.deep_equals(new)]
    if len(parts) == 1 and len(node.children) == len(changed.children):
        return describe(*parts[0])
    return _replaced(node, changed)


def _arguments(node: cst.Call, changed: cst.Call) -> str:
    pairs = zip_longest(map(_argument, node.args), map(_argument, changed.args))
    at = next(i for i, (old, new) in enumerate(pairs) if old != new)
    keyword = node.args[at].keyword
    name = f"argument {at + 1 if keyword is None else keyword.value}"
    if len(changed.args) < len(node.args):
        return f"{name} removed"
    new = changed.args[at]
    return f"{name} renamed" if new.value.deep_equals(node.args[at].value) else f"{name} to {_word(new.value)}"


def _argument(argument: cst.Arg) -> tuple[str | None, str]:
    """Keyword and value, without the comma behind them."""
    return argument.keyword and argument.keyword.value, argument.star + _code(argument.value)


def _replaced(node: cst.CSTNode, changed: cst.CSTNode) -> str:
    if isinstance(changed, cst.BooleanOperation) and _code(changed.left).strip("()") == _code(node).strip("()"):
        return f"condition {_word(changed.operator)} {_word(changed.right)}"
    if isinstance(node, cst.UnaryOperation) and node.expression.deep_equals(changed):
        return f"{_word(node.operator)} removed"
    if isinstance(node, cst.AugAssign):
        return f"{_word(node.operator)} to ="
    return f"{_word(node)} to {_word(changed)}"


def _word(node: cst.CSTNode) -> str:
    """Operators and constants as they are written; other nodes by what they are."""
    constant = isinstance(node, cst.Name) and node.value in ("True", "False", "None")
    if constant or isinstance(node, SYMBOLS + CONSTANTS):
        return _code(node).strip()
    if isinstance(node, (cst.Break, cst.Continue, cst.Return)):
        return type(node).__name__.lower()
    return "name" if isinstance(node, cst.Name) else "expression"


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)
