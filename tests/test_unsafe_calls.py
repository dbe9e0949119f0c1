"""No call in the source may run code from a file. Calls are found by name and judged by their arguments."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "adiw"
# Functions that run code or unpickle objects: never allowed.
NEVER = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen"),
    *("pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "shelve.open", "dill.load", "joblib.load"),
    *("yaml.load", "yaml.unsafe_load", "torch.jit.load", "torch.hub.load", "shutil.unpack_archive"),
    *("pandas.read_pickle", "tempfile.mktemp"),
}
# Functions that are safe only with this argument, which must be given explicitly.
ONLY_WITH = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
    "np.lib.format.read_array": ("allow_pickle", False),
}
# Methods of any object: the (argument, value) that makes them safe, or None.
METHODS: dict[str, tuple[str, object] | None] = {
    "extractall": ("filter", "data"),
    "extract": ("filter", "data"),
    "find_class": None,
}


def unsafe_calls(tree: ast.AST, file: str) -> list[str]:
    """Every unsafe call, import or base class in a file, with its line."""
    found = [f"{file}:{node.lineno}: {name}" for node, name in _calls(tree) if not _is_safe(node, name)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("pickle", "marshal", "shelve", "dill", "joblib"):
            found.append(f"{file}:{node.lineno}: from {node.module} import")
        if isinstance(node, ast.Attribute) and _name(node) in ("pickle.Unpickler", "pickle._Unpickler"):
            found.append(f"{file}:{node.lineno}: {_name(node)}")
        if isinstance(node, ast.keyword) and node.arg == "shell" and not _is(node.value, False):
            found.append(f"{file}:{node.value.lineno}: shell=")
    return found


def _calls(tree: ast.AST) -> list[tuple[ast.Call, str]]:
    return [(node, _name(node.func)) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _name(node: ast.expr) -> str:
    """The dotted name of an expression; parts that are not names are empty."""
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_safe(call: ast.Call, name: str) -> bool:
    if name in NEVER:
        return False
    rule = ONLY_WITH.get(name)
    method = name.rpartition(".")[2]
    if rule is None and "." in name and method in METHODS:
        rule = METHODS[method]
        if rule is None:
            return False
    return rule is None or any(key.arg == rule[0] and _is(key.value, rule[1]) for key in call.keywords)


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is type(value) and node.value == value


def test_the_source_has_no_unsafe_call() -> None:
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        found += unsafe_calls(ast.parse(file.read_text(encoding="utf-8")), file.relative_to(SOURCE).as_posix())
    assert not found, "unsafe calls; see tests/test_unsafe_calls.py for the safe form:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "pickle.load(file)",
        "pickle.loads(text)",
        "from pickle import loads",
        "class Reader(pickle.Unpickler): ...",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=safe)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text)",
        "eval(text)",
        "exec(text)",
        "os.system(text)",
        "tar.extractall(folder)",
        "tarfile.open(path).extractall(folder, filter='fully_trusted')",
        "zipfile.ZipFile(path).extractall(folder)",
        "shutil.unpack_archive(path)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_unsafe_calls_are_found(line: str) -> None:
    assert unsafe_calls(ast.parse(line), "x.py")


@pytest.mark.parametrize(
    "line",
    [
        "torch.load(path, map_location=device, weights_only=True)",
        "np.load(path, allow_pickle=False)",
        "tar.extractall(folder, filter='data')",
        "model.eval()",
        "re.compile(text)",
        "subprocess.run([name], check=True)",
    ],
)
def test_safe_calls_are_accepted(line: str) -> None:
    assert not unsafe_calls(ast.parse(line), "x.py")
