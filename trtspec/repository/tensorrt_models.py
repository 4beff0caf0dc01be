"""The repository of an arm with TensorRT engines: NVIDIA's C++ model for each engine, our frontend before them.

Every parameter of the release's template is written with a value: those that the deployment decides, the backend's
default for the others, and an empty one where there is no default. So nothing depends on what a release does with a
key that is not there, and `diff` against NVIDIA's template shows values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trtspec.repository.config import ModelSpec
from trtspec.repository.contract import ENCODER_FEATURES, LOGITS, PROMPT_TABLE, Contract, contract_for
from trtspec.repository.layout import Layout
from trtspec.repository.memory import CacheSize, Deployment, plan_deployment
from trtspec.repository.models import FrontendValues, frontend_model, model_files
from trtspec.repository.placed import Content
from trtspec.repository.sources import frontend_files
from trtspec.repository.tensorrt_engines import ServedEngine, read_engines, tokenizer_of
from trtspec.repository.tensors import Tensor
from trtspec.rules.registry import Finding
from trtspec.spec import Arm, Role, SpecFile
from trtspec.spec.names import DRAFT_MODEL, SPECULATIVE, TARGET_MODEL

__all__ = ["ArmFiles", "tensorrt_arms"]

BACKEND = "tensorrtllm"
# Triton serves a model whose version folder is there; folders without files do not survive every way of copying
_VERSION_FILE = "1/engine.txt"
_REFERENCED = b"The engine lies where gpt_model_path in config.pbtxt says.\n"
_ENGINE_TYPES = {"float16": "TYPE_FP16", "bfloat16": "TYPE_BF16", "float32": "TYPE_FP32"}
# With fast logits the draft answers with a handle in place of logits, FP32 whatever its engine's logits are
# (model_instance_state.cc: SpeculativeDecodingFastLogitsInfo as floats), and the target takes it as its draft_logits.
_HANDLES = {DRAFT_MODEL: "generation_logits", TARGET_MODEL: "draft_logits"}


@dataclass(frozen=True)
class ArmFiles:
    """An arm's files, and what was derived for it: `derived` as `repo --output json` prints it, `notes` for people."""

    files: Mapping[str, Content]
    derived: Mapping[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Arm:
    """All that the files of one arm depend on."""

    spec_file: SpecFile
    arm: Arm
    engines: Mapping[Role, ServedEngine]
    deployment: Deployment
    contract: Contract

    @property
    def layout(self) -> Layout:
        return Layout(self.spec_file, self.arm)

    @property
    def served(self) -> dict[str, ServedEngine]:
        """Model → engine behind it."""
        return {model: self.engines[role] for model, role in self.spec_file.spec.models(self.arm).items()}

    @property
    def fast_logits(self) -> bool:
        launch = self.deployment.launch(self.arm)
        wanted = self.spec_file.spec.serving.fast_logits and self.spec_file.spec.speculation.acceptance == "logits"
        return wanted and DRAFT_MODEL in self.served and launch.mode == "orchestrator" and not launch.spawns

    @property
    def chunked(self) -> bool:
        """Whether prompts are read in pieces: every engine must have paged context FMHA."""
        return all(engine.config.paged_context_fmha for engine in self.served.values())


def tensorrt_arms(spec_file: SpecFile, arms: tuple[Arm, ...]) -> tuple[dict[Arm, ArmFiles], tuple[Finding, ...]]:
    """The files of `arms` for the engines that are there, and what was found about these engines.

    Raises ArtefactMissing for an engine that is not there, EngineRejected for one that may not be served,
    VersionUnsupported for a release without a C++ model, PairError when an arm does not fit on its GPUs.
    """
    models = {arm: spec_file.spec.models(arm) for arm in arms}
    roles = tuple(dict.fromkeys(role for found in models.values() for role in found.values()))
    engines, findings = read_engines(spec_file, roles)
    contracts = {role: contract_for(engine.config.version) for role, engine in engines.items()}
    deployment = plan_deployment(spec_file, engines, arms)
    made = {
        arm: _arm_files(_Arm(spec_file, arm, engines, deployment, contracts[models[arm][TARGET_MODEL]])) for arm in arms
    }
    return made, findings


def _arm_files(arm: _Arm) -> ArmFiles:
    files: dict[str, Content] = {}
    for model, engine in arm.served.items():
        files |= model_files(_leaf(arm, model, engine), {})
        placed = arm.layout.engine_files(model, engine.path)
        files |= placed or {f"{model}/{_VERSION_FILE}": _REFERENCED}
    tokenizer = tokenizer_of(arm.engines, [arm.served[TARGET_MODEL].role])
    values = FrontendValues(
        tokenizer_dir=arm.layout.tokenizer_path(tokenizer),
        end_ids=arm.served[TARGET_MODEL].end_ids,
        max_seq_len=_request_tokens(arm),
        max_draft_length=arm.served[TARGET_MODEL].config.max_draft_len if arm.arm == SPECULATIVE else 0,
        vocab_size=arm.served[TARGET_MODEL].config.vocab_size,
        max_batch_size=min(_batch(arm, engine) for engine in arm.served.values()),
        more={
            "fast_logits": _flag(arm.fast_logits),
            "min_tokens_input": arm.contract.min_tokens_input,
            "seed_input": arm.contract.seed_input,
            # samplingLayer.cpp, externalDraftTokensLayer.cpp: setup() of a request starts its random numbers from its
            # seed (from 0 without one), and every round is a request
            "seed_per_call": "true",
            # for the same reason a draft's random numbers say nothing about the target's
            "draft_sampling": "greedy",
        },
    )
    files |= model_files(frontend_model(arm.spec_file, arm.arm, values), frontend_files())
    files |= arm.layout.tokenizer_files(tokenizer)
    return ArmFiles(files, _derived(arm), tuple(_notes(arm)))


def _batch(arm: _Arm, engine: ServedEngine) -> int:
    """Sequences at a time: the engine's, or fewer when the spec says so."""
    build = arm.spec_file.spec.build
    asked = build.max_batch_size if "max_batch_size" in build.model_fields_set else engine.config.max_batch_size
    return min(asked, engine.config.max_batch_size)


def _request_tokens(arm: _Arm) -> int:
    """Prompt and answer together: what every engine takes; in one pass, where prompts are not read in pieces."""
    limits = [engine.request_tokens for engine in arm.served.values()]
    if not arm.chunked:
        limits += [engine.config.max_num_tokens for engine in arm.served.values()]
    return min(limits)


def _leaf(arm: _Arm, model: str, engine: ServedEngine) -> ModelSpec:
    types = {
        LOGITS: "TYPE_FP16" if engine.half_logits else "TYPE_FP32",
        PROMPT_TABLE: _ENGINE_TYPES.get(engine.config.dtype, "TYPE_FP16"),
        ENCODER_FEATURES: "TYPE_FP16",  # of encoder-decoder models; it must be a type, whatever the model
    }
    handle = _HANDLES[model] if arm.fast_logits else None
    return ModelSpec(
        model,
        _batch(arm, engine),
        tuple(_filled(arm.contract.inputs, types, handle)),
        tuple(_filled(arm.contract.outputs, types, handle)),
        _parameters(arm, model, engine),
        backend=BACKEND,
        batching=True,
    )


def _filled(tensors: Iterable[Tensor], types: Mapping[str, str], handle: str | None) -> Iterable[Tensor]:
    for tensor in tensors:
        type_ = "TYPE_FP32" if tensor.name == handle else types.get(tensor.type, tensor.type)
        yield replace(tensor, type=type_)


def _parameters(arm: _Arm, model: str, engine: ServedEngine) -> dict[str, str]:
    """Every parameter of the template; docs/repository.md says why each has its value."""
    launch, role = arm.deployment.launch(arm.arm), engine.role
    cache = arm.deployment.caches[role]
    decided = {
        "gpt_model_type": "inflight_fused_batching",
        "gpt_model_path": arm.layout.engine_path(model, engine.path),
        "max_beam_width": "1",
        "batch_scheduler_policy": "guaranteed_no_evict",
        "max_tokens_in_paged_kv_cache": str(cache.max_tokens),
        "kv_cache_free_gpu_mem_fraction": _number(cache.fraction),
        "enable_kv_cache_reuse": _flag(_reuses(engine)),
        "enable_chunked_context": _flag(arm.chunked),
        "exclude_input_in_output": "false",
        "gpu_device_ids": arm.deployment.placement.gpu_device_ids[role],
        "participant_ids": launch.participant_ids.get(role, ""),
        "speculative_decoding_fast_logits": _flag(arm.fast_logits),
    }
    rows = arm.contract.parameters.values()
    return {row.key: decided.get(row.key, row.default or "") for row in rows if row.in_template}


def _reuses(engine: ServedEngine) -> bool:
    """Whether its KV blocks can be reused; without paged context FMHA (a baseline at most) the executor refuses."""
    return engine.config.paged_context_fmha is not False


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _derived(arm: _Arm) -> dict[str, Any]:
    launch = arm.deployment.launch(arm.arm)
    return {
        "tensorrt_llm": arm.served[TARGET_MODEL].config.version,
        "gpu": arm.deployment.gpu,
        "launch_mode": launch.mode,
        "world_size": launch.world_size,
        "fast_logits": arm.fast_logits,
        "chunked_context": arm.chunked,
        "max_request_tokens": _request_tokens(arm),
        "models": {model: _derived_model(arm, model, engine) for model, engine in arm.served.items()},
    }


def _derived_model(arm: _Arm, model: str, engine: ServedEngine) -> dict[str, Any]:
    cache: CacheSize = arm.deployment.caches[engine.role]
    return {
        "role": engine.role,
        "gpt_model_path": arm.layout.engine_path(model, engine.path),
        "max_batch_size": _batch(arm, engine),
        "gpu_device_ids": arm.deployment.placement.gpu_device_ids[engine.role],
        "participant_ids": arm.deployment.launch(arm.arm).participant_ids.get(engine.role),
        "kv_cache_free_gpu_mem_fraction": round(cache.fraction, 4),
        "max_tokens_in_paged_kv_cache": cache.max_tokens,
        "why": cache.why,
    }


def _notes(arm: _Arm) -> Iterable[str]:
    serving, speculation = arm.spec_file.spec.serving, arm.spec_file.spec.speculation
    yield from arm.deployment.notes
    if serving.fast_logits and DRAFT_MODEL in arm.served and not arm.fast_logits:
        reason = (
            "acceptance is by tokens" if speculation.acceptance == "tokens" else "the draft has no ranks of its own"
        )
        yield f"serving.fast_logits is left off: {reason}"
    if not arm.chunked:
        limit = _request_tokens(arm)
        yield (
            f"{arm.arm} arm: an engine has no paged context FMHA, so it does not reuse KV blocks, and prompts are not "
            f"read in pieces (requests are limited to {limit} tokens)"
        )
    if serving.repository_root is not None and not arm.layout.inside:
        yield (
            "engines and tokenizer are named by their paths on this machine: the server must see them at the same "
            "place, or set serving.engines: copy"
        )
