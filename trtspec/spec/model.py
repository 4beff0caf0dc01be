"""The deployment spec (`trtspec.yaml`): every field, its default and its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from trtspec.spec.names import ARM_ROLES, DRAFT, ROLES, Arm, DraftMethod, Role, Runtime

__all__ = [
    "BaselineEngine",
    "BuildOptions",
    "Calibration",
    "DraftModel",
    "Expectations",
    "Hardware",
    "LoadTestOptions",
    "ModelSource",
    "Serving",
    "Spec",
    "Speculation",
    "TensorRTLLM",
    "TorchRuntime",
]

# limits of what can be meant, so that whatever is computed from a spec is a number and not infinity
_TOKENS = 1 << 24
_SECONDS = 1e7
_MOST_GPUS = 1024
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
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)


class Calibration(_Strict):
    """Texts that a quantization is calibrated with (fp8, nvfp4, int4_awq, w4a8_awq, int8_sq)."""

    dataset: str | None = Field(
        None, description="folder or hub name of a text dataset; default: the quantizer's own, fetched from the hub"
    )
    size: int = Field(512, ge=1, le=65536, description="texts")
    max_seq_length: int = Field(512, ge=16, le=_TOKENS, description="tokens of each text")
    batch_size: int = Field(1, ge=1, le=512, description="texts at a time")


class ModelSource(_Strict):
    """A checkpoint and the precision and parallelism it is built with, or an engine that is there already."""

    checkpoint: FilePath | None = Field(
        None, description="Hugging Face folder (safetensors, sharded or not, or one GGUF file inside)"
    )
    engine: FilePath | None = Field(
        None, description="engine folder built elsewhere, inspected and used as it is (runtime tensorrt_llm)"
    )
    dtype: DType = Field("auto", description="computation type; auto: the checkpoint's own (torch on a CPU: float32)")
    quantization: Quantization = Field("none", description="weight quantization (runtime tensorrt_llm)")
    kv_cache_dtype: KvCacheDType = Field("auto", description="KV cache precision (runtime tensorrt_llm)")
    tp: int = Field(1, ge=1, le=64, description="tensor parallel ranks (runtime tensorrt_llm)")
    pp: int = Field(1, ge=1, le=64, description="pipeline parallel ranks (runtime tensorrt_llm)")
    gpus: Annotated[list[Annotated[int, Field(ge=0, le=1023)]], Field(min_length=1)] | None = Field(
        None, description="device numbers of its ranks, tp × pp of them; default: planned (runtime tensorrt_llm)"
    )
    trust_remote_code: bool = Field(False, description="run Python code that the checkpoint folder carries")

    @model_validator(mode="after")
    def _has_a_source(self) -> ModelSource:
        if self.checkpoint is None and self.engine is None:
            raise ValueError("checkpoint: is required")
        return self

    @property
    def world_size(self) -> int:
        """Ranks of the engine: tp × pp."""
        return self.tp * self.pp


class DraftModel(ModelSource):
    """Where proposed tokens come from: a smaller model, the text itself (ngram), or the text first (lookup)."""

    method: DraftMethod = Field(
        "model", description="model; ngram: repeats of the text, no second model; lookup: those first, then the model"
    )
    lookup_match: int = Field(
        2, ge=1, le=32, description="methods ngram and lookup: last tokens that must stand earlier in the text"
    )
    lookup_length: int | None = Field(
        None, ge=1, le=64, description="method lookup: tokens proposed from the text; default: max_draft_length"
    )
    confidence_threshold: float = Field(
        0.0,
        ge=0,
        lt=1,
        allow_inf_nan=False,
        description="runtime torch: a draft ends behind a token that the model gives a smaller chance; 0: never",
    )

    @model_validator(mode="after")
    def _has_a_source(self) -> DraftModel:
        if not self.is_model:
            why = "method 'ngram' has no second model; remove it"
            models = (*ModelSource.model_fields, "confidence_threshold")
            problems = [f"{name}: {why}" for name in _changed(self, models)]
        else:
            problems = [] if self.checkpoint or self.engine else ["checkpoint: is required"]
        if not self.looks_up:
            problems += [f"{name}: only for methods 'ngram' and 'lookup'" for name in _changed(self, _LOOKUP)]
        elif not self.is_model and self.lookup_length is not None:
            problems.append("lookup_length: with method 'ngram' it is speculation.draft_length")
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def is_model(self) -> bool:
        """Whether a second model is served."""
        return self.method != "ngram"

    @property
    def looks_up(self) -> bool:
        """Whether drafts come from the text, all of them or the first."""
        return self.method != "model"


_LOOKUP = ("lookup_match", "lookup_length")


class BaselineEngine(_Strict):
    """A baseline engine that is there already; by default it is built from target.checkpoint."""

    engine: FilePath = Field(description="engine folder built without a speculative mode (runtime tensorrt_llm)")


class TensorRTLLM(_Strict):
    """Which TensorRT-LLM builds and runs the engines (runtime tensorrt_llm)."""

    version: str | None = Field(
        None, description="e.g. 1.2.1; default: the installed one, else the image's, else the newest supported"
    )
    image: str | None = Field(
        None, description="container, e.g. nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3, or its tag alone"
    )
    examples: FilePath | None = Field(
        None, description="folder with TensorRT-LLM's examples/ (converters); default: looked for in the usual places"
    )


class TorchRuntime(_Strict):
    """How the torch runtime computes and how much it takes in (runtime torch)."""

    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$",
        description="auto (CUDA where there is one), cpu, cuda, cuda:1",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="CPU threads of a pass; default: OMP_NUM_THREADS, else all cores, and one for a small draft",
    )
    exact_rows: bool = Field(
        False, description="on a CPU a token gets the same bits whatever shares its pass; costs about a tenth"
    )
    weights: Literal["exact", "float16", "int8"] = Field(
        "exact", description="on a CPU: as stored, or rounded to 16 or 8 bits, which is faster and changes outputs"
    )
    compile: bool = Field(False, description="torch.compile for the layers on CUDA; the first requests are slow")
    kv_tokens: int | None = Field(
        None,
        ge=16,
        le=1 << 40,
        description="tokens whose keys and values fit into memory; default: max_batch_size × max_seq_len and 16384",
    )
    prompt_chunk: int | None = Field(
        None, ge=1, le=_TOKENS, description="prompt tokens in a pass that answers wait for; default: 64 on a CPU"
    )
    max_waiting: int = Field(1024, ge=0, le=1 << 20, description="requests that may wait; further ones get busy")
    max_waiting_tokens: int | None = Field(
        None, ge=1, le=1 << 40, description="tokens (prompt and answer) of all that wait; default: no limit"
    )


class Speculation(_Strict):
    """How tokens are drafted and accepted."""

    draft_length: int = Field(4, ge=1, le=64, description="tokens drafted per round unless a request says otherwise")
    max_draft_length: int | None = Field(
        None, ge=1, le=64, description="limit built into the target engine; default: the larger of 8 and draft_length"
    )
    acceptance: Literal["tokens", "logits"] = Field(
        "tokens", description="tokens: the target's own choice must equal the draft token; logits: rejection sampling"
    )
    policy: Literal["fixed", "schedule", "adaptive"] = Field(
        "fixed", description="who chooses a round's draft length: fixed, the running requests, or recent acceptance"
    )
    schedule: dict[Annotated[int, Field(ge=1, le=4096)], Annotated[int, Field(ge=0, le=64)]] = Field(
        default={}, description="policy schedule: running requests up to → draft length; 0 or beyond the last: off"
    )
    min_draft_length: int = Field(1, ge=1, le=64, description="policy adaptive: never shorter while speculation is on")
    off_below: float = Field(
        0.1, ge=0, le=1, description="policy adaptive: acceptance rate below which a request drafts no more for a while"
    )
    draft_timeout: float = Field(
        10.0,
        gt=0,
        le=_SECONDS,
        description="seconds after which a draft is not waited for; the request goes on without it",
    )

    @property
    def engine_draft_length(self) -> int:
        """`max_draft_length`, or what it is derived as."""
        return self.max_draft_length or max(8, self.draft_length)


class BuildOptions(_Strict):
    """Sizes that are built into the engines."""

    max_batch_size: int = Field(8, ge=1, le=4096, description="sequences in flight")
    max_seq_len: int | None = Field(
        None,
        ge=16,
        le=_TOKENS,
        description="prompt + output tokens; default: what both checkpoints support, at most 8192",
    )
    max_num_tokens: int = Field(
        2048, ge=16, le=_TOKENS, description="tokens in one forward pass; longer prompts are split"
    )
    max_input_len: int | None = Field(
        None, ge=1, le=_TOKENS, description="longest prompt; default: max_seq_len - 1 (runtime tensorrt_llm)"
    )
    tokens_per_block: Literal[8, 16, 32, 64, 128] = Field(
        32, description="tokens in a block of the KV cache (runtime tensorrt_llm)"
    )
    logits_dtype: Literal["auto", "float32", "float16"] = Field(
        "auto", description="precision of the engine's logits; auto: float32 (runtime tensorrt_llm)"
    )
    extra_flags: dict[str, str | int | float | bool] = Field(
        default={}, description="more trtllm-build flags, e.g. reduce_fusion: enable (runtime tensorrt_llm)"
    )


class Serving(_Strict):
    """Where the Triton server listens."""

    host: str = Field("127.0.0.1", description="address to listen on; loopback by default")
    http_port: Port = 8000
    grpc_port: Port = 8001
    metrics_port: Port = 8002
    ready_timeout: float = Field(300.0, gt=0, le=_SECONDS, description="seconds until the server must be ready")
    openai_port: Port | None = Field(None, description="port of the OpenAI-compatible endpoint; default: none")
    engines: Literal["reference", "link", "copy"] = Field(
        "reference", description="how engines get into the repository: by path, as links, or copied (to move it)"
    )
    repository_root: str | None = Field(
        None, description="the repository's folder as the server sees it (a container's path); default: where it lies"
    )
    fast_logits: bool = Field(
        False, description="draft logits go from GPU to GPU (runtime tensorrt_llm, acceptance logits, own MPI ranks)"
    )
    max_prompt_bytes: int = Field(
        1 << 20, ge=1, le=1 << 40, description="longer texts are refused before they are tokenized"
    )
    max_output_tokens: int | None = Field(
        None, ge=1, le=_TOKENS, description="most tokens of an answer; default: what fits"
    )
    max_words: int = Field(64, ge=0, le=1 << 20, description="most stop words, and most bad words, of a request")
    request_timeout: float | None = Field(None, gt=0, le=_SECONDS, description="seconds after which a request is ended")
    tls_certificate: FilePath | None = Field(None, description="PEM file: gRPC with TLS; needs tls_key too")
    tls_key: FilePath | None = Field(None, description="PEM file of the certificate's key")


class Hardware(_Strict):
    """The GPUs that the deployment will run on (used by planning, not by the torch runtime on a CPU)."""

    gpu: str = Field(description="GPU model, e.g. H100-80GB-SXM; `trtspec plan --gpus` lists those that are known")
    count: int = Field(1, ge=1, le=_MOST_GPUS, description="GPUs in the machine")
    memory_gib: float | None = Field(
        None,
        gt=0,
        le=1 << 20,
        description="memory of one GPU where it is not the catalogue's (a MIG slice, a GPU not listed)",
    )
    price_per_hour: float | None = Field(None, ge=0, le=1e12, description="price of one GPU for one hour, any currency")


class Expectations(_Strict):
    """What `trtspec plan` may assume of the traffic; acceptance is measured or given here, never guessed."""

    acceptance_rate: float | None = Field(
        None, ge=0, le=1, description="share of drafted tokens that the target accepts, as a load test measured it"
    )
    prompt_tokens: int = Field(1024, ge=1, le=_TOKENS, description="tokens of a typical prompt")
    output_tokens: int = Field(256, ge=1, le=_TOKENS, description="tokens of a typical answer")
    requests_per_second: float | None = Field(None, gt=0, le=1e9, description="load to size the fleet for")


# what a request must keep to count for goodput: time to first token, per output token, of the whole answer, and the
# longest pause within it
ServiceLevel = Literal["ttft", "tpot", "e2e", "stall"]


class LoadTestOptions(_Strict):
    """What `trtspec loadtest` sends."""

    prompts: str = Field(
        "builtin",
        description="builtin, builtin-60, human-eval, random (made-up words), or a file of your own (docs/prompts.md)",
    )
    categories: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="only prompts of these categories, e.g. [code, extraction]; default: all"
    )
    language: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[], description="only prompts of these languages, e.g. [en, zh]; default: all"
    )
    min_prompt_chars: int | None = Field(
        None, ge=1, le=_TOKENS, description="only prompts of at least so many characters"
    )
    max_prompt_chars: int | None = Field(
        None, ge=1, le=_TOKENS, description="only prompts of at most so many characters"
    )
    min_prompt_tokens: int | None = Field(
        None, ge=1, le=_TOKENS, description="only prompts of at least so many tokens, counted by the target's tokenizer"
    )
    max_prompt_tokens: int | None = Field(None, ge=1, le=_TOKENS, description="only prompts of at most so many tokens")
    turns: int | None = Field(
        None, ge=1, le=10_000, description="at most so many turns of each conversation; default: all of them"
    )
    system_prompt: str | None = Field(
        None, description="system message before every conversation without its own: a text, or @FILE"
    )
    input_length: str | None = Field(
        None, description="prompts random: tokens of a prompt, 512 or 256-1024; says nothing about acceptance"
    )
    output_length: str | None = Field(
        None, description="prompts random: tokens that an answer may have, 128 or 64-256; it may end earlier"
    )
    chat_template: Literal["auto", "never"] = Field(
        "auto", description="auto: prompts go through the target's chat template when it has one; never: sent as is"
    )
    protocol: Literal["http", "grpc"] = Field(
        "http", description="how both arms' servers are asked: http (generate_stream, cheaper for the client) or grpc"
    )
    concurrency: Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1)] = [1, 4]
    rate: list[Annotated[float, Field(gt=0, le=1e6)]] = Field(
        default=[], description="open-loop levels in requests/s; given without concurrency, they are the only levels"
    )
    arrivals: Literal["constant", "poisson", "gamma", "burst"] = Field(
        "poisson", description="how an open loop's requests are spread over time"
    )
    burstiness: float = Field(
        1.0, gt=0, le=1e4, description="arrivals gamma: 1 is poisson, smaller comes in clusters, larger is more even"
    )
    burst: int = Field(8, ge=1, le=100_000, description="arrivals burst: requests that come at once")
    profile: str | None = Field(
        None, description="a level with steps and ramps, requests/s:seconds, e.g. 2:30,2..10:60,10:30"
    )
    trace: FilePath | None = Field(
        None, description="a level that replays a trace: JSONL as Mooncake's or Azure's, timestamps and lengths"
    )
    trace_speed: float = Field(1.0, gt=0, le=1e6, description="how many times faster the trace is replayed")
    max_in_flight: int | None = Field(
        None, ge=1, le=100_000, description="open loops: requests running at once; default: any number"
    )
    requests: int = Field(60, ge=1, le=10_000_000, description="measured requests per arm and load level")
    duration: float | None = Field(
        None, gt=0, le=_SECONDS, description="seconds of load per arm and level instead of a number of requests"
    )
    until: float | None = Field(
        None, gt=0, lt=10, description="go on until the interval of the speed-up is so narrow (0.05: 5 % of it)"
    )
    warmup: int = Field(4, ge=0, le=10_000_000, description="requests per arm before measuring starts; never counted")
    max_tokens: int | None = Field(None, ge=1, le=_TOKENS, description="output limit; default: each prompt's own")
    temperature: float = Field(0.0, ge=0, le=10)
    seed: int = Field(1, ge=0, lt=1 << 63, description="order of prompts and arms, arrivals, and sampling seeds")
    timeout: float = Field(
        120.0, gt=0, le=_SECONDS, description="seconds after which a request is cancelled and counts as failed"
    )
    disconnect: float = Field(0.0, ge=0, lt=1, description="share of clients that leave in the middle of their answer")
    unique_prefixes: bool = Field(
        False, description="every prompt begins with letters of its own, so that no cache of prefixes helps"
    )
    workers: int | None = Field(
        None, ge=1, le=256, description="processes that send; default: one for every 256 connections, as CPUs allow"
    )
    servers: Literal["both", "one"] = Field(
        "both", description="one: a server is stopped before the other arm's starts, for GPUs that cannot hold both"
    )
    slo: dict[ServiceLevel, Annotated[float, Field(gt=0, le=_SECONDS)]] = Field(
        default={},
        description="goodput counts requests within these seconds, e.g. {ttft: 0.5, tpot: 0.05}; also e2e, stall",
    )
    reading_speed: float = Field(15.0, gt=0, le=1e6, description="tokens/s at which a reader runs out of text")


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
    baseline: BaselineEngine | None = None
    speculation: Speculation = Speculation.model_construct()
    build: BuildOptions = BuildOptions.model_construct()
    serving: Serving = Serving.model_construct()
    hardware: Hardware | None = None
    tensorrt_llm: TensorRTLLM = TensorRTLLM.model_construct()
    torch: TorchRuntime = TorchRuntime.model_construct()
    calibration: Calibration = Calibration.model_construct()
    expectations: Expectations = Expectations.model_construct()
    loadtest: LoadTestOptions = LoadTestOptions.model_construct()

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        problems = [
            *_source_problems(self),
            *_draft_length_problems(self),
            *_lookup_problems(self),
            *_policy_problems(self),
            *_runtime_problems(self),
            *_port_problems(self),
        ]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that have an engine."""
        return ROLES if self.draft.is_model else tuple(role for role in ROLES if role != DRAFT)

    def models(self, arm: Arm) -> dict[str, Role]:
        """The arm's leaf models in Triton: name → role of the engine behind it."""
        return {name: role for name, role in ARM_ROLES[arm].items() if role in self.roles}

    @property
    def lookup_length(self) -> int | None:
        """Tokens that a lookup proposes; None where it is as many as the policy wants from any draft."""
        if self.draft.method != "lookup" or self.speculation.policy != "fixed":
            return None
        return self.draft.lookup_length or self.speculation.engine_draft_length


