"""The deployment spec (`trtspec.yaml`): every field, its default and its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from trtspec.spec.names import Runtime

__all__ = [
    "BuildOptions",
    "DraftModel",
    "Hardware",
    "LoadTestOptions",
    "ModelSource",
    "Serving",
    "Spec",
    "Speculation",
]

Port = Annotated[int, Field(ge=1, le=65535)]
DType = Literal["auto", "float32", "float16", "bfloat16"]
Quantization = Literal["none", "fp8", "nvfp4", "int4_awq", "w4a8_awq", "int8_sq", "int8_wo", "int4_wo"]
KvCacheDType = Literal["auto", "fp8", "int8"]


def _nameable(path: Path) -> Path:
    """`path`, when a file system can hold a file of this name."""
    try:
        expanded = str(path.expanduser())
        expanded.encode()
    except (RuntimeError, UnicodeEncodeError) as error:  # ~nobody, half a surrogate pair
        raise PydanticCustomError("path", "is not a path: {why}", {"why": str(error)}) from None
    if "\0" in expanded:
        raise PydanticCustomError("path", "is not a path: it holds a null character")
    return path


FilePath = Annotated[Path, AfterValidator(_nameable)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class ModelSource(_Strict):
    """A checkpoint and the precision and parallelism it is built with."""

    checkpoint: FilePath = Field(
        description="Hugging Face folder (safetensors, sharded or not, or one GGUF file inside)"
    )
    dtype: DType = Field("auto", description="computation type; auto: the checkpoint's own (torch on a CPU: float32)")
    quantization: Quantization = Field("none", description="weight quantization (runtime tensorrt_llm)")
    kv_cache_dtype: KvCacheDType = Field("auto", description="KV cache precision (runtime tensorrt_llm)")
    tp: int = Field(1, ge=1, le=64, description="tensor parallel ranks (runtime tensorrt_llm)")
    trust_remote_code: bool = Field(False, description="run Python code that the checkpoint folder carries")


class DraftModel(ModelSource):
    """The smaller model that proposes tokens."""


class Speculation(_Strict):
    """How tokens are drafted and accepted."""

    draft_length: int = Field(4, ge=1, le=64, description="tokens drafted per round unless a request says otherwise")
    max_draft_length: int | None = Field(
        None, ge=1, le=64, description="limit built into the target engine; default: the larger of 8 and draft_length"
    )
    acceptance: Literal["tokens", "logits"] = Field(
        "tokens", description="tokens: the target's own choice must equal the draft token; logits: rejection sampling"
    )

    @property
    def engine_draft_length(self) -> int:
        """`max_draft_length`, or what it is derived as."""
        return self.max_draft_length or max(8, self.draft_length)


class BuildOptions(_Strict):
    """Sizes that are built into the engines."""

    max_batch_size: int = Field(8, ge=1, le=4096, description="sequences in flight")
    max_seq_len: int | None = Field(
        None, ge=16, description="prompt + output tokens; default: what both checkpoints support, at most 8192"
    )
    max_num_tokens: int = Field(2048, ge=16, description="tokens in one forward pass; longer prompts are split")


class Serving(_Strict):
    """Where the Triton server listens."""

    host: str = Field("127.0.0.1", description="address to listen on; loopback by default")
    http_port: Port = 8000
    grpc_port: Port = 8001
    metrics_port: Port = 8002
    ready_timeout: float = Field(300.0, gt=0, description="seconds until the server must be ready")


class Hardware(_Strict):
    """The GPUs that the deployment will run on (used by planning, not by the torch runtime on a CPU)."""

    gpu: str = Field(description="GPU model, e.g. H100-80GB-SXM")
    count: int = Field(1, ge=1, le=1024)


class LoadTestOptions(_Strict):
    """What `trtspec loadtest` sends."""

    prompts: str = Field(
        "builtin",
        description="'builtin', 'random' (synthetic words), or a JSONL file with id, category, prompt, max_tokens",
    )
    chat_template: Literal["auto", "never"] = Field(
        "auto", description="auto: prompts go through the target's chat template when it has one; never: sent as is"
    )
    concurrency: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1)] = [1, 4]
    requests: int = Field(60, ge=1, description="measured requests per arm and concurrency")
    warmup: int = Field(4, ge=0, description="requests per arm before measuring starts; never counted")
    max_tokens: int | None = Field(None, ge=1, description="output limit; default: each prompt's own")
    temperature: float = Field(0.0, ge=0, le=10)
    seed: int = Field(1, ge=0, description="order of prompts and arms, and sampling seeds")
    timeout: float = Field(120.0, gt=0, description="seconds after which a request counts as failed")


class Spec(_Strict):
    """One pair of models, how it is built, served and measured."""

    version: Literal[1] = Field(1, description="version of this file format")
    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="names the folders under engines/, model_repo/ and runs/",
    )
    runtime: Runtime = Field("torch", description="torch runs anywhere; tensorrt_llm needs NVIDIA GPUs")
    target: ModelSource
    draft: DraftModel
    speculation: Speculation = Speculation.model_construct()
    build: BuildOptions = BuildOptions.model_construct()
    serving: Serving = Serving.model_construct()
    hardware: Hardware | None = None
    loadtest: LoadTestOptions = LoadTestOptions.model_construct()

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        problems = [*_draft_length_problems(self), *_runtime_problems(self), *_port_problems(self)]
        if problems:
            raise ValueError("\n".join(problems))
        return self


def _draft_length_problems(spec: Spec) -> list[str]:
    speculation = spec.speculation
    if speculation.draft_length > speculation.engine_draft_length:
        given = f"{speculation.draft_length} is more than speculation.max_draft_length {speculation.max_draft_length}"
        return [f"speculation.draft_length: {given}"]
    return []


def _runtime_problems(spec: Spec) -> list[str]:
    if spec.runtime != "torch":
        return []
    problems = []
    if spec.speculation.acceptance == "logits":
        problems.append("speculation.acceptance: the torch runtime accepts by tokens; write 'tokens'")
    for role, source in (("target", spec.target), ("draft", spec.draft)):
        if source.quantization != "none":
            problems.append(f"{role}.quantization: only for runtime tensorrt_llm")
        if source.kv_cache_dtype != "auto":
            problems.append(f"{role}.kv_cache_dtype: only for runtime tensorrt_llm")
        if source.tp != 1:
            problems.append(f"{role}.tp: the torch runtime uses one device; only for runtime tensorrt_llm")
    return problems


def _port_problems(spec: Spec) -> list[str]:
    serving = spec.serving
    ports = [serving.http_port, serving.grpc_port, serving.metrics_port]
    return [] if len(set(ports)) == 3 else ["serving: http_port, grpc_port and metrics_port must differ"]
