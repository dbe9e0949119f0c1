"""A few mutants for `make test`: each swaps one operator of a core function, and a named test must fail.

``python -m torture.mutation.sample`` prints the outcome of each, and of the unchanged code under the same tests.
"""

from __future__ import annotations

import ast
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from torture.mutation.trial import ROOT, Trial, run_all


@dataclass(frozen=True)
class Slip:
    """The operator ``was`` of a function (its ``number``-th, from 1) becomes ``now``; ``tests`` must fail."""

    module: str
    function: str  # with its class, such as "KL.problem"
    was: type[ast.AST]
    now: type[ast.AST]
    tests: str  # a file, and after "::" an expression that selects tests of it
    number: int = 1

    def trial(self) -> Trial:
        tree = ast.parse((ROOT / "src" / self.module).read_text())
        swap = _Swap(self.was, self.now, self.number)
        swap.visit(_find(tree, self.function))
        if swap.seen < self.number:
            raise ValueError(f"expected {self.number} of {self.was.__name__} in {self.function}, found {swap.seen}")
        file, _, selected = self.tests.partition("::")
        return Trial(self.module, ast.unparse(tree), [file, *(["-k", selected] if selected else [])])


def _find(tree: ast.AST, function: str) -> ast.AST:
    for name in function.split("."):
        named = [node for node in ast.iter_child_nodes(tree) if getattr(node, "name", None) == name]
        if not named:
            raise ValueError(f"no function {function} in this module: update torture/mutation/sample.py")
        (tree,) = named
    return tree


class _Swap(ast.NodeTransformer):
    """Replaces one operator of a tree, and counts the operators of its kind."""

    def __init__(self, was: type[ast.AST], now: type[ast.AST], number: int) -> None:
        self.was, self.now, self.number, self.seen = was, now, number, 0

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, self.was):
            return self.generic_visit(node)
        self.seen += 1
        return self.now() if self.seen == self.number else node


REFERENCE, CRITIC = "tests/divergences/test_reference.py", "tests/divergences/test_critic.py"
PROJECTIONS, VALUES = "tests/matching/test_projections.py", "tests/reweighting/test_sample_index.py"
STATE = "tests/reweighting/test_weight_state.py"
STREAM, STREAM_TESTS = "adiw/reweighting/validation_schedule.py", "tests/reweighting/test_validation_schedule.py"
SAMPLE = [
    Slip("adiw/divergences/kl.py", "KLProblem.gradient", ast.USub, ast.UAdd, f"{REFERENCE}::objective and kl"),
    Slip("adiw/divergences/mmd.py", "MMD.problem", ast.Sub, ast.Add, f"{REFERENCE}::objective and mmd"),
    Slip(
        "adiw/divergences/squared.py",
        *("SquaredProblem.objective", ast.Sub, ast.Add, f"{REFERENCE}::objective and squared", 2),
    ),
    Slip("adiw/divergences/wasserstein.py", "Wasserstein.problem", ast.Gt, ast.GtE, f"{CRITIC}::stand_still"),
    Slip("adiw/divergences/critic_training.py", "train", ast.Pow, ast.Mult, f"{CRITIC}::adam", 2),
    Slip("adiw/matching/projections.py", "_small_band", ast.Sub, ast.Add, f"{PROJECTIONS}::solver", 2),
    Slip("adiw/reweighting/sample_index.py", "mean_of_duplicates", ast.Div, ast.Mult, VALUES),
    Slip("adiw/reweighting/weight_state.py", "WeightState._past_warmup", ast.Gt, ast.GtE, f"{STATE}::warm_up"),
    Slip(STREAM, "StepClock.tick", ast.Eq, ast.NotEq, f"{STREAM_TESTS}::every"),
    Slip(
        "adiw/distributed/process_group.py",
        *("ProcessGroup._positions", ast.Mult, ast.Add, f"{STREAM_TESTS}::several_processes"),
    ),
]


def main() -> None:
    """Run the sample. It needs its own process, which forks before torch has differentiated anything."""
    trials = [slip.trial() for slip in SAMPLE]
    unchanged = [replace(trial, source="") for trial in trials[-2:]]
    with tempfile.TemporaryDirectory() as folder:
        done = list(run_all([*trials, *unchanged], Path(folder), 2))
    print(json.dumps([{"mutated": bool(trial.source), "outcome": verdict.outcome} for trial, verdict in done]))


if __name__ == "__main__":
    main()
