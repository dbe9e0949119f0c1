"""The same training with Lightning, the Trainer and accelerate, in one process or several, for the tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from accelerate import Accelerator, DataLoaderConfiguration, FullyShardedDataParallelPlugin
from accelerate.state import AcceleratorState, DistributedType
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Generator, Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from adiw.divergences import KL
from adiw.integrations.huggingface import ADIW, ClassLosses, Indexed, ReweightingMixin, classify
from adiw.integrations.lightning import Reweighting, weighted_loss

NUM_TRAIN, BATCH, CLASSES, EPOCHS = 48, 8, 4, 3  # the batch of all processes together
CRITERION = nn.CrossEntropyLoss(reduction="none")
_random = Generator().manual_seed(0)
X = torch.randn(NUM_TRAIN, 6, generator=_random)
Y = torch.randint(CLASSES, (NUM_TRAIN,), generator=_random)


class Rows(Dataset[dict[str, Tensor]]):
    """Samples as mappings of columns, in the Trainer's form."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        return {"x": X[number], "labels": Y[number]}


class Outputs(dict[str, Tensor]):
    @property
    def logits(self) -> Tensor:
        return self["logits"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, CLASSES))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=Generator().manual_seed(1))

    def forward(self, x: Tensor) -> Outputs:
        return Outputs(logits=self.layers(x))


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).logits

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y, index = batch
        return weighted_loss(self, self(x), y, index)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.5)


class SplitModule(Module):
    def configure_model(self) -> None:
        fully_shard(self.net, mesh=self.device_mesh["data_parallel"])


Found = tuple[Tensor, list[Tensor]]  # weights and parameters


def whole(parameters: Any, split: bool) -> list[Tensor]:
    """Copies of the parameters. With ``split`` this process has only a part of each."""
    found = list(parameters)
    assert all(hasattr(parameter, "full_tensor") == split for parameter in found)
    return [(parameter.full_tensor() if split else parameter).detach().clone() for parameter in found]


