"""The losses of tokens in Hugging Face's layout: classes last, labels not shifted, sequences joined in one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

IGNORED = -100  # labels of padding, prompts and the first token of a sequence


class JoinedLabels(NamedTuple):
    """Labels of n sequences that a data collator without padding joined in one row."""

    labels: Tensor  # (1, tokens)
    positions: Tensor  # (1, tokens), each token's position in its sequence
    rows: int  # n; tokens behind the last sequence only fill the row


class ClassLosses(nn.CrossEntropyLoss):
    """The cross-entropy of logits (n, C) or (n, ..., C), one loss for each label (n, ...).

    Of joined sequences, the losses are (n, tokens), with a mask of those that exist.

    >>> logits = torch.zeros(1, 3, 2)
    >>> ClassLosses()(logits, torch.tensor([[0, 1, -100]]))
    tensor([[0.6931, 0.6931, 0.0000]])
    >>> joined = JoinedLabels(torch.tensor([[0, 1, -100]]), torch.tensor([[0, 0, 1]]), rows=2)
    >>> ClassLosses()(logits, joined)[1]
    tensor([[ True, False, False],
            [ True, False, False]])
    """

    def __init__(self) -> None:
        super().__init__(reduction="none", ignore_index=IGNORED)

    def forward(self, logits: Tensor, labels: Any) -> Any:
        """The loss of each label; of ``JoinedLabels`` a pair (losses, mask)."""
        if isinstance(labels, JoinedLabels):
            return _split(self(logits, labels.labels), labels)
        if logits.shape[:-1] != labels.shape:
            raise ValueError(
                f"expected logits (..., classes) for labels (...), got {tuple(logits.shape)} and "
                f"{tuple(labels.shape)}: override make_reweight and outputs_and_targets for another layout"
            )
        return super().forward(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)).view(labels.shape)


def _split(losses: Tensor, joined: JoinedLabels) -> tuple[Tensor, Tensor]:
    """(losses, mask) of each sequence, (n, tokens), from losses (1, tokens). Reads nothing from the device."""
    position = joined.positions[0] - joined.positions[0, 0]
    sequence = ((position == 0).cumsum(0) - 1).clamp_max(joined.rows)
    shape, counted = (joined.rows + 1, len(position)), joined.labels[0] != IGNORED
    of_sequence = losses.new_zeros(shape).index_put((sequence, position), losses[0])
    mask = torch.zeros(shape, dtype=torch.bool, device=losses.device).index_put((sequence, position), counted)
    return of_sequence[:-1], mask[:-1]


def labels_of(model: nn.Module, batch: Mapping[str, Any]) -> Any:
    """The label that each of the model's outputs is compared with: of a language model, the next token."""
    if "shift_labels" in batch:
        return batch["shift_labels"]
    labels = batch["labels"]
    return pad(labels, (0, 1), value=IGNORED)[:, 1:] if predicts_next(model) else labels


def check_labels(model: nn.Module, batch: Mapping[str, Any]) -> None:
    """Raise if no label of the trusted samples counts."""
    labels = labels_of(model, batch) if "labels" in batch else None
    if isinstance(labels, Tensor) and bool((labels == IGNORED).all()):
        raise ValueError(
            f"no trusted sample has a label that counts: all are {IGNORED}, which marks padding and prompts, or the "
            "sequences have one token, after which there is none to predict"
        )


def predicts_next(model: Any) -> bool:
    """Whether this is a model of transformers whose own loss shifts the labels, also inside wrappers.

    >>> from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel
    >>> predicts_next(GPT2LMHeadModel(GPT2Config(n_embd=2, n_layer=1, n_head=1, vocab_size=3)))
    True
    >>> sizes = {"hidden_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 2}
    >>> predicts_next(BertForSequenceClassification(BertConfig(vocab_size=3, **sizes)))
    False
    """
    from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    while (inner := getattr(model, "_orig_mod", getattr(model, "module", None))) is not None:
        model = inner  # torch.compile and DistributedDataParallel, in either order
    model = model.get_base_model() if hasattr(model, "get_base_model") else model  # peft
    named = {kind.__name__ for kind in type(model).__mro__}.intersection(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    shifts = LOSS_MAPPING.get(getattr(model, "loss_type", None) or "") is ForCausalLMLoss
    return (shifts or bool(named)) and not getattr(getattr(model, "config", None), "is_encoder_decoder", False)


def by_sequence(targets: Any, batch: Mapping[str, Any], count: int) -> Any:
    """``JoinedLabels`` where a data collator joined ``count`` sequences in one row; other targets as they are."""
    joined = isinstance(targets, Tensor) and targets.ndim == 2 and len(targets) == 1 < count
    return JoinedLabels(targets, batch["position_ids"], count) if joined else targets
