"""Each extra alone is enough for its features; without it, the error names the extra to install."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tests.isolated_install import EXTRAS, PROJECT, ROOT, TOOLS, install, run

FEATURES = {
    "classic": """
from adiw.classic import KLIEP, KMM, LSIF, ULSIF
print(KMM().fit([[0.0], [1.0], [2.0]], [[1.0], [1.5]]).weights_.shape)
""",
    "cli": """
import sys
from pathlib import Path
from adiw.cli import main
from adiw.data import image_files, load
from adiw.reports import figures, report_page, pictures
from PIL import Image
Image.new("RGB", (4, 4)).save("picture.png")
image_files.read_image(Path("picture.png"))
import pandas, pooch
pandas.DataFrame({"a": ["x", None] * 5, "b": [0, 1] * 5}).to_parquet("table.parquet")
load("csv", path="table.parquet")
sys.argv = ["adiw", "run", "--epochs", "1", "--quiet", "--out", "run"]
main()
""",
    "qp": """
import torch
from adiw.baselines.qp_solvers import resolve_solver
from adiw.divergences import MMDProblem
K = torch.exp(-torch.cdist(*2 * [torch.arange(4.0).double()[:, None]]))
problem = MMDProblem(K, K.sum(1), 50.0, torch.full((1,), 0.1).double(), torch.zeros(4).long())
for solver in ("cvxopt", "osqp"):
    torch.testing.assert_close(resolve_solver(solver)(problem), torch.ones(4).double(), rtol=0, atol=0.01)
""",
    "tensorboard": """
from pathlib import Path
from adiw.integrations.trackers import TensorBoard
tracker = TensorBoard(Path("board"), {})
tracker.log(0, {"loss": 1.0})
tracker.close()
""",
    "mlflow": """
from pathlib import Path
from adiw.integrations.trackers import MLflow
tracker = MLflow(Path("flow"), {})
tracker.log(0, {"loss": 1.0})
tracker.close()
""",
    "sklearn": """
import numpy as np
from adiw.integrations.sklearn import ReweightedClassifier
X, y = np.eye(4, dtype="float32"), np.array([0, 1, 0, 1])
print(ReweightedClassifier(epochs=1).fit(X, y, X_val=X, y_val=y).predict(X).shape)
""",
    "lightning": "from adiw.integrations.lightning import Reweighting",
    "hf": """
from transformers import Trainer
from adiw.integrations.huggingface import ReweightingMixin
type("ReweightedTrainer", (ReweightingMixin, Trainer), {})
""",
    "ray": "from adiw.experiments.ray_executor import RayExecutor",
}
# A statement, and the extra that its error must name.
WITHOUT = {
    "import adiw.classic": "classic",
    "from adiw.cli import main; main()": "cli",
    "import torch; from adiw.data import ImageFiles; ImageFiles((), torch.zeros(0).long())": "cli",
    "from pathlib import Path; from adiw.data.tables import read_table; read_table(Path('no.csv'), None)": "cli",
    "from pathlib import Path; from adiw.data.download import get; get('cifar10', Path('no'))": "cli",
    "from adiw.baselines.qp_solvers import resolve_solver; resolve_solver('osqp')": "qp",
    "from adiw.integrations.trackers import TensorBoard; TensorBoard('board', {})": "tensorboard",
    "from adiw.integrations.trackers import MLflow; MLflow('flow', {})": "mlflow",
    "import adiw.integrations.sklearn": "sklearn",
    "import adiw.integrations.lightning": "lightning",
    "import adiw.integrations.huggingface": "hf",
    "import adiw.experiments.ray_executor": "ray",
}
# Run all statements in one interpreter; print the extra and the error of each.
EACH = """
for statement, extra in {table!r}.items():
    try:
        exec(statement, {{}})
    except BaseException as error:
        print(extra, type(error).__name__, error)
    else:
        print(extra, "no error")
"""


def installed(folder: Path, requirements: list[str]) -> Path:
    try:
        return install(folder, requirements)
    except PackageNotFoundError as error:
        pytest.skip(f"this environment lacks {error.name}")


def test_every_extra_is_tested_and_is_in_all() -> None:
    assert set(FEATURES) == set(EXTRAS) - TOOLS == set(WITHOUT.values())
    (everything,) = EXTRAS["all"]
    assert set(everything.removeprefix("adiw[").removesuffix("]").split(",")) == set(FEATURES)


@pytest.mark.parametrize("extra", FEATURES)
def test_an_extra_alone_is_enough_for_its_features(extra: str, tmp_path: Path) -> None:
    folder = installed(tmp_path / "alone", PROJECT["dependencies"] + EXTRAS[extra])
    done = run(folder, FEATURES[extra])
    assert done.returncode == 0, done.stderr[-2000:]


def test_without_its_extra_the_error_names_what_to_install(tmp_path: Path) -> None:
    folder = installed(tmp_path / "core", PROJECT["dependencies"])
    done = run(folder, EACH.format(table=WITHOUT))
    errors = done.stdout.splitlines()
    assert len(errors) == len(WITHOUT), done.stderr[-2000:]
    for line, extra in zip(errors, WITHOUT.values(), strict=True):
        assert f'pip install "adiw[{extra}]"' in line


def test_the_core_alone_trains(tmp_path: Path) -> None:
    """The README's loop, with torch and numpy and nothing else installed."""
    folder = installed(tmp_path / "core", PROJECT["dependencies"])
    loop = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    done = run(folder, "import warnings; warnings.simplefilter('error')\n" + loop)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "effective sample size" in done.stdout
