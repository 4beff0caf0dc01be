"""What a model needs beside weights and keys and values: activations, decoder and logits buffers, contexts.

The constants are fitted to logs that TensorRT-LLM printed, not to a run of ours:

* documentation, legacy/reference/memory.md: Llama-2-7B fp8, 256 sequences of 2048 (the figures fit no other batch):
  1134 MiB context memory, 43.29 MiB runtime buffers, 180.30 MiB decoder, 792 MiB for CUDA and libraries;
* NVIDIA/TensorRT-LLM#1188: Qwen2.5-0.5B int8, batch 2048, 8192 tokens: 773.51 MiB, 2.66 GiB, 5.76 GiB; with
  batch 1 and 512 tokens 43.26 MiB context memory;
* benchmarks/README of 0.12: a 28-layer, 4096-wide fp8 model (GPT-J 6B by its figures), batch 4096, 8192 tokens:
  928.77 MiB, 1.14 GiB, 4.35 GiB.

Runtime buffers come out within 6 % of all three, the decoder within 13 %, activations between 5 % below and 10 % above;
for the fp8 log of 0.12 they are twice what was logged, as newer versions take more for fp8 and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trtspec.planning.items import Item, Kind
from trtspec.planning.shapes import ModelShape
from trtspec.rules.sizes import decoder_buffer_bytes
from trtspec.spec import Spec
from trtspec.spec.names import Role
from trtspec.toolchain.sizes import engine_sizes as written_sizes
from trtspec.units import bytes_text

__all__ = [
    "BEAMS",
    "CONTEXT_BYTES",
    "NCCL_BYTES",
    "SHM_PER_PYTHON_MODEL",
    "EngineSizes",
    "activation_item",
    "buffer_items",
    "context_item",
    "driver_item",
    "engine_sizes",
    "host_items",
    "nccl_item",
    "triton_item",
]

BEAMS = 1  # draft-target speculation has no beam search
CONTEXT_BYTES = 792 << 20  # documentation's log: total - free - everything that is named
NCCL_BYTES = 400 << 20
SHM_PER_PYTHON_MODEL = 64 << 20  # triton-inference-server/server#3678
_WORKSPACE = 32 << 20  # of the matrix products
_FP8_FACTOR = 2.25
_SAMPLING_COPIES = 5.5
_SAMPLING_STATE = 40 << 10
_POSITIONS_PER_TOKEN = 6
_TRITON_POOL = 64 << 20
_PINNED_POOL = 256 << 20
_DRIVER_SHARE = 0.007
_LOGITS_STEPS = 8


@dataclass(frozen=True)
class EngineSizes:
    """Sizes that an engine is built with, as its config.json records them (draft tokens included)."""

    max_batch_size: int
    max_seq_len: int
    max_num_tokens: int
    max_draft_len: int
    tokens_per_block: int
    logits_bytes: int = 4

    @property
    def rows(self) -> int:
        """Positions whose logits one pass gives at most: batch × (draft + 1)."""
        return self.max_batch_size * (self.max_draft_len + 1) * BEAMS


def engine_sizes(spec: Spec, role: Role, max_seq_len: int) -> EngineSizes:
    """The sizes of a role's engine for requests of `max_seq_len` tokens.

    As the builder writes them (`trtspec.toolchain.sizes`); the torch runtime lifts max_num_tokens in the same way, but
    neither caps it nor rounds it up to a block.
    """
    build, written = spec.build, written_sizes(spec, role, max_seq_len).written
    tokens = written.max_num_tokens
    if spec.runtime == "torch":
        verified = build.max_batch_size * (written.max_draft_len + 1) if written.max_draft_len else 0
        tokens = max(build.max_num_tokens, verified)
    return EngineSizes(
        max_batch_size=written.max_batch_size,
        max_seq_len=written.max_seq_len,
        max_num_tokens=tokens,
        max_draft_len=written.max_draft_len,
        tokens_per_block=build.tokens_per_block,
        logits_bytes=2 if build.logits_dtype == "float16" else 4,
    )


def activation_item(role: Role, shape: ModelShape, sizes: EngineSizes) -> Item:
    """Memory of one execution context: 2 × (MLP width / tp + hidden) × max_num_tokens, logits rows, a workspace.

    TensorRT fixes it at build time for the largest shapes; it is about linear in max_num_tokens, holds one block's
    tensors at a time, and is larger with fp8 (TensorRT-LLM docs/source/legacy/reference/memory.md). An estimate: the
    true figure is `ICudaEngine.device_memory_size_v2`.
    """
    factor = _FP8_FACTOR if shape.quantization == "fp8" else 1.0
    width = shape.intermediate // shape.tp + shape.hidden
    tokens = round(2 * width * 2 * sizes.max_num_tokens * factor)
    rows = sizes.rows * shape.vocab_padded * 2
    inner = f"{shape.intermediate}/{shape.tp}" if shape.tp > 1 else str(shape.intermediate)
    fp8 = f" × {_FP8_FACTOR} (fp8)" if factor != 1.0 else ""
    formula = (
        f"2 × ({inner} + {shape.hidden}) × {sizes.max_num_tokens} tokens × 2 B{fp8}"
        f" + {sizes.rows} rows × {shape.vocab_padded} × 2 B + {bytes_text(_WORKSPACE)}"
    )
    return Item(role, "activations", "execution context", tokens + rows + _WORKSPACE, formula, estimate=True)


def buffer_items(role: Role, shape: ModelShape, sizes: EngineSizes, *, logits: bool) -> Iterator[Item]:
    """The buffers of sampling and logits on each rank of the last pipeline stage.

    `logits`: acceptance by logits, which keeps the draft's logits and hands them to the target. Sources: the decoder
    state of draft_tokens_external holds two float32 tensors of max_batch × (max_draft_len + 1) × beams × vocabulary
    (cpp/tensorrt_llm/runtime/decoderState.cpp); the others are fitted, see the module.
    """
    batch, vocab = sizes.max_batch_size, shape.vocab_padded
    make = _maker(role, "decoder_buffers")
    if sizes.max_draft_len:
        pair = decoder_buffer_bytes(batch, sizes.max_draft_len, vocab, BEAMS)
        formula = f"2 × batch {batch} × (draft {sizes.max_draft_len} + 1) × {BEAMS} beam × vocabulary {vocab} × 4 B"
        yield make("draft and target probabilities", pair, formula)
    sampling = round(batch * (_SAMPLING_COPIES * vocab * 4 + _SAMPLING_STATE))
    formula = f"batch {batch} × ({_SAMPLING_COPIES} × vocabulary {vocab} × 4 B + {bytes_text(_SAMPLING_STATE)})"
    yield make("sampling", sampling, formula, estimate=True)
    out = sizes.rows * vocab * sizes.logits_bytes + _POSITIONS_PER_TOKEN * batch * sizes.max_seq_len * 4
    formula = (
        f"{sizes.rows} rows × vocabulary {vocab} × {sizes.logits_bytes} B"
        f" + {_POSITIONS_PER_TOKEN} × batch {batch} × {sizes.max_seq_len} tokens × 4 B"
    )
    yield make("logits and token tables", out, formula, estimate=True)
    if logits and role != "baseline":
        steps = max(_LOGITS_STEPS, sizes.max_draft_len)
        kept = steps * batch * vocab * sizes.logits_bytes
        formula = f"{steps} steps × batch {batch} × vocabulary {vocab} × {sizes.logits_bytes} B"
        yield make("generation logits (acceptance: logits)", kept, formula, estimate=True)


def _maker(role: Role, kind: Kind) -> Callable[..., Item]:
    def make(name: str, size: int, formula: str, *, estimate: bool = False) -> Item:
        return Item(role, kind, name, size, formula, estimate)

    return make


def context_item(role: str, processes: int = 1) -> Item:
    """CUDA context and the libraries of `processes` server processes on one GPU."""
    each = bytes_text(CONTEXT_BYTES)
    what = f"{processes} processes × {each}" if processes > 1 else f"1 process × {each}"
    return Item(role, "runtime", "CUDA context and libraries", processes * CONTEXT_BYTES, what, estimate=True)


def driver_item(total: int) -> Item:
    """What the driver keeps of a GPU's `total` bytes: an H100 has 81559 MiB for nvidia-smi, 79.10 GiB for programs."""
    size = round(total * _DRIVER_SHARE)
    formula = f"{_DRIVER_SHARE:.1%} of {bytes_text(total)}"
    return Item("server", "runtime", "kept by the driver", size, formula, estimate=True)


