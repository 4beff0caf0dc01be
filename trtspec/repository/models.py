"""Which models an arm's repository has, and the files of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trtspec.errors import ArtefactMissing, UsageError
from trtspec.files import read_json
from trtspec.planning.torch_memory import LEAST_TOKENS
from trtspec.repository.config import ModelSpec, model_config, pbtxt
from trtspec.repository.ending import end_ids
from trtspec.repository.layout import Layout
from trtspec.repository.placed import Content
from trtspec.repository.sources import frontend_files, leaf_files
from trtspec.repository.tensors import (
    FRONTEND_INPUTS,
    FRONTEND_OUTPUTS,
    LEAF_INPUTS,
    LEAF_OUTPUTS,
    LOGITS_INPUTS,
    LOOKUP_OUTPUTS,
)
from trtspec.spec.load import SpecFile
from trtspec.spec.model import Serving, Spec, Speculation, TorchRuntime
from trtspec.spec.names import DRAFT_MODEL, FRONTEND_MODEL, SPECULATIVE, TARGET_MODEL, Arm, Role

__all__ = ["Engine", "FrontendValues", "arm_files", "frontend_model", "model_files", "read_engine"]


@dataclass(frozen=True)
class Engine:
    """What a repository needs to know of a finished engine."""

    path: Path
    max_seq_len: int
    max_draft_len: int
    vocab_size: int
    end_ids: tuple[int, ...]


@dataclass(frozen=True)
class FrontendValues:
    """What the frontend is told of the engines behind it.

    max_seq_len: tokens of a request, prompt and answer together. max_draft_length: 0 in the baseline arm.
    more: parameters that only some runtimes need.
    """

    tokenizer_dir: str
    end_ids: tuple[int, ...]
    max_seq_len: int
    max_draft_length: int
    vocab_size: int
    max_batch_size: int
    more: Mapping[str, str] = field(default_factory=dict)


def read_engine(path: Path, checkpoint: Path) -> Engine:
    """The engine in `path`, whose end ids are looked for in its own files and in `checkpoint`."""
    try:
        config = read_json(path / "config.json")
        build, pretrained = config["build_config"], config["pretrained_config"]
        return Engine(
            path=path.resolve(),
            max_seq_len=int(build["max_seq_len"]),
            max_draft_len=int(build["max_draft_len"]),
            vocab_size=int(pretrained["vocab_size"]),
            end_ids=end_ids([path, checkpoint]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"is not a readable engine: {type(error).__name__}: {error}"
        raise ArtefactMissing(problem, where=str(path), fix="trtspec build SPEC --force") from None


def arm_files(spec_file: SpecFile, arm: Arm, engines: dict[Role, Engine]) -> dict[str, Content]:
    """Every file of the arm's repository with torch engines, relative path → content."""
    layout = Layout(spec_file, arm)
    files: dict[str, Content] = {}
    for name, role in spec_file.spec.models(arm).items():
        engine = engines[role]
        files |= model_files(_leaf(spec_file, name, engine, layout.engine_path(name, engine.path)), leaf_files())
        files |= layout.engine_files(name, engine.path)
    target = engines[spec_file.spec.models(arm)[TARGET_MODEL]]
    values = FrontendValues(
        tokenizer_dir=layout.tokenizer_path(target.path),
        end_ids=target.end_ids,
        # the target engine has room for the draft tokens of the last round on top, which is no room for requests
        max_seq_len=target.max_seq_len - target.max_draft_len,
        max_draft_length=target.max_draft_len if arm == SPECULATIVE else 0,
        vocab_size=target.vocab_size,
        max_batch_size=spec_file.spec.build.max_batch_size,
        # its random numbers are a function of seed, position and token: a draft that draws with them agrees more often
        more={"draft_sampling": "shared"},
    )
    frontend = model_files(frontend_model(spec_file, arm, values), frontend_files())
    return files | frontend | layout.tokenizer_files(target.path)


def model_files(spec: ModelSpec, sources: Mapping[str, Path]) -> dict[str, Content]:
    """config.pbtxt of a model, and `sources` in its version folder."""
    config: Any = model_config(spec)
    files: dict[str, Content] = {f"{spec.name}/config.pbtxt": pbtxt(config).encode()}
    return files | {f"{spec.name}/1/{name}": source.read_bytes() for name, source in sources.items()}