def _source_problems(spec: Spec) -> list[str]:
    problems = []
    for role, source in (("target", spec.target), ("draft", spec.draft)):
        if source.world_size > _MOST_GPUS:
            problems.append(f"{role}.tp: tp × pp is {source.world_size} ranks, more than {_MOST_GPUS} GPUs")
        if source.gpus is not None and len(source.gpus) != source.world_size:
            problems.append(f"{role}.gpus: {len(source.gpus)} given, tp × pp is {source.world_size}")
        elif source.gpus is not None and len(set(source.gpus)) != len(source.gpus):
            problems.append(f"{role}.gpus: one GPU is given twice; each rank needs its own")
    build = spec.build
    if build.max_input_len is not None and build.max_seq_len is not None and build.max_input_len >= build.max_seq_len:
        problems.append(
            f"build.max_input_len: no room for an answer in max_seq_len {build.max_seq_len} (prompt + answer)"
        )
    return problems


def _draft_length_problems(spec: Spec) -> list[str]:
    speculation = spec.speculation
    if speculation.draft_length > speculation.engine_draft_length:
        given = f"{speculation.draft_length} is more than speculation.max_draft_length {speculation.max_draft_length}"
        return [f"speculation.draft_length: {given}"]
    return []


def _lookup_problems(spec: Spec) -> list[str]:
    draft, speculation = spec.draft, spec.speculation
    problems = []
    if draft.method == "ngram" and speculation.acceptance == "logits":
        problems.append("speculation.acceptance: logits are a draft model's, and draft.method 'ngram' has none")
    if draft.lookup_length is not None and speculation.policy != "fixed":
        problems.append("draft.lookup_length: only for policy 'fixed'; others choose the length of every draft")
    if (draft.lookup_length or 0) > speculation.engine_draft_length:
        limit = f"max_draft_length {speculation.engine_draft_length}"
        problems.append(f"draft.lookup_length: {draft.lookup_length} is more than {limit}")
    return problems


