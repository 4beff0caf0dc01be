"""The memory that is planned for the torch runtime, against what engines loaded in this process really hold."""

from __future__ import annotations

import ctypes
import gc
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from tests.builders import tiny_checkpoint, toy_spec
from trtspec.building import build_engines
from trtspec.checkpoints import Survey, survey_checkpoint
from trtspec.checkpoints.draft_vocabulary import write_draft_vocabulary
from trtspec.hardware.catalogue import find_gpu
from trtspec.planning.memory import MemoryPlan, memory_plan
from trtspec.planning.plan_rules import plan_findings
from trtspec.planning.torch_weights import cpu_packing, packed_bytes
from trtspec.spec import SpecFile
from trtspec.spec.names import Role
from trtspec.torch_runtime.config import Admission, RuntimeOptions
from trtspec.torch_runtime.errors import EngineUnsupported
from trtspec.torch_runtime.linear import pack_linear
from trtspec.torch_runtime.loading import load_engine, load_model

GIB = 1 << 30
pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this build of PyTorch packs in another way"
)


def surveys(file: SpecFile) -> dict[str, Survey]:
    return {role: survey_checkpoint(file.checkpoint(role)) for role in ("target", "draft")}


def planned(file: SpecFile, memory: int = 16 * GIB) -> MemoryPlan:
    return memory_plan(file, None, surveys(file), system_bytes=memory)


def weights_of(plan: MemoryPlan, role: Role) -> int:
    return plan.per_gpu[0].of(role, "weights")


def options_of(file: SpecFile) -> RuntimeOptions:
    return RuntimeOptions(device="cpu", weights=file.spec.torch.weights, limits=Admission(file.spec.torch.kv_tokens))


def engine_of(file: SpecFile, role: Role) -> Path:
    [engine] = build_engines(file, [role])
    return engine.path


# what a loaded model holds


def held_bytes(model: Any) -> int:
    """Bytes of every tensor and packed matrix that `model` leads to, each once."""
    return sum(dict(_held(model, set())).values())


def _held(thing: Any, seen: set[int]) -> Iterator[tuple[int, int]]:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        yield _place(thing), thing.numel() * thing.element_size()
    elif isinstance(thing, torch.ScriptObject):
        yield id(thing), _packed(thing)
    else:
        for part in _parts(thing):
            yield from _held(part, seen)


def _place(tensor: Tensor) -> int:
    return id(tensor) if tensor.is_mkldnn else tensor.data_ptr()


def _packed(matrix: Any) -> int:
    """FBGEMM's packed matrix tells its shape only when it is unpacked again; its size is tested below."""
    weight = torch.ops.quantized.linear_unpack(matrix)[0]
    outputs, inputs = weight.shape
    return packed_bytes(outputs, inputs, "int8" if weight.dtype == torch.qint8 else "half")


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, dict):
        return list(thing.values())
    if isinstance(thing, list | tuple):
        return list(thing)
    closure = getattr(thing, "__closure__", None)
    if closure:
        return [cell.cell_contents for cell in closure]
    if type(thing).__module__.startswith(("trtspec", "torch.nn", "transformers.models")):
        return list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    return []


class _MallocState(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    )]  # fmt: skip


def allocated() -> int:
    """Bytes that this process has from malloc, as the C library counts them."""
    gc.collect()
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _MallocState
    state = library.mallinfo2()
    return int(state.uordblks + state.hblkhd)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="a C library that does not count")
@pytest.mark.parametrize("packing", ["half", "int8", "onednn"])
@pytest.mark.parametrize(("outputs", "inputs"), [(1024, 1024), (1000, 576), (576, 1536), (4096, 192)])
def test_the_bytes_of_a_packed_matrix(outputs: int, inputs: int, packing: Literal["half", "int8", "onednn"]) -> None:
    weight = torch.randn(outputs, inputs).half().float()
    warm = pack_linear(weight, packing=packing)
    before = allocated()
    packed = pack_linear(weight, packing=packing)
    taken = allocated() - before
    wanted = packed_bytes(outputs, inputs, packing)
    assert wanted <= taken + 4096
    assert taken <= wanted * 1.02 + (64 << 10)
    del warm, packed


CASES: dict[str, dict[str, Any]] = {
    "float32": {},
    "float32 as float16": {"torch": {"weights": "float16"}},
    "float32 as int8": {"torch": {"weights": "int8"}},
    "float16": {"dtype": "float16"},
    "float16 as int8": {"dtype": "float16", "torch": {"weights": "int8"}},
    "untied": {"tie": False, "dtype": "float16"},
    "stored anew": {"target": {"checkpoint": "target", "dtype": "float16"}},
}


@pytest.mark.parametrize("name", CASES)
def test_planned_weights_are_those_of_a_loaded_model(tmp_path: Path, name: str) -> None:
    case = dict(CASES[name])
    checkpoint = {key: case.pop(key) for key in ("dtype", "tie") if key in case}
    file = toy_spec(tmp_path, **case)
    tiny_checkpoint(tmp_path / "target", hidden=320, layers=2, heads=5, kv_heads=1, seed=3, **checkpoint)
    model = load_model(engine_of(file, "target"), options_of(file))
    assert weights_of(planned(file), "target") == held_bytes(model)


