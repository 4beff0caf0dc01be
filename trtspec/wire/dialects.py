"""How one kind of Triton model is spoken to, whatever the protocol, and finding out which kind it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from trtspec.errors import UsageError
from trtspec.spec.names import FRONTEND_MODEL, TARGET_MODEL
from trtspec.wire.frontend import ChunkReader, frontend_inputs
from trtspec.wire.inputs import Input
from trtspec.wire.messages import Chunk, FrontendRequest
from trtspec.wire.nvidia import LlmapiReader, StockReader, declared, llmapi_inputs, stock_inputs
from trtspec.wire.outputs import NamedOutputs
from trtspec.wire.probe import ModelTensors

__all__ = ["Dialect", "Reader", "choose_dialect"]

_ENSEMBLE = "ensemble"
_ONE_PIECE = "NVIDIA's BLS answers a speculative request once, at the end"
_NOT_DECOUPLED = "the model is not decoupled: it answers once, at the end"


class Reader(Protocol):
    """Makes chunks of the responses of one stream."""

    def chunk(self, t_ns: int, outputs: NamedOutputs, *, final: bool) -> Chunk:
        """The chunk of one response."""
        ...


@dataclass(frozen=True)
class Dialect:
    """`inputs` and `reader` of requests to `model`; `ends_with_reason`: its last response says why it ended."""

    kind: str
    model: str
    inputs: Callable[[FrontendRequest], list[Input]]
    reader: Callable[[FrontendRequest], Reader]
    batched: bool = True
    ends_with_reason: bool = False
    counts_tokens: bool = False

    def one_piece(self, configuration: Mapping[str, Any]) -> str | None:
        """Why the model cannot stream, by its configuration; None when it can."""
        policy = configuration.get("model_transaction_policy") or {}
        if self.kind != "nvidia-ensemble" and configuration and not policy.get("decoupled"):
            return _NOT_DECOUPLED
        draft = (configuration.get("parameters") or {}).get("tensorrt_llm_draft_model_name") or {}
        return _ONE_PIECE if self.kind == "nvidia-bls" and draft.get("string_value") else None


def _frontend(kind: str, model: str) -> Dialect:
    return Dialect(kind, model, frontend_inputs, _frontend_reader, ends_with_reason=True, counts_tokens=True)


def _frontend_reader(_request: FrontendRequest) -> Reader:
    return ChunkReader()


def _stock(kind: str, model: str, tensors: ModelTensors | None) -> Dialect:
    inputs = stock_inputs if tensors is None else partial(_declared, stock_inputs, frozenset(tensors.inputs))
    return Dialect(kind, model, inputs, StockReader)


def _llmapi(kind: str, model: str, tensors: ModelTensors | None) -> Dialect:
    inputs = llmapi_inputs if tensors is None else partial(_declared, llmapi_inputs, frozenset(tensors.inputs))
    return Dialect(kind, model, inputs, LlmapiReader, batched=False, ends_with_reason=True)


def _declared(
    inputs: Callable[[FrontendRequest], list[Input]], names: frozenset[str], request: FrontendRequest
) -> list[Input]:
    return declared(inputs(request), names)


Lookup = Callable[[str], Awaitable[ModelTensors | None]]


async def choose_dialect(kind: str, model: str | None, own: str, lookup: Lookup) -> Dialect:
    """The dialect of `kind`; for "auto" that of `model`, or of the first of NVIDIA's names that the server has.

    own: the kind of trtspec's frontend over this protocol. lookup: a model's tensors, None when it is not there.
    UsageError when no model that is known is there.
    """
    if kind == own:
        return _frontend(own, model or FRONTEND_MODEL)
    if kind != "auto":
        name = model or {"nvidia-ensemble": _ENSEMBLE, "llmapi": TARGET_MODEL}.get(kind, FRONTEND_MODEL)
        return _NVIDIA[kind](kind, name, await lookup(name))
    for name in (model,) if model else (FRONTEND_MODEL, _ENSEMBLE, TARGET_MODEL):
        tensors = await lookup(name)
        found = None if tensors is None else _recognised(own, name, tensors)
        if found is not None:
            return found
    names = model or f"{FRONTEND_MODEL}, {_ENSEMBLE} or llmapi's {TARGET_MODEL}"
    raise UsageError(
        f"the server has no model that can be load-tested as {names}", fix="--kind KIND, --a-model NAME, --b-model NAME"
    )


_NVIDIA: dict[str, Callable[[str, str, ModelTensors | None], Dialect]] = {
    "nvidia-bls": _stock,
    "nvidia-ensemble": _stock,
    "llmapi": _llmapi,
}


def _recognised(own: str, name: str, tensors: ModelTensors) -> Dialect | None:
    """By what only one of them has; None for a model that takes no text."""
    if "sampling_param_max_tokens" in tensors.inputs:
        return _llmapi("llmapi", name, tensors)
    if "text_input" not in tensors.inputs:
        return None
    if "num_spec_steps" in tensors.outputs:
        return _frontend(own, name)
    return _stock("nvidia-bls" if "num_draft_tokens" in tensors.inputs else "nvidia-ensemble", name, tensors)
