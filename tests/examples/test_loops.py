"""The examples run as they stand, and with 40% wrong labels weights beat no weights by a wide margin."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "examples"
MARGIN = 10.0  # points of accuracy; the runs that chose the examples' epochs were 16 to 22 points apart


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example, imported with its neighbours as a script would be."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module(request.param)


@pytest.mark.parametrize("example", ["plain_loop", "mixed_precision", "gradient_accumulation"], indirect=True)
def test_weights_beat_no_weights(example: ModuleType) -> None:
    assert example.main() > example.main(weighted=False) + MARGIN


@pytest.mark.parametrize("example", ["lightning_digits"], indirect=True)
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")  # of Lightning
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
def test_lightning(example: ModuleType) -> None:
    assert example.main() > example.main(weighted=False) + MARGIN


@pytest.mark.parametrize("example", ["trainer_text", "accelerate_text"], indirect=True)
def test_hugging_face(example: ModuleType) -> None:
    assert example.main() > example.main(weighted=False) + MARGIN


@pytest.mark.parametrize("example", ["accelerate_text"], indirect=True)
def test_accelerate_resumes_from_its_own_checkpoint(example: ModuleType, tmp_path: Path) -> None:
    whole, through = example.train(4)
    example.train(2, folder=tmp_path)
    model, reweight = example.train(4, folder=tmp_path, start=2)
    torch.testing.assert_close(reweight.weights, through.weights, rtol=0, atol=0)
    torch.testing.assert_close(model.state_dict(), whole.state_dict(), rtol=0, atol=0)
    assert reweight.weights.std() > 0.1


@pytest.mark.parametrize("name", ["plain_loop", "lightning_digits", "trainer_text"])
def test_at_most_five_lines_change(name: str) -> None:
    assert 3 < (FOLDER / f"{name}.py").read_text().count("  # changed") <= 5


@pytest.mark.parametrize("example", ["compiled_model"], indirect=True)
def test_compiled(example: ModuleType) -> None:
    """The model is traced and differentiated ahead of time as for inductor, whose C++ takes most of a minute."""
    assert example.main(backend="aot_eager") > example.main(weighted=False, backend="aot_eager") + MARGIN


def test_a_script_says_what_it_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    text = (FOLDER / "plain_loop.py").read_text().replace("epochs: int = 25", "epochs: int = 1")
    exec(compile(text, "plain_loop.py", "exec"), {"__name__": "__main__"})
    assert re.fullmatch(r"accuracy without weights [\d.]+%, with weights [\d.]+%\n", capsys.readouterr().out)


def test_every_example_is_run() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"noisy_digits", "noisy_text"}
    assert {name for name in scripts if name not in text} == set()
