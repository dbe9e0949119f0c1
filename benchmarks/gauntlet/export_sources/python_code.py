"""Python's own library and installed packages: a table of functions, and their code as text."""

from __future__ import annotations

import ast
import hashlib
import sysconfig
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.gauntlet.task import MissingError

LIBRARIES = ("stdlib", "pandas", "sympy", "networkx", "transformers", "mlflow", "hypothesis", "aiohttp")
EACH = 5000  # functions of a library in the table, at most
TEXTS = 1000  # functions of a library whose code is kept
LONGEST = 2000  # characters of a text
WIDEST = 160  # characters: a function with a longer line holds data
NOT_OWN = {"tests", "test", "idle_test", "lib2to3", "site-packages"}  # folders
COUNTED: dict[str, tuple[type[ast.AST], ...]] = {
    "branches": (ast.If, ast.IfExp),
    "loops": (ast.For, ast.While, ast.AsyncFor),
    "tries": (ast.Try,),
    "contexts": (ast.With, ast.AsyncWith),
    "returns": (ast.Return,),
    "raises": (ast.Raise,),
    "calls": (ast.Call,),
    "attributes": (ast.Attribute,),
    "names": (ast.Name,),
    "constants": (ast.Constant,),
    "comparisons": (ast.Compare,),
    "comprehensions": (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    "subscripts": (ast.Subscript,),
    "assignments": (ast.Assign, ast.AugAssign, ast.AnnAssign),
    "asserts": (ast.Assert,),
    "yields": (ast.Yield, ast.YieldFrom),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def folder_of(library: str) -> Path:
    if library == "stdlib":
        return Path(sysconfig.get_path("stdlib"))
    spec = find_spec(library)
    if spec is None or spec.origin is None:
        raise MissingError(f"{library} is not installed: pip install {library}")
    return Path(spec.origin).parent


def functions(library: str) -> Iterator[tuple[Function, bool, list[str]]]:
    """Each function of a library's files, whether it is a method, and its lines; the files' names give the order."""
    folder, seen = folder_of(library), set()
    names = (path.relative_to(folder) for path in folder.rglob("*.py"))
    own = [name for name in names if not NOT_OWN & set(name.parts)]
    for name in sorted(own, key=lambda name: hashlib.sha256(str(name).encode()).digest()):
        source = (folder / name).read_bytes()
        lines = source.decode(errors="replace").splitlines()
        for parent in ast.walk(ast.parse(source)):
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, Function) and (code := body_of(node)) not in seen:
                    seen.add(code)
                    yield node, isinstance(parent, ast.ClassDef), lines[node.lineno - 1 : node.end_lineno]


def body_of(node: Function) -> str:
    """The code of a function, without its head and its docstring, in one format for all authors."""
    return "\n".join(map(ast.unparse, node.body[ast.get_docstring(node) is not None :]))


def table() -> pd.DataFrame:
    """One row for each function."""
    rows = []
    for library in LIBRARIES:
        found = (row(library, *one) for one in functions(library) if max(map(len, one[2])) <= WIDEST)
        rows += islice(found, EACH)
    return pd.DataFrame(rows)


def row(library: str, node: Function, is_method: bool, lines: list[str]) -> dict[str, Any]:
    kinds = Counter(type(inner) for inner in ast.walk(node))
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    dunder = node.name.startswith("__") and node.name.endswith("__")
    return {
        "library": library,
        "kind": ("method" if is_method else "function") + ("" if isinstance(node, ast.FunctionDef) else ", async"),
        "visibility": "special" if dunder else "private" if node.name.startswith("_") else "public",
        "documented": ast.get_docstring(node) is not None,
        "name_letters": len(node.name),
        "name_words": node.name.strip("_").count("_") + 1,
        "arguments": len(arguments),
        "annotated": sum(argument.annotation is not None for argument in arguments),
        "result_annotated": str(node.returns is not None),
        "defaults": len(node.args.defaults) + sum(d is not None for d in node.args.kw_defaults),
        "variadic": (node.args.vararg is not None) + (node.args.kwarg is not None),
        "decorators": len(node.decorator_list),
        "lines": len(body_of(node).splitlines()),
        "widest": max(map(len, lines)),
        **{name: sum(kinds[kind] for kind in group) for name, group in COUNTED.items()},
    }


def texts() -> pd.DataFrame:
    """``text`` and ``library`` of functions of at least three lines."""
    rows = []
    for library in LIBRARIES:
        long = (body_of(node) for node, *_ in functions(library) if len(node.body) >= 3)
        rows += [{"text": text[:LONGEST], "library": library} for text in islice(long, TEXTS)]
    return pd.DataFrame(rows)
