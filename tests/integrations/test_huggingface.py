"""The Trainer mixin: each sample keeps its weight across checkpoints and gradient accumulation; bad input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import IterableDataset, RandomSampler, Subset

import adiw

transformers = pytest.importorskip("transformers", reason="needs the extra adiw[hf]")
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments  # noqa: E402

from adiw.integrations.huggingface import ADIW, Collated, Indexed, ReweightingMixin, classify  # noqa: E402

_data = Generator().manual_seed(0)
IDS, LABELS = torch.randint(1, 20, (40, 6), generator=_data), torch.randint(3, (40,), generator=_data)
SAMPLES = [
    {"input_ids": ids, "labels": label, "idx": 7, "text": "not for the model"}
    for ids, label in zip(IDS.tolist(), LABELS.tolist(), strict=True)
]


def model(dropout: float = 0.0) -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForSequenceClassification(
        BertConfig(vocab_size=20, num_labels=3, max_position_embeddings=8, hidden_dropout_prob=dropout, **sizes)
    )


class Reweighted(ReweightingMixin, Trainer):  # type: ignore[misc]
    trusted_set = SAMPLES[:10]


class Moved(Reweighted):
    """Labels are random, so the default has no evidence: a divergence without caution gives unequal weights."""

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int | None) -> ADIW:
        criterion = nn.CrossEntropyLoss(reduction="none")
        return ADIW(model, criterion, val_set, num_train, "kl", forward=self.outputs_and_targets, cautious=False)


def trainer(folder: Path, kind: Any = Reweighted, net: Any = None, train: Any = None, **settings: Any) -> Any:
    named = {key: settings.pop(key) for key in ("data_collator", "eval_dataset", "model_init") if key in settings}
    settings = {"num_train_epochs": 3, "per_device_train_batch_size": 8, "learning_rate": 1e-2, **settings}
    arguments = TrainingArguments(
        output_dir=folder, save_strategy="epoch", report_to="none", disable_tqdm=True, use_cpu=True, **settings
    )
    net = None if "model_init" in named else net or model()
    return kind(model=net, args=arguments, train_dataset=SAMPLES if train is None else train, **named)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_run_resumes_from_the_trainers_own_checkpoint(tmp_path: Path, accumulated: int) -> None:
    def run(folder: str) -> Any:
        return trainer(tmp_path / folder, Moved, net=model(dropout=0.1), gradient_accumulation_steps=accumulated)

    whole = run("whole")
    whole.train()
    per_epoch = -(-5 // accumulated)
    path = tmp_path / "whole" / f"checkpoint-{2 * per_epoch}"
    assert "weight_state.weight_slots" in torch.load(path / "adiw.pt", weights_only=True)
    resumed = run("part")
    resumed.train(resume_from_checkpoint=str(path))

    torch.testing.assert_close(resumed.weights, whole.weights, rtol=0, atol=0)
    ours, theirs = resumed.model.state_dict(), whole.model.state_dict()
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert whole.weights.std() > 0.01
    assert resumed.method.summary().steps == whole.method.summary().steps == 15


def pad(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    """A collator that drops columns it does not use."""
    rows = [torch.tensor(sample["input_ids"]) for sample in samples]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {
        "input_ids": ids,
        "attention_mask": (ids > 0).long(),
        "labels": torch.tensor([s["labels"] for s in samples]),
    }


class Watched(Moved):
    """Compares every training batch with the samples that its index names."""

    seen: list[int]

    def compute_loss(self, model: nn.Module, inputs: Any, *rest: Any, **named: Any) -> Any:
        if model.training:
            assert inputs["labels"].tolist() == LABELS[inputs["index"]].tolist()
            self.seen += inputs["index"].tolist()
        return super().compute_loss(model, inputs, *rest, **named)


@pytest.mark.parametrize("collator", [None, pad], ids=["default", "own"])
@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_index_survives_column_removal_and_the_collator(
    tmp_path: Path, collator: Any, remove: bool, wrapped: bool
) -> None:
    kept = SAMPLES if remove else [{k: sample[k] for k in ("input_ids", "labels")} for sample in SAMPLES]

    class Kept(Watched):
        trusted_set = kept[:10]

    ragged = [{**sample, "input_ids": sample["input_ids"][: 3 + i % 4]} for i, sample in enumerate(kept)]
    train: Any = kept if collator is None else ragged
    train = Indexed(train) if wrapped else train
    named = {} if collator is None else {"data_collator": collator}
    run = trainer(tmp_path, Kept, train=train, num_train_epochs=2, remove_unused_columns=remove, **named)
    run.seen = []
    run.train()
    assert sorted(run.seen[:40]) == sorted(run.seen[40:]) == list(range(40))
    assert run.train_dataset is train
    assert collator is None or run.data_collator is collator
    assert run.weights.std() > 0


def test_a_subset_of_an_indexed_set_keeps_its_indices(tmp_path: Path) -> None:
    run = trainer(tmp_path, Watched, train=Subset(Indexed(SAMPLES), [3, 5, 8, 13, 21, 34]), num_train_epochs=1)
    run.seen = []
    run.train()
    assert sorted(run.seen) == [3, 5, 8, 13, 21, 34]
    assert len(run.weights) == 40


def test_accumulated_batches_weigh_as_one_batch(tmp_path: Path) -> None:
    def trained(**settings: Any) -> dict[str, Tensor]:
        run = trainer(tmp_path, num_train_epochs=1, optim="sgd", max_grad_norm=0.0, **settings)
        run.train()  # the first epoch is the warm-up: weights of one
        return run.model.state_dict()  # type: ignore[no-any-return]

    whole = trained(per_device_train_batch_size=40)
    parts = trained(per_device_train_batch_size=10, gradient_accumulation_steps=4)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)


def test_evaluation_and_logs(tmp_path: Path) -> None:
    columns = [{**sample, "index": 99} for sample in SAMPLES[:10]]  # a column of the user: removed as usual
    ours = trainer(tmp_path, num_train_epochs=2, logging_steps=5, eval_dataset=columns)
    ours.train()
    plain = trainer(tmp_path, Trainer, net=ours.model)
    assert ours.evaluate()["eval_loss"] == pytest.approx(plain.evaluate(SAMPLES[:10])["eval_loss"])
    logged = [entry for entry in ours.state.log_history if "loss" in entry]
    assert len(logged) == 2
    assert logged[-1]["weights/ess"] == pytest.approx(ours.method.summary().ess)
    assert "weights/ess" not in ours.state.log_history[-1]  # of the evaluation


def test_another_method_and_criterion(tmp_path: Path) -> None:
    class Other(Reweighted):
        def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> ADIW:
            criterion = nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)
            return ADIW(model, criterion, val_set, num_train, "mmd", forward=self.outputs_and_targets)

    run = trainer(tmp_path, Other)
    run.train()
    assert isinstance(run.method.divergence, adiw.divergences.MMD)


def test_a_second_call_continues_and_a_new_model_starts_again(tmp_path: Path) -> None:
    run = trainer(tmp_path, num_train_epochs=1)
    run.train()
    run.train()
    assert run.method.summary().steps == 10
    fresh = trainer(tmp_path, num_train_epochs=1, model_init=lambda: model())
    fresh.train()
    fresh.train()
    assert fresh.method.summary().steps == 5


def test_evaluation_before_training_has_no_weights(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    assert run.evaluate(SAMPLES[:10])["eval_loss"] > 0
    with pytest.raises(RuntimeError, match=r"no weights before training starts: call trainer.train\(\) first"):
        run.weights


# Bad input: an error that says what to change.


def test_no_trusted_set_and_losses_that_would_be_ignored(tmp_path: Path) -> None:
    class Untrusting(ReweightingMixin, Trainer):  # type: ignore[misc]
        pass

    with pytest.raises(ValueError, match=r"no trusted set: class WeightedTrainer\(ReweightingMixin, Trainer\)"):
        trainer(tmp_path, Untrusting).train()
    with pytest.raises(ValueError, match="label_smoothing_factor would not be used: override make_reweight"):
        trainer(tmp_path, label_smoothing_factor=0.1).train()


def test_a_frozen_model(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no parameter of BertForSequenceClassification requires a gradient.*unfreeze"
    ):
        trainer(tmp_path, net=model().requires_grad_(False)).train()


def test_a_training_set_that_changes_its_length(tmp_path: Path) -> None:
    run = trainer(tmp_path, num_train_epochs=1)
    run.train()
    run.train_dataset = SAMPLES[:30]
    with pytest.raises(
        ValueError, match="has 30 samples, but had 40 when training started: each sample keeps its weight"
    ):
        run.train()
    with pytest.raises(ValueError, match="this state is of 40 training samples, but there are 32 now"):
        trainer(tmp_path, train=SAMPLES[:32]).train(resume_from_checkpoint=True)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(SAMPLES)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_samples_of_a_stream_have_the_weights_that_they_have_with_an_index(tmp_path: Path, accumulated: int) -> None:
    class Matched(Reweighted):
        whole_step = accumulated > 1

        def make_reweight(self, model: nn.Module, val_set: Any, num_train: int | None) -> ADIW:
            criterion, seeded = nn.CrossEntropyLoss(reduction="none"), Generator().manual_seed(0)
            settings: dict[str, Any] = {"warmup_steps": 0, "cautious": False, "forward": self.outputs_and_targets}
            divergence = adiw.divergences.Squared()  # its parameters are those of the trusted samples
            return ADIW(model, criterion, val_set, num_train, divergence, generator=seeded, **settings)

    same = {"max_steps": 4 // accumulated, "train_sampling_strategy": "sequential", "optim": "sgd"}
    stream, indexed = (
        trainer(tmp_path / name, Matched, train=train, gradient_accumulation_steps=accumulated, **same)
        for name, train in (("stream", Stream()), ("indexed", SAMPLES))
    )
    stream.train()
    indexed.train()
    torch.testing.assert_close(stream.weights[:32], indexed.weights[:32])
    torch.testing.assert_close(stream.model.state_dict(), indexed.model.state_dict())
    assert indexed.weights.std() > 0.001
    assert stream.weights.shape == (2048,)


def test_training_sets_that_cannot_have_an_index(tmp_path: Path) -> None:
    class Counted(Reweighted):
        def make_reweight(self, model: nn.Module, val_set: Any, num_train: int | None) -> ADIW:
            return ADIW(model, nn.CrossEntropyLoss(reduction="none"), val_set, 40, forward=self.outputs_and_targets)

    with pytest.raises(ValueError, match="a stream has no index: make the method with num_train=None, got 40"):
        trainer(tmp_path, Counted, train=Stream(), max_steps=3).train()
    with pytest.raises(TypeError, match="samples must be mappings of columns, got tuple"):
        trainer(tmp_path, train=[(sample["input_ids"], 0) for sample in SAMPLES]).train()


def test_a_loader_without_indices(tmp_path: Path) -> None:
    class Own(Reweighted):
        def get_train_dataloader(self) -> Any:
            super().get_train_dataloader()
            return Trainer.get_train_dataloader(self)

    with pytest.raises(ValueError, match=r'no "index", only input_ids, labels: .* overrides get_train_dataloader'):
        trainer(tmp_path, Own).train()


class Repeating(Reweighted):
    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return RandomSampler(SAMPLES, replacement=True, num_samples=80)


class Allowing(Repeating):
    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> ADIW:
        criterion = nn.CrossEntropyLoss(reduction="none")
        return ADIW(model, criterion, val_set, num_train, forward=self.outputs_and_targets, repeats=True)


def test_a_sampler_that_repeats_samples(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"RandomSampler repeats samples: draw them without.*repeats=True"):
        trainer(tmp_path, Repeating).train()
    run = trainer(tmp_path, Allowing)
    run.train()
    assert run.weights.isfinite().all()


def test_a_model_that_is_split(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    run.is_fsdp_enabled = True
    with pytest.raises(ValueError, match=r"DeepSpeed and FSDP1 do not allow: use FSDP2"):
        run.train()
    run.is_fsdp_enabled, run.is_deepspeed_enabled = False, True
    with pytest.raises(ValueError, match=r"DeepSpeed and FSDP1 do not allow: use FSDP2"):
        run.train()


def test_labels_that_the_trainer_removes(tmp_path: Path) -> None:
    class Unlabelled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Embedding(20, 3)

        def forward(self, input_ids: Tensor) -> Any:
            return self.layer(input_ids).mean(1)

    with pytest.raises(ValueError, match=r'no "labels", only input_ids: .*label_names=\["labels"\]'):
        trainer(tmp_path, net=Unlabelled()).train()


def test_a_checkpoint_without_weights(tmp_path: Path) -> None:
    trainer(tmp_path, Trainer, num_train_epochs=1).train()
    run = trainer(tmp_path)
    with pytest.warns(UserWarning, match=r"adiw.pt does not exist: the weights start at one"):
        run.train(resume_from_checkpoint=True)
    assert run.method.summary().steps == 10


def test_a_collator_whose_rows_are_not_the_samples() -> None:
    with pytest.raises(TypeError, match=r"expected 2 rows in 'x' of the collated samples, got shape \(5,\)"):
        Collated([{"x": 1}, {"x": 2}], lambda samples: {"x": torch.zeros(5)})
    with pytest.raises(TypeError, match="got list: use a data collator that returns tensors with one row per sample"):
        Collated([{"x": 1}, {"x": 2}], lambda samples: {"x": ["a", "b"]})


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_checkpoint_whose_weights_are_damaged(tmp_path: Path, damage: str) -> None:
    trainer(tmp_path, num_train_epochs=1).train()
    (file,) = tmp_path.glob("*/adiw.pt")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content[:-9] if damage == "cut" else content)
    with pytest.raises(RuntimeError, match=r"adiw\.pt is damaged .*delete it to continue with weights of one"):
        trainer(tmp_path).train(resume_from_checkpoint=True)


@pytest.mark.parametrize(
    ("dataset", "collator", "message"),
    [
        (3, transformers.default_data_collator, "expected a data set with __len__ and __getitem__, got int"),
        ([], transformers.default_data_collator, "got an empty one"),
        (SAMPLES, None, "expected a data collator, got NoneType"),
        ([1, 2], transformers.default_data_collator, "the data collator fails on its samples .*mappings of"),
        (SAMPLES, lambda samples: None, "expected a mapping of columns from the data collator, got None"),
        (SAMPLES, lambda samples: {}, "expected a mapping of columns from the data collator, got {}"),
    ],
)
def test_trusted_sets_without_columns(dataset: Any, collator: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"trusted set: .*{message}"):
        Collated(dataset, collator)


def test_overridden_methods_must_return_the_right_type(tmp_path: Path) -> None:
    class Nothing(Reweighted):
        def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> Any:
            return None

    class Three(Reweighted):
        def outputs_and_targets(self, model: nn.Module, batch: dict[str, Any]) -> Any:
            return (*super().outputs_and_targets(model, batch), 3)

    with pytest.raises(TypeError, match=r"make_reweight must return a weighting method such as ADIW\(\.\.\.\)"):
        trainer(tmp_path, Nothing).train()
    with pytest.raises(TypeError, match=r"outputs_and_targets must return \(outputs, targets\), got 3 values"):
        trainer(tmp_path, Three).train()


class Positional(nn.Module):
    """Returns a tensor, like many image networks."""

    def forward(self, input: Tensor) -> Tensor:
        return input


def test_a_batch_or_model_that_cannot_be_classified() -> None:
    with pytest.raises(TypeError, match="a model and a batch that maps names to columns, got Linear and list"):
        classify(nn.Linear(2, 2), [])  # type: ignore[arg-type]
    batch = {"input": torch.zeros(1, 2), "labels": torch.zeros(1), "index": torch.zeros(1)}
    with pytest.raises(TypeError, match=r"the model returned Tensor without \.logits: use a model for"):
        classify(Positional(), batch)


def test_the_audit_reads_every_training_sample(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    with pytest.raises(RuntimeError, match="there is nothing to audit before training starts"):
        made.audit()
    made.train()
    found = made.audit(names=["a", "b", "c"])
    assert made.method.weight_state.history.loss_counts[:-1].tolist() == [3] * 40
    assert sorted(found.order.tolist()) == list(range(40))
    assert found.given.tolist() == LABELS.tolist()
