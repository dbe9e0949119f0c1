"""Features for the classic two-step pipeline: the hidden layer of a network that is trained first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from adiw.data import ImageFiles, Samples
from adiw.engine.loop import Loop, set_learning_rate
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.epoch_evaluation import read
from adiw.experiments.model_and_optimizer import build_model, build_optimizer, feature_layer, learning_rate

if TYPE_CHECKING:
    from adiw.experiments.training_run import TrainingRun

PRETRAIN = 10  # epochs with uniform weights: enough for features, too few to memorise wrong labels


def features(training: TrainingRun) -> tuple[Tensor, Tensor]:
    """(training, trusted) samples as (n, d) float64: the hidden layer, scaled to norm one, and the one-hot label.

    The label is included, because the shift is a shift of the joint distribution of (x, y). The network is trained
    for at most the length of the run.
    """
    settings, splits, device = training.settings, training.splits, training.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = build_model(settings, splits).to(device)
    criterion = nn.CrossEntropyLoss()
    uniform = lambda out, y, index, inputs: criterion(out, y)  # noqa: E731
    optimizer = build_optimizer(settings, model)
    loop = Loop(model, uniform, optimizer, training.train_loader(splits.train), training.bf16, settings.clip)
    loop.on_step = lambda done, total: training.stop.in_one_process()
    for epoch in range(min(PRETRAIN, training.train_epochs)):
        set_learning_rate(optimizer, learning_rate(settings, epoch))
        loop.run_epoch(epoch)
    classes = splits.data.num_classes
    return _hidden(model, splits.train, classes, device), _hidden(model, splits.trusted, classes, device)


@torch.no_grad()
def _hidden(model: nn.Module, samples: Samples | ImageFiles, classes: int, device: torch.device) -> Tensor:
    outputs: list[Tensor] = []
    module = model.get_submodule(feature_layer(model))
    hook = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output.flatten(1).cpu()))
    model.eval()
    labels = []
    for x, y in read(samples, device, workers=0):
        model(x)
        labels.append(y.cpu())
    hook.remove()
    hidden = normalize(torch.cat(outputs).double(), dim=1)
    if not bool(hidden.isfinite().all()):
        raise DeadRunError("the hidden layer of the pretrained network is not finite: lower the learning rate")
    return torch.cat([hidden, one_hot(torch.cat(labels), classes).double()], dim=1)
