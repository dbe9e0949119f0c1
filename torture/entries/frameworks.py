"""Integrations: the callback for Lightning, the mixin for the Hugging Face Trainer, a loop with accelerate."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from accelerate import Accelerator
from lightning.pytorch import LightningModule
from lightning.pytorch import Trainer as LightningTrainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, TensorDataset
from transformers import PrinterCallback, Trainer, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

from adiw import ADIW, Indexed
from adiw.integrations.huggingface import FILE, Collated, ReweightingMixin, classify
from adiw.integrations.lightning import Reweighting, weighted_loss
from torture import values
from torture.entries.entry import SETS, THING, Entry, Make, pick
from torture.entries.methods import STEP_BAD, states
from torture.entries.small import CLASSES, TRAIN, N, batch, criterion, network, trusted
from torture.verdict import anything, weights

ROWS = TensorDataset(torch.linspace(-1, 1, 2 * TRAIN).reshape(TRAIN, 2), torch.arange(TRAIN) % CLASSES)
COLUMNS = [{"x": x, "labels": y} for x, y in ROWS]


class Stream(IterableDataset[Any]):
    """Samples without their index."""

    def __iter__(self) -> Any:
        return iter(ROWS)


class Short(TensorDataset):
    """Reports half of its samples, so that an index is out of range for the method."""

    def __len__(self) -> int:
        return TRAIN // 2


class Module(LightningModule):
    """A user's module; ``change`` is applied to the arguments of its loss."""

    def __init__(self, change: dict[str, Any], frozen: bool) -> None:
        super().__init__()
        self.net, self.change = network().requires_grad_(not frozen), change

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # type: ignore[no-any-return]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y, index = batch
        given = {"outputs": self(x), "targets": y, "index": index, "inputs": x} | self.change
        return weighted_loss(self, **given) + 0 * self.net.bias.sum()  # replaced outputs may have no gradient

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def make(module: Any, num_train: int) -> ADIW:
    return ADIW(module, criterion, trusted(), num_train, warmup_steps=0)


def lightning(make: Any, data: Any, sampler: Any, state: Any, frozen: bool, callbacks: int, **change: Any) -> Any:
    """The weights after two epochs with the callback."""
    callback = Reweighting(make)
    callback.load_state_dict(state)
    module = Module(change, frozen)
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    quiet |= {"enable_checkpointing": False, "accelerator": "cpu", "max_epochs": 2}
    loader: Any = DataLoader(data, batch_size=N, sampler=None if sampler is None else sampler(data))
    LightningTrainer(callbacks=[callback, Reweighting(make)][:callbacks], **quiet).fit(module, loader)
    return callback.weights


def in_training() -> Module:
    """A module during ``fit``."""
    module, callback = Module({}, False), Reweighting(make)
    callback.method = make(module, TRAIN)
    module._trainer = SimpleNamespace(callbacks=[callback], training=True)  # type: ignore[assignment]
    return module


TRAINING_SETS: tuple[Any, ...] = (ROWS, Stream(), Indexed(Short(*ROWS.tensors)), [3, 4, 5, 6], [{"x": 1}] * TRAIN)
REPEATING = (None, lambda data: RandomSampler(data, replacement=True))
FLAG = pick((False, True))


def lightnings() -> list[Entry]:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    good = {"make": make, "data": Indexed(ROWS), "sampler": None, "state": {}, "frozen": False, "callbacks": 1}
    bad: dict[str, Make] = {"make": THING, "data": pick(TRAINING_SETS), "sampler": pick(REPEATING), "frozen": FLAG}
    bad |= {"callbacks": pick((0, 2)), "state": states, **STEP_BAD}
    loss = {"module": in_training(), **batch()}
    return [
        Entry("Lightning's callback", lightning, lambda: dict(good), bad, weights, 2.0),
        Entry("weighted_loss", weighted_loss, lambda: dict(loss), {"module": THING, **STEP_BAD}, anything, 0.3),
    ]


class Columns(nn.Module):
    """A model in the form of Hugging Face: it takes columns and returns an object with logits."""

    def __init__(self, output: Any = None) -> None:
        super().__init__()
        self.net, self.output = network(), output

    def forward(self, **columns: Any) -> Any:
        logits = self.net(columns["x"])
        return SequenceClassifierOutput(logits=logits) if self.output is None else self.output