def _leaf(spec_file: SpecFile, name: str, engine: Engine, path: str) -> ModelSpec:
    batch, torch = spec_file.spec.build.max_batch_size, spec_file.spec.torch
    if torch.kv_tokens is not None and torch.kv_tokens < engine.max_seq_len:
        raise _too_few(spec_file, engine.max_seq_len)
    parameters = {
        "gpt_model_path": path,
        # keys and values of running requests, and of finished ones that are kept for reuse
        "max_tokens_in_paged_kv_cache": str(torch.kv_tokens or max(batch * engine.max_seq_len, LEAST_TOKENS)),
        **_torch(torch),
    }
    if name == DRAFT_MODEL and (threshold := spec_file.spec.draft.confidence_threshold):
        parameters["torch_confidence_threshold"] = str(threshold)
    return ModelSpec(name, batch, LEAF_INPUTS, LEAF_OUTPUTS, parameters)


def _too_few(spec_file: SpecFile, needed: int) -> UsageError:
    return UsageError(
        f"torch.kv_tokens is {spec_file.spec.torch.kv_tokens}, a sequence may have {needed} tokens, drafts included",
        where=str(spec_file.path),
        fix=f"set torch.kv_tokens: {needed} or more, or a smaller build.max_seq_len",
    )


def _torch(torch: TorchRuntime) -> dict[str, str]:
    """How the torch runtime computes; empty: as it chooses on the machine that serves."""

    def optional(value: int | None) -> str:
        return "" if value is None else str(value)

    return {
        "torch_device": torch.device,
        "torch_threads": optional(torch.threads),
        "torch_exact_rows": str(torch.exact_rows).lower(),
        "torch_weights": torch.weights,
        "torch_compile": str(torch.compile).lower(),
        "torch_prompt_chunk": optional(torch.prompt_chunk),
        "torch_max_waiting": str(torch.max_waiting),
        "torch_max_waiting_tokens": optional(torch.max_waiting_tokens),
    }


def frontend_model(spec_file: SpecFile, arm: Arm, values: FrontendValues) -> ModelSpec:
    """The frontend of an arm, the same for every runtime."""
    speculation, drafts = spec_file.spec.speculation, arm == SPECULATIVE
    lookup = _lookup(spec_file.spec) if drafts else {}
    parameters = {
        "tensorrt_llm_model_name": TARGET_MODEL,
        "tensorrt_llm_draft_model_name": DRAFT_MODEL if DRAFT_MODEL in spec_file.spec.models(arm) else "",
        "tokenizer_dir": values.tokenizer_dir,
        "num_draft_tokens": str(speculation.draft_length if drafts else 0),
        "max_draft_length": str(values.max_draft_length),
        "end_ids": ",".join(str(token) for token in values.end_ids),
        "max_seq_len": str(values.max_seq_len),
        "vocab_size": str(values.vocab_size),
        "draft_timeout_seconds": str(speculation.draft_timeout),
        **_policy(speculation),
        **lookup,
        **_limits(spec_file.spec.serving),
        **values.more,
    }
    inputs = FRONTEND_INPUTS + (LOGITS_INPUTS if drafts and speculation.acceptance == "logits" else ())
    outputs = FRONTEND_OUTPUTS + (LOOKUP_OUTPUTS if lookup else ())
    return ModelSpec(FRONTEND_MODEL, values.max_batch_size, inputs, outputs, parameters)


def _lookup(spec: Spec) -> dict[str, str]:
    """How drafts are looked up in the text; nothing where they are not."""
    if not spec.draft.looks_up:
        return {}
    length = "" if spec.lookup_length is None else str(spec.lookup_length)
    return {"lookup": "true", "lookup_match": str(spec.draft.lookup_match), "lookup_length": length}


def _policy(speculation: Speculation) -> dict[str, str]:
    """Who chooses a round's draft length, and how drafts are accepted."""
    parameters: dict[str, str] = {"draft_policy": speculation.policy, "acceptance": speculation.acceptance}
    if speculation.policy == "schedule":
        steps = (f"{bound}:{length}" for bound, length in speculation.schedule.items())
        parameters["draft_schedule"] = ",".join(steps)
    if speculation.policy == "adaptive":
        parameters["min_draft_length"] = str(speculation.min_draft_length)
        parameters["draft_off_below"] = str(speculation.off_below)
    return parameters


def _limits(serving: Serving) -> dict[str, str]:
    """What a request may ask for; empty: no limit beside the engine's."""

    def optional(value: float | None) -> str:
        return "" if value is None else str(value)

    return {
        "max_prompt_bytes": str(serving.max_prompt_bytes),
        "max_output_tokens": optional(serving.max_output_tokens),
        "max_words": str(serving.max_words),
        "request_timeout_seconds": optional(serving.request_timeout),
    }
