"""Any decoder that transformers runs through its attention interface, with packed passes.

transformers computes everything but attention and scheduling; linear layers are replaced by prepacked ones on a CPU.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from trtspec.torch_runtime.attention import PackedAttention, PackedBatch
from trtspec.torch_runtime.compiled import CompiledLayers, padded_rows
from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.errors import EngineUnsupported
from trtspec.torch_runtime.kv import KVShape, SequenceKV
from trtspec.torch_runtime.linear import Linear, Weights, best_packing, over_rows, pack_linear

__all__ = ["GenericModel"]

_NAME = "trtspec_packed"
_HANDLED = frozenset({"dropout", "scaling", "sliding_window"})
_PROBE = 8  # tokens of the comparison with eager attention
_current = threading.local()


class GenericModel:
    """A transformers causal LM whose attention is `PackedAttention`.

    Loading compares a packed pass with transformers' own eager attention: a network that bypasses the attention
    interface, or needs more than causal attention over its own keys and values, is refused.
    """

    def __init__(self, model: Any, device: torch.device) -> None:
        config = model.config.get_text_config()
        self._model = model
        self._compiled: CompiledLayers | None = None
        self._heads: int = config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        self.kv_shape = KVShape(config.num_hidden_layers, kv_heads, head_dim, model.dtype, device)
        self.vocab_size: int = config.vocab_size

    @staticmethod
    def load(
        folder: Path,
        dtype: torch.dtype,
        device: torch.device,
        *,
        trust_remote_code: bool = False,
        options: RuntimeOptions | None = None,
    ) -> GenericModel:
        """The model in an engine folder; EngineUnsupported when packed passes would be wrong."""
        chosen = options or RuntimeOptions()
        from transformers import AutoModelForCausalLM
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        ALL_ATTENTION_FUNCTIONS.register(_NAME, _attend)
        model: Any = AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=dtype,
            attn_implementation="eager",
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
        )
        model = model.to(device).eval()
        generic = GenericModel(model, device)
        generic._check()
        if device.type == "cpu":
            _pack_linears(model, chosen.weights)
        elif chosen.compile:
            generic.compile_layers()
        return generic

    def compile_layers(self, backend: str = "inductor") -> None:
        """Compile the layers at the next pass; a failure then switches it off again."""
        self._compiled = CompiledLayers(self._model, backend)

    @property
    def compiled(self) -> bool:
        """Whether layers are compiled, or will be at the next pass."""
        return self._compiled is not None

    def forward(self, batch: PackedBatch) -> Tensor:
        """Logits [n, vocab] of the wanted rows; the sequences of `batch` get the keys and values of this pass."""
        logits = self._computed(batch)
        batch.commit()
        return logits

    def _computed(self, batch: PackedBatch) -> Tensor:
        if self._compiled is None:
            return self._pass(batch, batch.tokens, batch.positions)
        try:
            self._compiled.begin(self.kv_shape.device)
            missing = padded_rows(len(batch.tokens)) - len(batch.tokens)
            return self._pass(batch, *(pad(rows, (0, missing)) for rows in (batch.tokens, batch.positions)))
        except Exception as error:  # noqa: BLE001 - whatever a compiler raises; the pass is computed again without it
            self._compiled.undo(error)
            self._compiled = None
            return self._computed(batch)

    def _pass(self, batch: PackedBatch, tokens: Tensor, positions: Tensor) -> Tensor:
        """One pass of the network, over the rows of `batch` and perhaps some more whose results are dropped."""
        _current.attention = PackedAttention(batch, self.kv_shape, self._heads)
        try:
            output = self._model(
                input_ids=tokens[None],
                position_ids=positions[None],
                use_cache=False,
                logits_to_keep=batch.logit_rows,
            )
        finally:
            _current.attention = None
        logits: Tensor = output.logits[0].float()
        return logits

    def _check(self) -> None:
        name = type(self._model).__name__
        tokens = [(7 * index + 3) % self.vocab_size for index in range(_PROBE)]
        with torch.inference_mode():
            ids = torch.tensor([tokens], device=self.kv_shape.device)
            expected = self._model(input_ids=ids, use_cache=False).logits[0].float()
            try:
                self._model.set_attn_implementation(_NAME)
                packed = self._packed_probe(tokens)
            except Exception as error:
                raise EngineUnsupported(f"the torch runtime cannot run {name}: {error}") from error
        tolerance = 1e-3 if self.kv_shape.dtype == torch.float32 else 0.1
        if not torch.allclose(packed, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())):
            raise EngineUnsupported(
                f"the torch runtime cannot run {name}: packed attention gives other logits than transformers does "
                "(it does not use transformers' attention interface as Llama does)"
            )

    def _packed_probe(self, tokens: list[int]) -> Tensor:
        """Logits of `tokens` computed in two chunks beside another sequence."""
        split = len(tokens) // 2
        device = self.kv_shape.device
        first, second = SequenceKV(self.kv_shape), SequenceKV(self.kv_shape)
        begin = self.forward(PackedBatch.build([(second, tokens[1:4]), (first, tokens[:split])], [0, split], device))
        rest = tokens[split:]
        end = self.forward(PackedBatch.build([(first, rest), (second, tokens[:2])], [len(rest), 0], device))
        return torch.cat((begin, end))


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """transformers' attention interface: query [1, heads, T, dim], key and value [1, kv_heads, T, dim]."""
    del attention_mask
    unknown = sorted(
        name
        for name in ("softcap", "s_aux", "position_bias", "head_mask")
        if options.get(name) is not None and name not in _HANDLED
    )
    if unknown:
        raise ValueError(f"attention with {', '.join(unknown)} is not supported")
    attention: PackedAttention = _current.attention
    rows = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
    scale = options.get("scaling") or query.shape[-1] ** -0.5
    output = attention.attend(module.layer_idx, rows[0], (rows[1], rows[2]), scale, options.get("sliding_window"))
    return output.view(1, query.shape[2], query.shape[1], -1), None


class _PackedLinear(nn.Module):
    """A prepacked `nn.Linear`."""

    def __init__(self, linear: nn.Linear, weights: Weights) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        weight = linear.weight.detach()
        self._apply_rows: Linear = pack_linear(weight, bias, best_packing(weight, weights))
        self.out_features = linear.out_features

    def forward(self, rows: Tensor) -> Tensor:
        return over_rows(self._apply_rows, rows)


def _pack_linears(model: nn.Module, weights: Weights) -> None:
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, _PackedLinear(child, weights))
