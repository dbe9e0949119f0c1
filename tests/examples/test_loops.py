"""The examples of loops and trainers: at most five changed lines improve the accuracy, and runs resume exactly."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.changed_lines import before, count

FOLDER = Path(__file__).parents[2] / "examples"
MARGIN = 8.0  # points of accuracy; the examples gain 9 to 22
NEEDS = {
    "plain_loop": "sklearn",  # for the digits
    "lightning_digits": "lightning",
    "trainer_text": "transformers",
    "accelerate_text": "accelerate",
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),  # of Lightning
    pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches .* is smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]


@pytest.fixture(params=NEEDS)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An example whose framework is installed; it can import other examples, as a script can."""
    pytest.importorskip(NEEDS[request.param], reason="needs the extra adiw[cli], adiw[lightning] or adiw[hf]")
    monkeypatch.syspath_prepend(str(FOLDER))
    return str(request.param)


def text(name: str) -> str:
    return (FOLDER / f"{name}.py").read_text()


def run(code: str, name: str) -> Any:
    module = ModuleType(name)
    sys.modules[name] = module  # where Lightning looks for the file of a module
    exec(compile(code, f"{name}.py", "exec"), module.__dict__)
    return module


def test_weights_beat_the_same_training_without_them(name: str) -> None:
    code = before(text(name))
    assert "adiw" not in re.sub(r"from adiw\.(models|data|shifts)", "", code)  # data and networks only
    assert run(text(name), name).main() >= run(code, name).main() + MARGIN


def test_at_most_five_lines_change(name: str) -> None:
    assert 3 < count(text(name)) <= 5


def of_plain(example: Any, folder: Path) -> tuple[Any, Any]:
    whole, resumed = (example.train(4, folder, start) for start in (0, 2))
    return [(parts["adiw"].weights, parts["model"]) for parts in (whole, resumed)]


def of_lightning(example: Any, folder: Path) -> Any:
    whole, resumed = (example.train(4, folder, start) for start in (None, folder / "epoch=1.ckpt"))
    return [(trainer.callbacks[0].weights, trainer.lightning_module) for trainer in (whole, resumed)]


def of_trainer(example: Any, folder: Path) -> Any:
    whole, resumed = (example.train(str(folder), 4, start) for start in (None, str(folder / "checkpoint-8")))
    return [(trainer.weights, trainer.model) for trainer in (whole, resumed)]


def of_accelerate(example: Any, folder: Path) -> Any:
    whole, resumed = (example.train(4, folder, start) for start in (0, 2))
    return [(accelerator._custom_objects[0].weights, model) for model, accelerator in (whole, resumed)]


RESUMED: dict[str, Callable[[Any, Path], Any]] = {
    "plain_loop": of_plain,
    "lightning_digits": of_lightning,
    "trainer_text": of_trainer,
    "accelerate_text": of_accelerate,
}


def test_it_resumes_from_the_frameworks_own_checkpoint(name: str, tmp_path: Path) -> None:
    (weights, model), (again, resumed) = RESUMED[name](run(text(name), name), tmp_path)
    torch.testing.assert_close(again, weights, rtol=0, atol=0)
    torch.testing.assert_close(resumed.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert weights.std() > 0.1


def test_a_script_prints_its_accuracy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    code = text("plain_loop").replace("epochs: int = 25", "epochs: int = 1")
    exec(compile(code, "plain_loop.py", "exec"), {"__name__": "__main__"})
    assert re.fullmatch(r"accuracy [\d.]+%\n", capsys.readouterr().out)


def test_every_example_is_run() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"noisy_digits", "noisy_text"}
    assert {name for name in scripts if name not in tests} == set()