def hugging_face(
    work: Path, trusted_set: Any, data: Any, made: Any, pair: Any, collator: Any, state: Any, frozen: Any
) -> Any:
    """Train a few steps with the mixin, write ``state`` into the checkpoint, and resume from it."""

    class Reweighted(ReweightingMixin, Trainer):
        def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> Any:
            forward = self.outputs_and_targets
            return ADIW(model, criterion, val_set, num_train, forward=forward) if made is Ellipsis else made

        def outputs_and_targets(self, model: nn.Module, batch: dict[str, Any]) -> Any:
            return super().outputs_and_targets(model, batch) if pair is Ellipsis else pair

    Reweighted.trusted_set = trusted_set
    given = {"per_device_train_batch_size": N, "report_to": "none", "disable_tqdm": True, "use_cpu": True}
    given |= {"save_strategy": "steps", "save_steps": 2, "max_steps": 3, "logging_strategy": "no"}
    arguments = TrainingArguments(output_dir=str(work / "trainer"), remove_unused_columns=False, **given)
    trainer = Reweighted(Columns().requires_grad_(not frozen), arguments, collator, data)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    if isinstance(state, bytes):
        saved = work / "trainer" / "checkpoint-2"
        (saved / FILE).write_bytes(state)
        trainer.train(resume_from_checkpoint=str(saved))
    return trainer.weights


ROWS_BY_NAME: tuple[Any, ...] = (COLUMNS[:1], [{}], [{"x": torch.zeros(2)}], [{"x": torch.zeros(3), "labels": 0}])


def hugging_faces(work: Path) -> list[Entry]:
    transformers.logging.set_verbosity_error()
    good: dict[str, Any] = {"trusted_set": COLUMNS[:6], "data": COLUMNS, "made": ..., "pair": ..., "frozen": False}
    good |= {"collator": None, "state": None}
    sets = pick((*SETS, *ROWS_BY_NAME))
    bad: dict[str, Make] = {"trusted_set": sets, "data": pick((Stream(), *ROWS_BY_NAME, [3, 4])), "frozen": FLAG}
    bad |= {"made": THING, "pair": pick((*values.ANYTHING, (1, 2), (torch.rand(N, CLASSES), None)))}
    bad |= {"collator": pick((lambda samples: {}, lambda samples: None)), "state": content}
    columns = {"dataset": COLUMNS, "collator": transformers.default_data_collator}
    collated: dict[str, Make] = {"dataset": sets, "collator": THING}
    return [
        Entry("the Trainer's mixin", partial(hugging_face, work), lambda: dict(good), bad, weights, 0.7),
        Entry("Collated", Collated, lambda: dict(columns), collated, anything, 0.5),
    ]


def content(random: Random) -> bytes:
    return values.content(random, b"PK\x03\x04 not a checkpoint")


def accelerated(output: Any, model: Any, change: Any, **step: Any) -> Any:
    """A step with accelerate and ``classify``, as in docs/huggingface.md."""
    net: Any = Columns(output)
    accelerator = Accelerator(cpu=True)
    prepared, optimizer = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    reweight = ADIW(prepared, criterion, COLUMNS[:6], TRAIN, forward=classify, warmup_steps=0)
    given = {"x": torch.rand(N, 2), "labels": torch.arange(N) % CLASSES, "index": torch.arange(N)}
    columns: Any = change(given | step) if callable(change) else change
    outputs, targets = classify(prepared if model is None else model, columns)
    accelerator.backward(reweight(outputs, targets, columns["index"]))
    optimizer.step()
    return reweight.weights


def without(name: str) -> Any:
    return lambda columns: {key: value for key, value in columns.items() if key != name}


def loops() -> list[Entry]:
    changes = (*map(without, ("x", "labels", "index")), *(one for one in values.ANYTHING if not callable(one)))
    bad: dict[str, Make] = {
        "output": pick((3, "logits", {"logits": torch.ones(N, CLASSES)}, (1, 2), torch.ones(2))),
        "change": pick(changes),
    }
    bad |= {"model": pick(tuple(one for one in values.ANYTHING if one is not None)), "index": STEP_BAD["index"]}
    bad |= {"labels": STEP_BAD["targets"], "x": STEP_BAD["inputs"]}
    good = {"output": None, "model": None, "change": dict}
    return [Entry("a loop of accelerate", accelerated, lambda: dict(good), bad, weights)]


def frameworks(work: Path) -> list[Entry]:
    return [*lightnings(), *hugging_faces(work), *loops()]
