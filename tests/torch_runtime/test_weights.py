"""Weights rounded to 16 and 8 bits, bfloat16 and compiled layers: what they change and what they may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.torch_runtime.engines import engine_folder, reference
from trtspec.torch_runtime.attention import PackedBatch
from trtspec.torch_runtime.compiled import padded_rows
from trtspec.torch_runtime.config import RuntimeOptions
from trtspec.torch_runtime.engine import Model
from trtspec.torch_runtime.generic import GenericModel
from trtspec.torch_runtime.kv import SequenceKV
from trtspec.torch_runtime.linear import Packing, Weights, pack_linear
from trtspec.torch_runtime.loading import ignored_options, load_model

DEVICE = torch.device("cpu")
PROMPT = [(31 * index + 5) % 320 for index in range(24)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return engine_folder(tmp_path_factory.mktemp("engine"), hidden=64, heads=4, kv_heads=2)


def logits_of(model: Model, tokens: list[int], chunks: int = 1) -> torch.Tensor:
    kv, size = SequenceKV(model.kv_shape), len(tokens) // chunks
    with torch.inference_mode():
        parts = [
            model.forward(PackedBatch.build([(kv, tokens[start : start + size])], [size], DEVICE))
            for start in range(0, len(tokens), size)
        ]
    return torch.cat(parts)


@pytest.mark.parametrize("biased", [False, True])
def test_a_layer_of_8_bits_is_close_and_each_row_is_on_its_own(biased: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    weight, rows = torch.randn((48, 64), generator=generator), torch.randn((17, 64), generator=generator)
    rows[3] *= 1000
    rows[5] = 0
    bias = torch.randn(48, generator=generator) if biased else None
    apply = pack_linear(weight, bias, "int8")
    with torch.inference_mode():
        exact, rounded = torch.nn.functional.linear(rows, weight, bias), apply(rows)
        for index in range(len(rows)):
            scale = float(exact[index].abs().max())
            torch.testing.assert_close(rounded[index], exact[index], rtol=0, atol=0.03 * scale + 1e-6)
            assert torch.equal(apply(rows[index : index + 1])[0], rounded[index])


@pytest.mark.parametrize("weights", ["float16", "int8"])
def test_rounded_weights_change_logits_a_little(folder: Path, weights: Weights) -> None:
    exact = logits_of(load_model(folder, RuntimeOptions(device="cpu")), PROMPT)
    options = RuntimeOptions(device="cpu", weights=weights)
    generic = GenericModel.load(folder / "hf", torch.float32, DEVICE, options=options)
    for model in (load_model(folder, options), generic):
        rounded = logits_of(model, PROMPT)
        assert not torch.equal(rounded, exact)
        closeness = torch.nn.functional.cosine_similarity(rounded, exact, dim=-1)
        assert float(closeness.min()) > 0.98
        torch.testing.assert_close(logits_of(model, PROMPT, 6), rounded, rtol=1e-4, atol=1e-4)


def test_exact_weights_lose_nothing_where_16_bits_would(folder: Path) -> None:
    exact = load_model(folder, RuntimeOptions(device="cpu"))
    with torch.inference_mode():
        plain = reference(folder)(input_ids=torch.tensor([PROMPT]), use_cache=False).logits[0]
    torch.testing.assert_close(logits_of(exact, PROMPT), plain, rtol=1e-4, atol=1e-4)


def test_an_unknown_form_is_no_linear_layer() -> None:
    forms: tuple[Packing, ...] = ("half", "onednn", "int8", "plain")
    results = {form: pack_linear(torch.eye(16), None, form)(torch.ones(1, 16)) for form in forms}
    assert all(torch.allclose(result, torch.ones(1, 16), atol=0.01) for result in results.values())


def transformers_model(folder: Path, dtype: torch.dtype) -> Any:
    return reference(folder).to(dtype)


def registered() -> None:
    """Loading any model registers the attention of packed passes."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    from trtspec.torch_runtime.generic import _NAME, _attend

    ALL_ATTENTION_FUNCTIONS.register(_NAME, _attend)


def test_bfloat16_passes_as_on_cuda(folder: Path) -> None:
    registered()
    model = GenericModel(transformers_model(folder, torch.bfloat16), DEVICE)
    model._check()  # against transformers' own attention in the same precision
    assert model.kv_shape.dtype == torch.bfloat16
    exact = logits_of(load_model(folder, RuntimeOptions(device="cpu")), PROMPT)
    closeness = torch.nn.functional.cosine_similarity(logits_of(model, PROMPT, 3), exact, dim=-1)
    assert float(closeness.min()) > 0.99


def compiled_model(folder: Path, backend: str) -> GenericModel:
    registered()
    model = GenericModel(transformers_model(folder, torch.float32), DEVICE)
    model._check()
    model.compile_layers(backend)
    return model


def test_compiled_layers_compute_the_same(folder: Path) -> None:
    plain = logits_of(load_model(folder, RuntimeOptions(device="cpu")), PROMPT)
    model = compiled_model(folder, "eager")
    for chunks in (1, 2, 8):  # passes of 24, 12 and 3 rows: padded to 32, 16 and 4
        torch.testing.assert_close(logits_of(model, PROMPT, chunks), plain, rtol=1e-4, atol=1e-4)
    assert model.compiled


def test_a_compiler_that_fails_is_done_without(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no compiler here\nand a traceback")

    torch._dynamo.register_backend(fails, name="trtspec_fails")
    plain = logits_of(load_model(folder, RuntimeOptions(device="cpu")), PROMPT)
    model = compiled_model(folder, "trtspec_fails")
    torch.testing.assert_close(logits_of(model, PROMPT, 2), plain, rtol=1e-4, atol=1e-4)
    assert not model.compiled
    assert "torch.compile failed and is switched off" in caplog.text


def test_rows_are_padded_to_powers_of_two() -> None:
    assert [padded_rows(rows) for rows in (1, 2, 3, 5, 8, 9, 200, 256, 257, 700)] == [
        1, 2, 4, 8, 8, 16, 256, 256, 257, 700,
    ]  # fmt: skip


def test_options_that_say_nothing_here_are_named() -> None:
    assert ignored_options(RuntimeOptions(device="cpu", compile=True, weights="int8")) == [
        "torch.compile is for CUDA; this engine runs on a CPU"
    ]
    assert ignored_options(RuntimeOptions(device="cuda", compile=True, weights="int8", exact_rows=True)) == [
        "torch.weights is for CPUs; this engine runs on CUDA",
        "torch.exact_rows is for CPUs; this engine runs on CUDA",
    ]
    assert ignored_options(RuntimeOptions(device="cpu", exact_rows=True)) == []
