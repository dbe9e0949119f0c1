"""The Lightning callback: the same weights as a plain loop, in Lightning's checkpoints and logs; bad input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, Sampler, TensorDataset

import adiw

pl = pytest.importorskip("lightning.pytorch", reason="needs the extra adiw[lightning]")
from adiw.integrations.lightning import ADIW, Indexed, Reweighting, _check_group, weighted_loss  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),  # of Lightning
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
]
CRITERION = nn.CrossEntropyLoss(reduction="none")
_data = Generator().manual_seed(0)
X, Y = torch.randn(40, 4, generator=_data), torch.randint(3, (40,), generator=_data)
TRAIN, VAL = TensorDataset(X, Y), TensorDataset(X[:10], Y[:10])


class Shuffled(Sampler[int]):
    """An order for each epoch that does not depend on the epochs before: Lightning calls ``set_epoch``."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(X)

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(len(X), generator=Generator().manual_seed(self.epoch)).tolist())


class Module(pl.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # type: ignore[no-any-return]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y, index = batch
        return weighted_loss(self, self(x), y, index)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.5)


def reweighting(divergence: str = "kl", repeats: bool = False) -> Reweighting:
    def make(module: nn.Module, num_train: int) -> ADIW:
        seeded = Generator().manual_seed(0)
        return ADIW(module, CRITERION, VAL, num_train, divergence, repeats=repeats, generator=seeded, cautious=False)

    return Reweighting(make)


