"""The one table of TensorRT-LLM releases: images, library versions, and what each can do.

Versions of the images come from Triton's compatibility matrix (triton-inference-server/server,
docs/introduction/compatibility.md @e1db8a60), checked for 1.2.1, 1.1.0 and 1.0.0 against the Dockerfile history of
triton-inference-server/tensorrtllm_backend; transformers and ModelOpt come from TensorRT-LLM's release notes. `driver`
is the NVIDIA driver that the image was made with; older ones work as far as CUDA's compatibility rules let them.
Nothing here was run by us.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ENGINE_TOOLS", "FEATURES", "RELEASES", "Release"]

# what a release may have, each with where it is known from
FEATURES: dict[str, str] = {
    "trtllm_build": "the command trtllm-build and the checkpoint converters; removed in the release candidates of 1.3 "
    "(NVIDIA/TensorRT-LLM#15918, #15763)",
    "triton_cpp_backend": "the Triton backend `tensorrtllm`; removed in the release candidates of 1.3 "
    "(NVIDIA/TensorRT-LLM#15907)",
    "fast_logits": "draft logits sent from GPU to GPU (speculative_decoding_fast_logits), since 0.15 (draft-target "
    "example)",
    "kv_reuse_with_paged_fmha": "KV reuse is on by itself where paged context FMHA is on, since 0.17 (release notes)",
    "nvfp4": "NVFP4 weights, since 0.17 (release notes of the PyTorch workflow; for engines inferred)",
    "qwen3": "Qwen3 as TensorRT engines, since 1.0 (release notes)",
    "pytorch_default": "the LLM API's default backend is PyTorch, since 1.0 (release notes)",
    "paged_context_fmha_default": "trtllm-build turns paged context FMHA on by itself (command page of 1.2.0; earlier "
    "releases not verified)",
    "pydantic_build_config": "BuildConfig is a pydantic model, since 1.2.0 (NVIDIA/TensorRT-LLM#8330)",
    "lower_case_kv_cache_type": "config.json says `paged`, not `PAGED`, since 1.2.0 (NVIDIA/TensorRT-LLM#8330)",
}

ENGINE_TOOLS = frozenset({"trtllm_build", "triton_cpp_backend"})
_OLD = ENGINE_TOOLS | {"fast_logits"}
_WITH_NVFP4 = _OLD | {"kv_reuse_with_paged_fmha", "nvfp4"}
_ONE = _WITH_NVFP4 | {"qwen3", "pytorch_default"}
_ONE_TWO = _ONE | {"paged_context_fmha_default", "pydantic_build_config", "lower_case_kv_cache_type"}


@dataclass(frozen=True)
class Release:
    """One release of TensorRT-LLM and the Triton images (tags like `26.04`, newest first) that carry it.

    None where no source tells; `features` are keys of `FEATURES`.
    """

    version: str
    images: tuple[str, ...] = ()
    python: str | None = None
    cuda: str | None = None
    tensorrt: str | None = None
    torch: str | None = None
    driver: str | None = None
    transformers: str | None = None
    modelopt: str | None = None
    features: frozenset[str] = frozenset()


RELEASES: tuple[Release, ...] = (
    # seen as pre-releases only; both without engines
    Release("1.4.0rc4", features=frozenset({"pytorch_default"})),
    Release("1.3.0rc29", features=frozenset({"pytorch_default"})),
    Release(
        "1.2.1", ("26.07", "26.06", "26.05", "26.04"), "3.12.3", "13.1.0.036", "10.14.1.48",
        "2.10.0a0+b4e4ee81d3.nv25.12", "590.44.01", "4.57.3", None, _ONE_TWO,
    ),
    Release(
        "1.2.0", ("26.03",), "3.12.3", "13.1.0.036", "10.14.1.48",
        "2.10.0a0+b4e4ee81d3.nv25.12", "590.44.01", "4.57.3", None, _ONE_TWO,
    ),
    Release(
        "1.1.0", ("26.02", "26.01", "25.12"), "3.12.3", "13.0.2.006", "10.13.3.9",
        "2.9.0a0+145a3a7bda.nv25.10", "580.95.05", "4.56.0", "0.37", _ONE,
    ),
    Release(
        "1.0.3.2510", ("25.11",), "3.12.3", "13.0.2.006", "10.13.3.9",
        "2.9.0a0+145a3a7bda.nv25.10", "580.95.05", "4.53.1", "0.33", _ONE,
    ),
    Release(
        "1.0.0", ("25.10", "25.09"), "3.12.3", "12.9.1.010", "10.11.0.33",
        "2.8.0a0+5228986c39.nv25.6", "575.57.08", "4.53.1", "0.33", _ONE,
    ),
    Release(
        "0.21.0", ("25.08",), "3.12.3", "12.9.0.043", "10.11.0.33",
        "2.8.0a0+5228986c39.nv25.5", "575.51.03", None, "0.31", _WITH_NVFP4,
    ),
    Release(
        "0.20.0", ("25.07", "25.06"), "3.12.3", "12.9.0.036", "10.10.0.31",
        "2.7.0a0+79aa17489c.nv25.4", "575.51.03", None, "0.29", _WITH_NVFP4,
    ),
    Release(
        "0.19.0", ("25.05",), "3.12.3", "12.8.1.012", "10.9.0.34",
        "2.7.0a0+7c8ec84dab.nv25.3", "570.124.06", None, None, _WITH_NVFP4,
    ),
    Release(
        "0.18.2", ("25.04",), "3.12.3", "12.8.1.012", "10.9.0.34",
        "2.7.0a0+7c8ec84dab.nv25.3", "570.124.06", None, None, _WITH_NVFP4,
    ),
    Release(
        "0.18.0", ("25.03",), "3.12.3", "12.8.1.012", "10.9.0.34",
        "2.7.0a0+7c8ec84dab.nv25.3", "570.124.06", None, None, _WITH_NVFP4,
    ),
    Release(
        "0.17.0.post1", ("25.02",), "3.12.3", "12.8.0.038", "10.8.0.43",
        "2.6.0a0+ecf3bae40a.nv25.1", "570.86.10", None, None, _WITH_NVFP4,
    ),
    Release(
        "0.17.0", ("25.01",), "3.12.3", "12.8.0.038", "10.8.0.43",
        "2.6.0a0+ecf3bae40a.nv25.1", "570.86.10", None, None, _WITH_NVFP4,
    ),
    Release(
        "0.16.0", ("24.12",), "3.12.3", "12.6.3", "10.7.0",
        "2.6.0a0+df5bbc09d1.nv24.11", "560.35.05", None, None, _OLD,
    ),
)  # fmt: skip
