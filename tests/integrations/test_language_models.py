"""Language models under the Trainer: the Trainer's own mean over tokens, joined sequences, wrapped models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

transformers = pytest.importorskip("transformers", reason="needs the extra adiw[hf]")
from transformers import (  # noqa: E402
    DataCollatorWithFlattening,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

import adiw  # noqa: E402
from adiw.baselines import Random  # noqa: E402
from adiw.integrations.data_collators import CollateWithIndex  # noqa: E402
from adiw.integrations.huggingface import ADIW, ClassLosses, Indexed, ReweightingMixin, classify  # noqa: E402
from adiw.integrations.token_losses import predicts_next  # noqa: E402

_data = Generator().manual_seed(0)
LENGTHS = torch.randint(3, 9, (22,), generator=_data).tolist()
ROWS = [torch.randint(1, 20, (length,), generator=_data).tolist() for length in LENGTHS]
# Some with a prompt. The first token is never predicted, but some versions of the Trainer count it.
SAMPLES = [{"input_ids": row, "labels": row if i % 2 else [-100, -100, *row[2:]]} for i, row in enumerate(ROWS)]
UNCOUNTED = [{**sample, "labels": [-100, *sample["labels"][1:]]} for sample in SAMPLES]  # the same for all versions


def model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False))


def padded(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    def stack(name: str, value: int) -> Tensor:
        rows = [torch.tensor(sample[name], dtype=torch.long) for sample in samples]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)

    ids = stack("input_ids", 0)
    return {"input_ids": ids, "labels": stack("labels", -100), "attention_mask": (ids > 0).long()}


class Weighted(ReweightingMixin, Trainer):  # type: ignore[misc]
    trusted_set = SAMPLES[:6]


class Unweighted(Weighted):
    """All steps are warm-up, in which weights are one."""

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> ADIW:
        forward = self.outputs_and_targets
        return ADIW(model, ClassLosses(), val_set, num_train, warmup_steps=10**6, forward=forward)


class Matched(Weighted):
    """A divergence gives other weights than one from the first step on."""

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> ADIW:
        forward = self.outputs_and_targets
        return ADIW(model, ClassLosses(), val_set, num_train, "kl", warmup_steps=0, forward=forward, cautious=False)


def trainer(folder: Path, kind: Any = Weighted, net: Any = None, train: Any = None, **settings: Any) -> Any:
    collator = settings.pop("data_collator", padded)
    settings = {"num_train_epochs": 2, "per_device_train_batch_size": 4, "learning_rate": 1e-2, **settings}
    arguments = TrainingArguments(
        folder, save_strategy="no", logging_steps=1, report_to="none", disable_tqdm=True, use_cpu=True, **settings
    )
    net = model() if net is None else net
    return kind(net, arguments, train_dataset=SAMPLES if train is None else train, data_collator=collator)


def trained(*args: Any, **settings: Any) -> Any:
    run = trainer(*args, **settings)
    run.train()
    return run


def logged(run: Any) -> list[float]:
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


# The mean over the tokens of an optimizer step, with 4 and then 2 samples in the last batch.


@pytest.mark.parametrize("accumulated", [1, 4])
@pytest.mark.parametrize("collator", [padded, DataCollatorWithFlattening()], ids=["padded", "joined"])
def test_weights_of_one_train_as_the_trainers_own_loss(tmp_path: Path, accumulated: int, collator: Any) -> None:
    settings = {"gradient_accumulation_steps": accumulated, "optim": "sgd", "learning_rate": 0.5}
    ours = trained(tmp_path, Unweighted, data_collator=collator, **settings)
    theirs = trained(tmp_path, Trainer, data_collator=collator, **settings)
    torch.testing.assert_close(logged(ours), logged(theirs), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.model.state_dict(), theirs.model.state_dict(), rtol=1e-5, atol=1e-5)
    assert not torch.equal(ours.model.lm_head.weight, model().lm_head.weight)


class Fixed(ADIW):
    """The weights of samples with an odd index are 2, those of others 0."""

    def estimate(self, step: Any, train: Any, val: Any) -> Tensor:
        return self.weight_state.store(step, 2.0 * (step.index % 2), None, 2.0 * (step.index % 2))


class FixedWeights(Weighted):
    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> ADIW:
        return Fixed(model, ClassLosses(), val_set, num_train, warmup_steps=0, forward=self.outputs_and_targets)


@pytest.mark.parametrize("collator", [padded, DataCollatorWithFlattening()], ids=["padded", "joined"])
def test_the_loss_is_the_weighted_sum_over_the_tokens_of_the_step(tmp_path: Path, collator: Any) -> None:
    one_step = {"num_train_epochs": 1, "gradient_accumulation_steps": 6, "data_collator": collator}
    run = trainer(tmp_path, FixedWeights, train=UNCOUNTED, **one_step)
    batch = padded(UNCOUNTED)
    with torch.no_grad():
        logits = run.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1]
        losses = nn.functional.cross_entropy(logits.transpose(1, 2), batch["labels"][:, 1:], reduction="none")
    weights = 2.0 * (torch.arange(len(SAMPLES)) % 2)
    expected = (weights[:, None] * losses).sum() / (batch["labels"][:, 1:] != -100).sum()
    run.train()
    assert logged(run) == [pytest.approx(float(expected), rel=1e-5)]


_made = Generator().manual_seed(1)


def counting(count: int, step: int) -> list[dict[str, Any]]:
    starts = torch.randint(20, (count, 1), generator=_made)
    return [{"input_ids": row, "labels": row} for row in ((starts + step * torch.arange(8)) % 20).tolist()]


TRUSTED = counting(20, step=1)
MIXED = Indexed([*counting(40, step=3), *counting(60, step=1)], TRUSTED)  # 120 sequences


def test_weights_are_higher_for_sequences_like_the_trusted(tmp_path: Path) -> None:
    run = trained(tmp_path, train=MIXED, num_train_epochs=8, per_device_train_batch_size=10)
    assert run.weights[40:100].mean() > 2 * run.weights[:40].mean()


def test_the_weights_of_a_step_do_not_depend_on_its_micro_batches(tmp_path: Path) -> None:
    def weights(size: int, accumulated: int) -> Tensor:
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulated}
        run = trained(tmp_path, train=MIXED, num_train_epochs=6, **settings)
        return run.weights  # type: ignore[no-any-return]

    whole = weights(20, 1)
    assert whole.std() > 0.1
    torch.testing.assert_close(weights(4, 5), whole, rtol=1e-3, atol=1e-3)


class WholeStep(Matched):
    whole_step = True


class WholeStepByDefault(Weighted):
    whole_step = True


@pytest.mark.parametrize(
    ("kind", "collator"),
    [(WholeStep, padded), (WholeStep, DataCollatorWithFlattening()), (WholeStepByDefault, padded)],
    ids=["padded", "joined", "default"],
)
def test_an_accumulated_step_with_weights_of_the_whole_step(tmp_path: Path, kind: Any, collator: Any) -> None:
    """It is that of one batch, also where the last micro-batches of an epoch are smaller (22 sequences)."""

    def run(size: int, accumulated: int, kind: Any) -> Any:
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulated}
        settings |= {"num_train_epochs": 2, "optim": "sgd", "learning_rate": 0.5, "data_collator": collator}
        return trained(tmp_path, kind, train=UNCOUNTED, **settings)

    parts, whole = run(4, 3, kind), run(12, 1, kind)
    torch.testing.assert_close(parts.weights, whole.weights, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts.model.state_dict(), whole.model.state_dict(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(logged(parts), logged(whole), rtol=1e-5, atol=1e-5)
    assert parts.method.summary().steps == 4
    if kind is WholeStep:
        assert (run(4, 3, Matched).weights - whole.weights).abs().max() > 0.01


def test_methods_without_weights_of_the_whole_step(tmp_path: Path) -> None:
    class Drawn(WholeStep):
        def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> Any:
            return Random(model, ClassLosses(), val_set, num_train, forward=self.outputs_and_targets)

    with pytest.raises(TypeError, match="whole_step needs ADIW, which has look_ahead, got Random"):
        trained(tmp_path, Drawn)


# Joined sequences (no padding).


def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=20, max_position_embeddings=16, use_cache=False, **sizes))


@pytest.mark.parametrize("net", [model, llama])
@pytest.mark.parametrize("start", [0, 2])
def test_joined_sequences_have_the_losses_of_padded_ones(net: Any, start: int) -> None:
    flat = CollateWithIndex(DataCollatorWithFlattening(position_ids_start=start))
    samples = [{**sample, "index": i} for i, sample in enumerate(SAMPLES[:5])]
    network, criterion = net().eval(), ClassLosses()
    losses = []
    for collator in (flat, CollateWithIndex(padded)):
        batch = collator(samples)
        if start and "position_ids" not in batch:
            batch["position_ids"] = torch.arange(start, start + batch["input_ids"].shape[1]).expand(5, -1)
        outputs, targets = classify(network, batch)
        targets = adiw.integrations.token_losses.by_sequence(targets, batch, 5)
        losses.append(adiw.reweighting.loss_shapes.per_sample_losses(criterion, outputs, targets))
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)
    assert len(losses[0].unique()) == 5


def test_joined_sequences_keep_their_index(tmp_path: Path) -> None:
    def run(collator: Any) -> Any:
        return trained(tmp_path, Matched, train=UNCOUNTED, data_collator=collator, num_train_epochs=3)

    joined, apart = run(DataCollatorWithFlattening()), run(padded)
    torch.testing.assert_close(joined.weights, apart.weights, rtol=1e-3, atol=1e-3)
    assert joined.weights.std() > 0.01


def test_joined_sequences_that_cannot_be_told_apart() -> None:
    def collate(samples: list[Any], collator: Any) -> Any:
        return CollateWithIndex(collator)([{**sample, "index": i} for i, sample in enumerate(samples)])

    with pytest.raises(ValueError, match=r"made 1 rows of 3 samples, without position_ids that give the start"):
        collate(SAMPLES[:3], DataCollatorWithFlattening(return_position_ids=False))
    with pytest.raises(ValueError, match=r"3 samples became 2 sequences: leave out empty samples"):
        collate([*SAMPLES[:2], {"input_ids": [], "labels": []}], DataCollatorWithFlattening())

    def pack(samples: list[Any]) -> Any:
        batch = DataCollatorWithFlattening()(samples)
        batch["position_ids"][0, 2] = 0  # one sample has two sequences
        return batch

    with pytest.raises(ValueError, match=r"3 samples became 4 sequences: .*samples that are packed rows already"):
        collate(SAMPLES[:3], pack)


# Wrapped models.


def test_lora(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs peft")
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=4, target_modules=["c_attn"], fan_in_fan_out=True)
    net = peft.get_peft_model(model(), config)
    assert predicts_next(net)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    run = trained(tmp_path, Matched, net=net, num_train_epochs=3)
    changed = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    assert run.weights.std() > 0.001


def test_a_compiled_model_has_the_same_weights(tmp_path: Path) -> None:
    same = {"train": counting(20, step=1), "num_train_epochs": 2, "per_device_train_batch_size": 10}
    compiled = trained(tmp_path, Matched, torch_compile=True, torch_compile_backend="eager", **same)
    plain = trained(tmp_path, Matched, **same)
    assert predicts_next(torch.compile(model(), backend="eager"))
    torch.testing.assert_close(compiled.weights, plain.weights, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(compiled.model.state_dict(), plain.model.state_dict(), rtol=1e-4, atol=1e-4)
    assert plain.weights.std() > 0.01


def test_models_whose_labels_are_not_shifted() -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = torch.compile(model(), backend="eager")

    assert predicts_next(Wrapper())  # as DistributedDataParallel holds its model
    assert not predicts_next(nn.Linear(2, 2))
    config = transformers.T5Config(d_model=2, num_layers=1, d_ff=2, num_heads=1, d_kv=2, vocab_size=3)
    assert not predicts_next(transformers.T5ForConditionalGeneration(config))


# Bad input.


def test_a_batch_without_any_label_adds_nothing(tmp_path: Path) -> None:
    empty = [{**sample, "labels": [-100] * len(sample["labels"])} for sample in SAMPLES]
    run = trained(tmp_path, train=empty)
    assert logged(run) == [0.0] * 12
    torch.testing.assert_close(run.model.state_dict(), model().state_dict(), rtol=0, atol=0)
    assert run.weights.tolist() == [1.0] * 22
    assert run.method.summary().nonfinite_train == 0


def test_samples_without_labels_keep_their_weight(tmp_path: Path) -> None:
    some = [*SAMPLES[:-3], {"input_ids": [], "labels": []}, {"input_ids": [3], "labels": [3]}]
    run = trained(tmp_path, Matched, train=some, num_train_epochs=3)
    assert run.weights[-2:].tolist() == [1.0, 1.0]
    assert run.weights.std() > 0.01
    assert all(parameter.isfinite().all() for parameter in run.model.parameters())


def test_sequences_that_are_all_empty(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"labels are \(4, 0\): leave out sequences of length zero"):
        trained(tmp_path, train=[{"input_ids": [], "labels": []}] * 4)


def test_trusted_samples_without_labels(tmp_path: Path) -> None:
    class Unlabelled(Weighted):
        trusted_set = [{"input_ids": [1, 2], "labels": [-100, -100]}] * 6

    with pytest.raises(ValueError, match="no trusted sample has a label that counts"):
        trained(tmp_path, Unlabelled)


def test_logits_in_another_layout() -> None:
    with pytest.raises(
        ValueError, match=r"expected logits \(\.\.\., classes\) for labels .*\(2, 5, 3\) and \(2, 3\)"
    ):
        ClassLosses()(torch.zeros(2, 5, 3), torch.zeros(2, 3, dtype=torch.long))