def _policy_problems(spec: Spec) -> list[str]:
    speculation = spec.speculation
    problems = []
    if speculation.policy == "schedule" and not speculation.schedule:
        problems.append("speculation.schedule: is required by policy 'schedule', e.g. {4: 8, 16: 4, 32: 1}")
    if speculation.policy != "schedule" and speculation.schedule:
        problems.append("speculation.schedule: only for policy 'schedule'")
    bounds, lengths = list(speculation.schedule), list(speculation.schedule.values())
    if bounds != sorted(bounds):
        problems.append("speculation.schedule: write the numbers of running requests in ascending order")
    if lengths != sorted(lengths, reverse=True):
        problems.append("speculation.schedule: more running requests may not get longer drafts")
    if lengths and max(lengths) > speculation.engine_draft_length:
        problems.append(
            f"speculation.schedule: {max(lengths)} is more than max_draft_length {speculation.engine_draft_length}"
        )
    if speculation.min_draft_length > speculation.draft_length:
        problems.append(f"speculation.min_draft_length: is more than draft_length {speculation.draft_length}")
    return problems


def _runtime_problems(spec: Spec) -> list[str]:
    if spec.runtime != "torch":
        threshold = ["draft.confidence_threshold: only for runtime torch"] if spec.draft.confidence_threshold else []
        return threshold + (["torch: only for runtime torch"] if spec.torch != TorchRuntime() else [])
    problems = _device_problems(spec.torch)
    for role, source in (("target", spec.target), ("draft", spec.draft)):
        problems += [f"{role}.{name}: only for runtime tensorrt_llm" for name in _changed(source, _ENGINE_ONLY)]
        problems += [
            f"{role}.{name}: the torch runtime uses one device; only for runtime tensorrt_llm"
            for name in _changed(source, _PARALLEL)
        ]
    problems += [f"build.{name}: only for runtime tensorrt_llm" for name in _changed(spec.build, _BUILD_ONLY)]
    if spec.baseline is not None:
        problems.append("baseline: only for runtime tensorrt_llm")
    sections: tuple[tuple[str, BaseModel], ...] = (
        ("tensorrt_llm", spec.tensorrt_llm),
        ("calibration", spec.calibration),
    )
    problems += [f"{name}: only for runtime tensorrt_llm" for name, section in sections if section != type(section)()]
    return problems