def by_lightning(rank: int, size: int, folder: Path, start: Path | None = None, split: bool = False) -> Found:
    trusted = TensorDataset(X[:9], Y[:9])
    callback = Reweighting(
        lambda module, num_train: ADIW(module, CRITERION, trusted, num_train, "kl", cautious=False)
    )
    checkpoints = ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1)
    trainer = pl.Trainer(
        callbacks=[callback, checkpoints],
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=size,
        strategy=ModelParallelStrategy(size, 1) if split else "ddp" if size > 1 else "auto",
        use_distributed_sampler=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module, data = SplitModule() if split else Module(), Indexed(TensorDataset(X, Y))
    sampler = DistributedSampler(data, num_replicas=size, rank=rank)  # the same order for any number of processes
    trainer.fit(module, DataLoader(data, BATCH // size, sampler=sampler), ckpt_path=start)
    assert float(trainer.callback_metrics["weights/ess"]) == pytest.approx(callback.method.summary().ess)
    return callback.weights.clone(), whole(module.parameters(), split)


class ReweightedTrainer(ReweightingMixin, Trainer):
    trusted_set = Rows(9)


def by_trainer(rank: int, size: int, folder: Path, start: Path | None = None, split: bool = False) -> Found:
    parts = {"fsdp": True, "fsdp_config": {"version": 2, "auto_wrap_policy": "NO_WRAP"}} if split else {}
    settings = {"learning_rate": 0.5, "optim": "sgd", "label_names": ["labels"]}  # forward does not take them
    arguments = _arguments(size, folder, save_strategy="no" if split else "epoch", **settings, **parts)
    return _trained(ReweightedTrainer(model=Net(), args=arguments, train_dataset=Rows(NUM_TRAIN)), start, split)


class ReweightedLanguageTrainer(ReweightingMixin, Trainer):
    trusted_set = tuple({"labels": row} for row in (torch.arange(20)[:, None] + torch.arange(8)) % 20)

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> ADIW:
        return ADIW(
            model,
            ClassLosses(),
            val_set,
            num_train,
            KL(width="auto"),
            forward=self.outputs_and_targets,
            cautious=False,
        )


def pad(samples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    labels = nn.utils.rnn.pad_sequence([sample["labels"] for sample in samples], True, -100)
    return {"input_ids": labels.clamp_min(0), "attention_mask": (labels >= 0).long(), "labels": labels}


def by_language_model(rank: int, size: int, folder: Path, start: Path | None = None) -> Found:
    """Sequences of 3 to 8 tokens, so that the processes have different numbers of them."""
    steps, lengths = (
        1 + 6 * (torch.arange(NUM_TRAIN) % 2),
        3 + torch.arange(NUM_TRAIN) % 5 + torch.arange(NUM_TRAIN) % 2,
    )
    rows = (torch.arange(NUM_TRAIN)[:, None] + steps[:, None] * torch.arange(8)) % 20
    train = [{"labels": row[:length]} for row, length in zip(rows, lengths.tolist(), strict=True)]
    sizes = {"vocab_size": 20, "n_positions": 8, "n_embd": 16, "n_layer": 1, "n_head": 2}
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    arguments = _arguments(size, folder, learning_rate=0.5, optim="sgd", remove_unused_columns=False)
    trainer = ReweightedLanguageTrainer(model=model, args=arguments, train_dataset=train, data_collator=pad)
    return _trained(trainer, start)


def _arguments(size: int, folder: Path, **settings: Any) -> TrainingArguments:
    batch = {"num_train_epochs": EPOCHS, "per_device_train_batch_size": BATCH // size}
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True}
    return TrainingArguments(str(folder), **{"save_strategy": "epoch", **batch, **quiet, **settings})


def _trained(trainer: Any, start: Path | None, split: bool = False) -> Found:
    trainer.train(resume_from_checkpoint=None if start is None else str(start))
    return trainer.weights.clone(), whole(trainer.model.parameters(), split)


def by_accelerate(rank: int, size: int, folder: Path, start: Path | None = None, split: bool = False) -> Found:
    order = DataLoaderConfiguration(use_seedable_sampler=True, data_seed=0)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="no_wrap") if split else None
    accelerator = Accelerator(cpu=True, dataloader_config=order, fsdp_plugin=plugin)
    loader = DataLoader(Indexed(Rows(NUM_TRAIN)), BATCH // size, shuffle=True)
    model = Net()
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.5), loader)
    reweight = ADIW(model, CRITERION, Rows(9), NUM_TRAIN, "kl", forward=classify, cautious=False)
    accelerator.register_for_checkpointing(reweight)
    if start is not None:
        accelerator.load_state(str(start))
    for epoch in range(0 if start is None else 2, EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            accelerator.backward(reweight(*classify(model, batch), batch["index"]))
            optimizer.step()
            optimizer.zero_grad()
        if not split:
            accelerator.save_state(str(folder / f"epoch-{epoch + 1}"))
    return reweight.weights.clone(), whole(model.parameters(), split)


TRAINERS = {
    "lightning": by_lightning,
    "trainer": by_trainer,
    "language": by_language_model,
    "accelerate": by_accelerate,
}
SPLIT = ("lightning", "trainer", "accelerate")  # whose model is also split over the processes


def train_all(rank: int, size: int, folder: Path) -> dict[str, Found]:
    """Train with each framework, with the environment variables of torchrun."""
    torch.set_num_threads(1)
    numbers = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {**numbers, "TORCHELASTIC_RUN_ID": "tests"}
    found = {}
    for name, train in TRAINERS.items():
        torch.manual_seed(rank)  # shared state must come from the first process
        found[name] = train(rank, size, folder / name)
    allow_fsdp_without_gpus()
    for name in SPLIT if size > 1 else ():
        AcceleratorState._reset_state()
        torch.manual_seed(rank)
        found[f"{name}, FSDP2"] = TRAINERS[name](rank, size, folder / f"{name}-split", split=True)
    return found


def allow_fsdp_without_gpus() -> None:
    """accelerate, also in the Trainer, ignores FSDP on the CPU, where PyTorch supports it."""
    start = AcceleratorState.__init__

    def start_with_plugin(self: AcceleratorState, *given: Any, fsdp_plugin: Any = None, **settings: Any) -> None:
        start(self, *given, fsdp_plugin=fsdp_plugin, **settings)
        if fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin

    AcceleratorState.__init__ = start_with_plugin