def trainer(callback: Any, folder: Path, epochs: int, **settings: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    callbacks = callback if isinstance(callback, list) else [callback]
    return pl.Trainer(callbacks=callbacks, max_epochs=epochs, default_root_dir=folder, **quiet, **settings)


def loader(dataset: Any = None, **settings: Any) -> DataLoader[Any]:
    settings = settings or {"sampler": Shuffled()}
    return DataLoader(Indexed(TRAIN) if dataset is None else dataset, batch_size=8, **settings)


def test_the_weights_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    module, callback = Module(), reweighting()
    run = trainer(callback, tmp_path, 3)
    run.fit(module, loader())

    model, sampler = Module(), Shuffled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    reweight = ADIW(model, CRITERION, VAL, 40, "kl", generator=Generator().manual_seed(0), cautious=False)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y, index in loader(sampler=sampler):
            reweight(model(x), y, index).backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(callback.weights, reweight.weights, rtol=0, atol=0)
    torch.testing.assert_close(module.net[0].weight, model.net[0].weight, rtol=0, atol=0)
    assert callback.weights.std() > 0.01
    summary = reweight.summary()
    assert run.callback_metrics["weights/ess"] == pytest.approx(summary.ess)
    assert run.callback_metrics["weights/objective"] == pytest.approx(summary.objective)
    assert "weights/share_at_bound" not in run.callback_metrics  # not defined without a bound


@pytest.mark.parametrize("divergence", ["kl", "wasserstein"])
def test_a_run_resumes_from_lightnings_own_checkpoint(tmp_path: Path, divergence: str) -> None:
    whole, through = Module(), reweighting(divergence)
    trainer(through, tmp_path / "whole", 4).fit(whole, loader())

    first = trainer(reweighting(divergence), tmp_path / "part", 2)
    first.fit(Module(), loader())
    path = first.checkpoint_callback.best_model_path
    assert "weight_state.weight_slots" in torch.load(path, weights_only=True)["callbacks"]["Reweighting"]
    module, callback = Module(), reweighting(divergence)
    trainer(callback, tmp_path / "part", 4).fit(module, loader(), ckpt_path=path)

    torch.testing.assert_close(callback.weights, through.weights, rtol=0, atol=0)
    torch.testing.assert_close(module.net[2].weight, whole.net[2].weight, rtol=0, atol=0)


def test_a_second_fit_continues_and_another_module_starts_again(tmp_path: Path) -> None:
    module, callback = Module(), reweighting()
    trainer(callback, tmp_path, 2).fit(module, loader())
    method, steps = callback.method, callback.method.summary().steps
    again = trainer(callback, tmp_path, 1)
    again.fit(module, loader())
    assert callback.method is method
    assert method.summary().steps == steps + 5
    trainer(callback, tmp_path, 1).fit(Module(), loader())
    assert callback.method is not method


def test_a_state_read_for_validation_does_not_reach_a_later_fit(tmp_path: Path) -> None:
    class Validated(Module):
        def validation_step(self, batch: Any, batch_idx: int) -> None:
            self.log("loss", CRITERION(self(batch[0]), batch[1]).mean())

    first = trainer(reweighting(), tmp_path, 2)
    first.fit(Validated(), loader(), DataLoader(VAL))
    callback = reweighting()
    other = trainer(callback, tmp_path, 1)
    other.validate(Validated(), DataLoader(VAL), ckpt_path=first.checkpoint_callback.best_model_path, verbose=False)
    other.fit(Validated(), loader(), DataLoader(VAL))
    assert callback.method is not None
    assert callback.method.summary().steps == 5


def test_accumulation_and_a_model_without_the_callback_state(tmp_path: Path) -> None:
    plain = trainer([], tmp_path, 1)

    class Plain(Module):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            return CRITERION(self(batch[0]), batch[1]).mean()

    plain.fit(Plain(), loader())
    callback = reweighting()
    with pytest.warns(UserWarning, match="saved without adiw's Reweighting callback: the weights start at one"):
        trainer(callback, tmp_path, 3, accumulate_grad_batches=5).fit(
            Module(), loader(), ckpt_path=plain.checkpoint_callback.best_model_path
        )
    assert callback.weights.std() > 0


# Bad input: an error that says what to change.


def fit(tmp_path: Path, loader: Any, module: Any = None, callback: Any = None, epochs: int = 1, **more: Any) -> None:
    run = trainer(
        reweighting() if callback is None else callback, tmp_path, epochs, enable_checkpointing=False, **more
    )
    run.fit(Module() if module is None else module, loader)


def test_a_loader_without_indices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no index, got 2 parts: wrap the training set, DataLoader\(adiw.Indexed"):
        fit(tmp_path, loader(TRAIN))
    items = [{"x": x, "y": y} for x, y in TRAIN]
    with pytest.raises(ValueError, match=r'batches have no "index", only x, y: wrap'):
        fit(tmp_path, loader(items))
    with pytest.raises(ValueError, match="got Tensor: wrap"):
        fit(tmp_path, loader(X))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(TRAIN)


class StreamModule(Module):
    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        return weighted_loss(self, self(x), y)


def test_a_stream_has_weights_without_an_index(tmp_path: Path) -> None:
    callback, module = reweighting(), StreamModule()
    fit(tmp_path, DataLoader(Stream(), batch_size=8), module, callback, epochs=2)
    assert callback.weights.shape == (2048,)
    assert int(callback.method.weight_state.seen_samples) == 2 * len(TRAIN)


def test_weights_of_elements_need_no_index(tmp_path: Path) -> None:
    class Elements(StreamModule):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            x, y = batch
            return weighted_loss(self, self(x), nn.functional.one_hot(y, 3).float())

    val = TensorDataset(X[:10], nn.functional.one_hot(Y[:10], 3).float())
    criterion, fixed = nn.BCEWithLogitsLoss(reduction="none"), {"unit": "element", "cautious": False}
    callback = Reweighting(lambda module, n: ADIW(module, criterion, val, None, "mmd", warmup_steps=0, **fixed))
    fit(tmp_path, DataLoader(TRAIN, batch_size=8), Elements(), callback, epochs=2)
    assert (callback.weights != 1).any()


def test_loaders_that_cannot_be_used(tmp_path: Path) -> None:
    counted = Reweighting(lambda module, n: ADIW(module, CRITERION, VAL, 40))
    with pytest.raises(ValueError, match="a stream has no index: make the method with num_train=None, got 40"):
        fit(tmp_path, DataLoader(Stream(), batch_size=8), callback=counted)
    with pytest.raises(TypeError, match="expected one DataLoader for training, got dict"):
        fit(tmp_path, {"a": loader(), "b": loader()})


def test_a_sampler_that_repeats_samples(tmp_path: Path) -> None:
    repeating = RandomSampler(TRAIN, replacement=True, generator=Generator().manual_seed(0))
    with pytest.raises(ValueError, match=r"RandomSampler repeats samples: draw them without replacement"):
        fit(tmp_path, loader(sampler=repeating))
    longer = [*range(40), 3]
    with pytest.raises(ValueError, match=r"list repeats samples: .*, or allow it with adiw.ADIW.*repeats=True"):
        fit(tmp_path, loader(sampler=longer))
    callback = reweighting(repeats=True)
    fit(tmp_path, loader(sampler=repeating), callback=callback, epochs=2)
    assert callback.weights.isfinite().all()
    assert callback.weights.std() > 0


def test_a_subset_of_an_indexed_set_repeats_nothing(tmp_path: Path) -> None:
    part = torch.utils.data.Subset(Indexed(TRAIN), [5, 7, 9, 11])
    callback = reweighting()
    fit(tmp_path, loader(part, shuffle=False), callback=callback, epochs=30, log_every_n_steps=1)
    moved = set((callback.weights != 1).nonzero()[:, 0].tolist())
    assert moved
    assert moved <= {5, 7, 9, 11}


class Growing(Module):
    def train_dataloader(self) -> DataLoader[Any]:
        extra = 3 * self.current_epoch
        return loader(Indexed(TensorDataset(torch.cat([X, X[:extra]]), torch.cat([Y, Y[:extra]]))), shuffle=True)


def test_a_training_set_that_changes_its_length(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="has 43 samples, but had 40 when training started: each sample keeps its weight"
    ):
        fit(tmp_path, None, Growing(), epochs=2, reload_dataloaders_every_n_epochs=1)
    first = trainer(reweighting(), tmp_path, 1)
    first.fit(Module(), loader())
    shorter = loader(Indexed(TensorDataset(X[:30], Y[:30])), shuffle=True)
    with pytest.raises(ValueError, match="this state is of 40 training samples, but there are 30 now"):
        trainer(reweighting(), tmp_path, 2).fit(
            Module(), shorter, ckpt_path=first.checkpoint_callback.best_model_path
        )


def test_a_frozen_model(tmp_path: Path) -> None:
    module = Module()
    module.net.requires_grad_(False)
    with pytest.raises(
        ValueError, match=r"no parameter of Module requires a gradient.*model.head.requires_grad_\(True\)"
    ):
        fit(tmp_path, loader(), module)


def test_no_callback_or_two_and_a_call_outside_training(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"found 0: Trainer\(callbacks=\[Reweighting\(make\)\]"):
        fit(tmp_path, loader(), callback=[])
    with pytest.raises(RuntimeError, match="there are no weights before training starts"):
        reweighting().weights

    class Confused(Module):
        def validation_step(self, batch: Any, batch_idx: int) -> Tensor:
            return self.training_step(batch, batch_idx)

        val_dataloader = staticmethod(loader)

    with pytest.raises(RuntimeError, match="weighted_loss is for training_step"):
        fit(tmp_path, loader(), Confused())


def test_a_strategy_that_splits_the_model() -> None:
    class Many:
        world_size, strategy = 2, pl.strategies.FSDPStrategy()

    with pytest.raises(ValueError, match=r'FSDPStrategy with 2 processes.*strategy="ddp".*fully_shard'):
        reweighting().on_train_start(Many(), Module())  # type: ignore[arg-type]


def test_tensor_parallel_processes_need_a_process_group() -> None:
    strategy: Any = pl.strategies.ModelParallelStrategy()
    strategy._device_mesh = {"tensor_parallel": SimpleNamespace(size=lambda: 2)}
    trainer: Any = SimpleNamespace(strategy=strategy)
    method: Any = SimpleNamespace(weight_state=SimpleNamespace(process_group=None))
    with pytest.raises(ValueError, match=r"tensor-parallel processes have the same samples.*process_group="):
        _check_group(trainer, method)
    method.weight_state.process_group = "data"
    _check_group(trainer, method)


def test_the_one_import_has_the_same_names() -> None:
    assert (ADIW, Indexed) == (adiw.ADIW, adiw.Indexed)


def test_wrong_types_for_make_and_module(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"make must be callable as make\(module, num_train\), got NoneType"):
        Reweighting(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"make\(module, num_train\) must return a weighting method .*got int"):
        trainer(Reweighting(lambda module, num_train: 3), tmp_path, 1).fit(Module(), loader())
    with pytest.raises(TypeError, match="module must be the LightningModule, self in training_step, got Linear"):
        weighted_loss(nn.Linear(2, 2), X, Y, torch.arange(40))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="this module has no Trainer yet"):
        weighted_loss(Module(), X, Y, torch.arange(40))


def test_the_audit_is_that_of_the_method(tmp_path: Path) -> None:
    module, callback = Module(), reweighting()
    with pytest.raises(RuntimeError, match="there are no weights before training starts"):
        callback.audit(Indexed(TRAIN))
    trainer(callback, tmp_path, 3).fit(module, loader())
    found = callback.audit(Indexed(TRAIN), names=["a", "b", "c"], columns=lambda i: {"first": X[i, 0].item()})
    assert callback.method is not None
    assert callback.method.weight_state.history.loss_counts[:-1].tolist() == [3] * 40
    assert sorted(found.order.tolist()) == list(range(40))
    assert found.given.tolist() == Y.tolist()
    assert found.predicted is not None
    assert torch.from_numpy(found.predicted).equal(module.eval()(X).argmax(1))
    assert found.columns[3] == {"first": str(X[3, 0].item())}