def test_a_draft_with_a_list_of_ids_has_a_smaller_head(tmp_path: Path) -> None:
    file = toy_spec(tmp_path)
    whole = weights_of(planned(file), "draft")
    write_draft_vocabulary(tmp_path / "draft", range(100))
    write_draft_vocabulary(tmp_path / "target", range(100))
    plan = planned(file)
    model = load_model(engine_of(file, "draft"), options_of(file))
    vocabulary = plan.inputs.shapes["draft"].vocab_size
    ids = 100 * 8  # of the tokens that the head is cut down to
    assert weights_of(plan, "draft") == held_bytes(model) - ids
    assert whole - weights_of(plan, "draft") == (vocabulary - 100) * 64 * 4
    target = load_model(engine_of(file, "target"), options_of(file))
    assert weights_of(plan, "target") == held_bytes(target)


def test_bfloat16_may_take_half_of_what_is_planned(tmp_path: Path) -> None:
    file = toy_spec(tmp_path, target={"checkpoint": "target", "dtype": "bfloat16"})
    plan = planned(file)
    held = held_bytes(load_model(engine_of(file, "target"), options_of(file)))
    assert held <= weights_of(plan, "target")
    item = next(one for one in plan.per_gpu[0].items if (one.role, one.name) == ("target", "weights"))
    assert item.estimate
    assert "where float16 holds every weight" in item.formula


@pytest.mark.parametrize("tokens", [None, 640, 5000])
def test_planned_keys_and_values_are_the_engines(tmp_path: Path, tokens: int | None) -> None:
    file = toy_spec(tmp_path, torch={"kv_tokens": tokens}, build={"max_seq_len": 512, "max_batch_size": 4})
    plan = planned(file)
    for role in ("target", "draft"):
        engine = load_engine(engine_of(file, role), options_of(file))
        use = engine.load.memory
        engine.close()
        assert plan.kv_cache[role].bytes_per_token == use.token_bytes
        assert plan.kv_cache[role].max_tokens == use.limit
        assert plan.per_gpu[0].of(role, "kv_cache") == use.limit * use.token_bytes


def test_the_default_follows_batch_and_length(tmp_path: Path) -> None:
    file = toy_spec(tmp_path, build={"max_seq_len": 512, "max_batch_size": 64})
    plan = planned(file)
    assert plan.kv_cache["target"].max_tokens == 64 * (512 + 8)
    assert plan.kv_cache["draft"].max_tokens == 64 * 512
    assert plan.inputs.shapes["target"].kv.dtype == "float32"


def findings(plan: MemoryPlan, file: SpecFile) -> dict[str, Any]:
    return {finding.id: finding for finding in plan_findings(file, plan)}


def test_a_limit_beyond_the_memory_is_told(tmp_path: Path) -> None:
    file = toy_spec(tmp_path, torch={"kv_tokens": 1 << 30})
    plan = planned(file)
    found = findings(plan, file)["kv-tokens-beyond-memory"]
    room = plan.kv_cache["target"].max_tokens
    assert room is not None
    assert room < 1 << 30
    assert "set torch.kv_tokens: " in str(found.fix)
    mended = toy_spec(tmp_path, torch={"kv_tokens": room})
    assert "kv-tokens-beyond-memory" not in findings(planned(mended), mended)


def test_a_limit_below_one_request_is_an_error_as_the_engine_says(tmp_path: Path) -> None:
    file = toy_spec(tmp_path, torch={"kv_tokens": 256}, build={"max_seq_len": 512})
    found = findings(planned(file), file)["kv-tokens-below-one-request"]
    assert found.level == "error"
    with pytest.raises(EngineUnsupported, match="not enough for one request"):
        load_engine(engine_of(file, "target"), options_of(file))


def test_on_a_gpu_weights_are_counted_once_in_their_own_type(tmp_path: Path) -> None:
    file = toy_spec(tmp_path, torch={"weights": "int8"})
    plan = memory_plan(file, find_gpu("L4"), surveys(file))
    shape = plan.inputs.shapes["target"]
    assert (shape.dtype, shape.kv.dtype) == ("float32", "float32")
    assert weights_of(plan, "target") == 4 * shape.total_parameters


def test_without_fbgemm_everything_is_float32(tmp_path: Path) -> None:
    file = toy_spec(tmp_path, torch={"weights": "int8"})
    shape = planned(file).inputs.shapes["target"]
    assert cpu_packing(file.spec, shape, "aarch64") == "onednn"
    assert cpu_packing(file.spec, shape, "x86_64") == "int8"
    assert cpu_packing(file.spec, shape) == ("int8" if platform.machine() in {"x86_64", "AMD64"} else "onednn")
