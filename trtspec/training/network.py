"""What training needs of a causal language model of any family: hidden states, head, and its vocabulary's rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as fn

from trtspec.errors import CheckpointError

__all__ = ["Weights", "hidden_states", "require_plain_head", "scores", "vocabulary_rows", "with_vocabulary"]

Weights = dict[str, Tensor]
_SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")


def hidden_states(network: Any, tokens: Tensor) -> Tensor:
    """What the head reads, [B, T, hidden]; ``tokens`` [B, T] may be padded on the right."""
    hidden: Tensor = network.base_model(input_ids=tokens, use_cache=False).last_hidden_state
    return hidden


def scores(network: Any, hidden: Tensor, rows: Tensor | None = None) -> Tensor:
    """Scores [N, V] of hidden states [N, hidden], or [N, R] of the tokens ``rows`` [R] only."""
    head = network.get_output_embeddings()
    bias = getattr(head, "bias", None)
    if rows is None:
        return fn.linear(hidden, head.weight, bias)
    return fn.linear(hidden, head.weight.index_select(0, rows), None if bias is None else bias.index_select(0, rows))


@torch.inference_mode()
def require_plain_head(network: Any, where: str) -> None:
    """CheckpointError unless the network's scores are its head times its hidden states.

    Some families cap or scale their scores behind the head; training them this way would teach other scores.
    """
    ids = torch.arange(3, 11, device=network.device)[None] % network.config.vocab_size
    whole = network(input_ids=ids, use_cache=False).logits.float()
    ours = scores(network, hidden_states(network, ids)).float()
    if not torch.allclose(whole, ours, rtol=1e-3, atol=1e-3 * float(whole.abs().max())):
        message = f"{type(network).__name__} changes its scores behind the head, which distill cannot train"
        raise CheckpointError(message, where=where, fix="start from scratch: --layers, --hidden")


def vocabulary_rows(network: Any) -> Weights:
    """Name → parameter with one row for each token: embedding, head and its bias (tied ones under both names)."""
    modules = (network.get_input_embeddings(), network.get_output_embeddings())
    wanted = {id(parameter) for module in modules if module is not None for parameter in module.parameters()}
    named = network.named_parameters(remove_duplicate=False)
    return {name: parameter.detach() for name, parameter in named if id(parameter) in wanted}


def with_vocabulary(network: Any, rows: Mapping[str, Tensor], special: Mapping[str, Any]) -> Any:
    """A copy of the network over another vocabulary: its rows are ``rows`` (see `vocabulary_rows`).

    ``special`` are the ids of special tokens there. They are left out while training: ids of a restricted vocabulary
    are not the tokenizer's, and the embedding of a padding token would get no gradient.
    """
    config = copy.deepcopy(network.config)
    config.vocab_size = len(next(iter(rows.values())))
    for name in _SPECIAL:
        setattr(config, name, special.get(name))
    other = type(network)(config)
    other.load_state_dict({**network.state_dict(), **rows})
    return other.train(mode=False)