def _device_problems(torch: TorchRuntime) -> list[str]:
    """Options that say nothing on the device that is given."""
    if torch.device == "cpu":
        return ["torch.compile: only for CUDA, and torch.device is cpu"] if torch.compile else []
    if torch.device == "auto":
        return []
    return [
        f"torch.{name}: only for a CPU, and torch.device is {torch.device}"
        for name in _changed(torch, ("weights", "exact_rows", "threads"))
    ]


# fields that the torch runtime has no use for
_ENGINE_ONLY = ("engine", "quantization", "kv_cache_dtype", "gpus")
_PARALLEL = ("tp", "pp")
_BUILD_ONLY = ("max_input_len", "tokens_per_block", "logits_dtype", "extra_flags")


def _changed(section: BaseModel, names: tuple[str, ...]) -> list[str]:
    """Those of the fields `names` that are not at their default."""
    fields = type(section).model_fields
    return [name for name in names if getattr(section, name) != fields[name].default]


def _port_problems(spec: Spec) -> list[str]:
    serving = spec.serving
    ports = [serving.http_port, serving.grpc_port, serving.metrics_port]
    if serving.openai_port is not None:
        ports.append(serving.openai_port)
    problems = (
        []
        if len(set(ports)) == len(ports)
        else ["serving: http_port, grpc_port, metrics_port and openai_port must differ"]
    )
    if (serving.tls_certificate is None) != (serving.tls_key is None):
        missing = "tls_key" if serving.tls_key is None else "tls_certificate"
        problems.append(f"serving.{missing}: is required with the other of the two")
    return problems