def nccl_item(role: Role, shape: ModelShape) -> Item | None:
    """Communication buffers of a rank; None for a single rank.

    NCCL keeps 4 MiB a channel, connection and protocol, more with NVLink than with PCIe (NVIDIA/nccl#864, #986).
    """
    if shape.world_size == 1:
        return None
    formula = f"about {bytes_text(NCCL_BYTES)} a rank of {shape.world_size}"
    return Item(role, "runtime", "NCCL and all-reduce buffers", NCCL_BYTES, formula, estimate=True)


def triton_item() -> Item:
    """Triton's CUDA memory pool on each visible GPU (--cuda-memory-pool-byte-size, 64 MiB by default)."""
    return Item("server", "runtime", "Triton's CUDA pool", _TRITON_POOL, "64 MiB a GPU, Triton's default")


def host_items(python_models: int) -> tuple[Item, ...]:
    """System memory of a server with `python_models` Python model instances: pinned pool and shared memory."""
    shm = python_models * SHM_PER_PYTHON_MODEL
    formula = f"{python_models} Python model instances × {bytes_text(SHM_PER_PYTHON_MODEL)}"
    return (
        Item("server", "runtime", "pinned memory pool", _PINNED_POOL, "256 MiB, Triton's default"),
        Item("server", "runtime", "shared memory (/dev/shm)", shm, formula, estimate=True),
    )
