"""trl's SFTTrainer: its own preparation of text, its loss, training without padding; what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

trl = pytest.importorskip("trl", reason="needs trl")
from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from torch import nn  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast  # noqa: E402

from adiw.integrations.huggingface import ADIW, ClassLosses, ReweightingMixin  # noqa: E402

WORDS = ["[PAD]", "[EOS]", *(f"w{i}" for i in range(18))]


def texts(count: int, step: int, seed: int) -> Dataset:
    """Prompts and completions in which each word is ``step`` words behind the last one."""
    made = torch.Generator().manual_seed(seed)
    starts, lengths = torch.randint(18, (count,), generator=made), torch.randint(4, 8, (count,), generator=made)
    rows = [
        [f"w{(start + step * i) % 18}" for i in range(length)]
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    return Dataset.from_list([{"prompt": row[0], "completion": " " + " ".join(row[1:])} for row in rows])


TRUSTED = texts(20, step=1, seed=0)


def model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    special = {"eos_token_id": 1, "bos_token_id": 1}
    return GPT2LMHeadModel(GPT2Config(**sizes, **special, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[PAD]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", eos_token="[EOS]")


class Weighted(ReweightingMixin, trl.SFTTrainer):  # type: ignore[misc]
    trusted_set = TRUSTED
    join_trusted = True


class Unweighted(Weighted):
    """All steps are warm-up, in which weights are one."""

    join_trusted = False

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> ADIW:
        forward = self.outputs_and_targets
        return ADIW(model, ClassLosses(), val_set, num_train, warmup_steps=10**6, forward=forward)


def trainer(folder: Path, kind: Any = Weighted, train: Any = None, peft_config: Any = None, **settings: Any) -> Any:
    settings = {"num_train_epochs": 2, "per_device_train_batch_size": 10, "learning_rate": 1e-2, **settings}
    fixed = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "bf16": False, "save_strategy": "no"}
    args = trl.SFTConfig(folder, logging_steps=1, gradient_checkpointing=False, **fixed, **settings)
    train = texts(30, step=1, seed=1) if train is None else train
    more = {"processing_class": tokenizer(), "peft_config": peft_config}
    return kind(model(), args, train_dataset=train, **more)


def trained(*args: Any, **settings: Any) -> Any:
    run = trainer(*args, **settings)
    run.train()
    return run


def logged(run: Any) -> list[float]:
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


def mixed() -> Dataset:
    from datasets import concatenate_datasets

    return concatenate_datasets([texts(40, step=5, seed=2), texts(60, step=1, seed=3)])


@pytest.mark.parametrize(("accumulated", "free"), [(1, False), (4, False), (4, True)])
def test_weights_of_one_train_as_its_own_loss(tmp_path: Path, accumulated: int, free: bool) -> None:
    settings = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": accumulated, "optim": "sgd"}
    settings |= {"padding_free": True, "max_length": None} if free else {}
    ours, theirs = trained(tmp_path, Unweighted, **settings), trained(tmp_path, trl.SFTTrainer, **settings)
    torch.testing.assert_close(logged(ours), logged(theirs), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.model.state_dict(), theirs.model.state_dict(), rtol=1e-5, atol=1e-5)
    assert len(logged(ours)) == 2 * -(-8 // accumulated)


FREE = {"padding_free": True, "max_length": None}
PACKED = {"packing": True, "max_length": 16}


@pytest.mark.parametrize(("settings", "epochs"), [({}, 6), (FREE, 6), (PACKED, 20)], ids=["padded", "free", "packed"])
def test_weights_are_higher_for_sequences_like_the_trusted(tmp_path: Path, settings: Any, epochs: int) -> None:
    run = trained(tmp_path, train=mixed(), num_train_epochs=epochs, **settings)
    assert len(run.weights) == len(run.train_dataset) == 120
    assert run.weights[40:100].mean() > 1.5 * run.weights[:40].mean()
    assert "weights/ess" in run.state.log_history[-2]
    first = run.audit().order[:20]
    assert (first < 40).mean() > 0.9  # of the sequences that follow another step


class Matched(Unweighted):
    """A divergence gives other weights than one from the first step on, which depend on the whole batch."""

    def make_reweight(self, model: nn.Module, val_set: Any, num_train: int) -> ADIW:
        forward = self.outputs_and_targets
        return ADIW(model, ClassLosses(), val_set, num_train, "kl", warmup_steps=0, forward=forward, cautious=False)


@pytest.mark.parametrize("kind", [Unweighted, Matched])
def test_packed_sequences_are_trained_as_those_that_are_not(tmp_path: Path, kind: Any) -> None:
    """All sequences are in each batch, so that it does not matter which are in a row."""
    whole = {"per_device_train_batch_size": 30, "num_train_epochs": 3, "optim": "sgd", "learning_rate": 0.5}
    packed, apart = (trained(tmp_path, kind, **whole, **how) for how in (PACKED, FREE))
    assert len(packed.get_train_dataloader().dataset) < len(packed.train_dataset) == len(packed.weights) == 30
    torch.testing.assert_close(logged(packed), logged(apart), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(packed.weights, apart.weights, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed.model.state_dict(), apart.model.state_dict(), rtol=1e-4, atol=1e-5)
    assert (packed.weights.std() > 0.01) == (kind is Matched)


def test_packed_rows_with_weights_of_the_whole_optimizer_step(tmp_path: Path) -> None:
    class WholeStep(Matched):
        whole_step = True

    def run(size: int, accumulated: int, kind: Any = WholeStep) -> Any:
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": accumulated}
        return trained(tmp_path, kind, **settings, **PACKED, optim="sgd", learning_rate=0.5)

    parts, whole = run(2, 3), run(6, 1)
    torch.testing.assert_close(logged(parts), logged(whole), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(parts.weights, whole.weights, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(parts.model.state_dict(), whole.model.state_dict(), rtol=1e-4, atol=1e-5)
    assert (run(2, 3, Matched).weights - whole.weights).abs().max() > 0.01


def test_weights_of_one_have_the_loss_of_trl_for_packed_rows(tmp_path: Path) -> None:
    whole = {"per_device_train_batch_size": 30, "num_train_epochs": 3, "optim": "sgd", "learning_rate": 0.5}
    ours, theirs = (trained(tmp_path, kind, **whole, **PACKED) for kind in (Unweighted, trl.SFTTrainer))
    torch.testing.assert_close(logged(ours), logged(theirs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, FREE], ids=["padded", "free"])
def test_a_stream_of_sequences(tmp_path: Path, settings: Any) -> None:
    """Those that come first have the weights that they have with an index."""

    class Sequential(Matched):
        join_trusted = False

    settings = {"max_steps": 3, "shuffle_dataset": False, "train_sampling_strategy": "sequential", **settings}
    run = trained(tmp_path, Sequential, train=mixed().to_iterable_dataset(), **settings)
    indexed = trained(tmp_path, Sequential, train=mixed(), **settings)
    torch.testing.assert_close(run.weights[:30], indexed.weights[:30], rtol=1e-4, atol=1e-5)
    assert run.weights[:30].std() > 0.001
    torch.testing.assert_close(logged(run), logged(indexed), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="packing=True needs a training set with a length"):
        trainer(tmp_path, Sequential, train=mixed().to_iterable_dataset(), max_steps=3, **PACKED).train()


def test_lora(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs peft")
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=8, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    run = trained(tmp_path, train=mixed(), peft_config=config, num_train_epochs=4)
    assert len(run.weights) == 120
    assert logged(run)[-1] < logged(run)[0]


def test_what_is_refused(tmp_path: Path) -> None:
    for strategy in ("wrapped", "bfd_split"):
        with pytest.raises(ValueError, match=rf'packing_strategy="{strategy}" cuts sequences into pieces.*use "bfd"'):
            trainer(tmp_path, **PACKED, packing_strategy=strategy).train()
    with pytest.raises(ValueError, match='loss_type="dft" would not be used: override make_reweight'):
        trainer(tmp_path, loss_type="dft").train()
