"""Inputs for the rules about repositories: what is done to a right one, and what must be found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.repository.lint.stock import Stock, stock_repository
from trtspec.repository.lint import LintResult, lint_repository
from trtspec.repository.lint.listeners import launch_listeners

__all__ = ["REPOSITORY_CASES", "RepositoryCase"]

Change = Callable[[Stock], None]
TARGET, DRAFT, BLS = "tensorrt_llm", "tensorrt_llm_draft", "tensorrt_llm_bls"
FAST = "speculative_decoding_fast_logits"
NO_FMHA: dict[str, Any] = {"build_config__plugin_config__use_paged_context_fmha": False}


@dataclass(frozen=True)
class RepositoryCase:
    """NVIDIA's repository for a release with a change: then `rule_id` says `text`, at `level`.

    `also` are the other rules that find something; the note on shared memory is not counted.
    """

    rule_id: str
    text: str
    change: Change
    level: str = "error"
    version: str = "1.2"
    draft: bool = True
    image: str | None = None
    launch: str | None = None  # what starts its server
    also: tuple[str, ...] = ()

    def lint(self, root: Path) -> LintResult:
        """What is found in the changed repository."""
        stock = stock_repository(root, self.version, draft=self.draft)
        self.change(stock)
        listeners = launch_listeners(self.launch) if self.launch is not None else ()
        return lint_repository(stock.folder, image=self.image, listeners=listeners)


def as_it_is(_stock: Stock) -> None:
    """No change: the fault is elsewhere."""


def put(model: str, **parameters: str | None) -> Change:
    return lambda stock: stock.set(model, **parameters)


def both(*changes: Change) -> Change:
    def apply(stock: Stock) -> None:
        for change in changes:
            change(stock)

    return apply


def retype(model: str, name: str, type_: str) -> Change:
    return lambda stock: stock.retype(model, name, type_)


def drop(model: str, side: str, name: str) -> Change:
    return lambda stock: stock.drop(model, side, name)


def swap(model: str, old: str, new: str) -> Change:
    return lambda stock: stock.replace(model, old, new)


def engine(role: str, version: str = "1.2.1", **changes: Any) -> Change:
    return lambda stock: stock.rebuild(role, version, **changes)


def configure(model: str, change: Callable[[Any], None]) -> Change:
    """Change the parsed configuration of a model."""

    def apply(stock: Stock) -> None:
        config = stock.config(model)
        change(config)
        stock.save(model, config)

    return apply


def decoupled(*models: str) -> Change:
    def switch(config: Any) -> None:
        config.model_transaction_policy.decoupled = True

    return both(*(configure(model, switch) for model in models))


def batch(model: str, size: int) -> Change:
    def resize(config: Any) -> None:
        config.max_batch_size = size
        if config.HasField("dynamic_batching"):
            config.dynamic_batching.preferred_batch_size[:] = [size]

    return configure(model, resize)


def asks_itself(stock: Stock) -> None:
    """As model.py of the newer BLS does."""
    (stock.folder / BLS / "1" / "model.py").write_text('decoder.load(triton_host_and_port="localhost:8001")\n')


def nothing_left(stock: Stock) -> None:
    shutil.rmtree(stock.folder)
    stock.folder.mkdir()


def one_too_high(stock: Stock) -> None:
    inside = stock.folder.rename(stock.folder.with_name("arm"))
    stock.folder.mkdir()
    inside.rename(stock.folder / "arm")


def notebook(stock: Stock) -> None:
    (stock.folder / ".ipynb_checkpoints").mkdir()


def code_alone(stock: Stock) -> None:
    folder = stock.folder / "tool" / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text("# completes its own configuration\n")


def without_versions(stock: Stock) -> None:
    shutil.rmtree(stock.folder / TARGET / "1")


def without_code(stock: Stock) -> None:
    (stock.folder / BLS / "1" / "model.py").unlink()


def twice(config: Any) -> None:
    config.output.add().CopyFrom(next(item for item in config.output if item.name == "kv_cache_alloc_total_blocks"))


def without_step_model(config: Any) -> None:
    config.ensemble_scheduling.step[0].model_name = "preprocesing"


def wrong_map(config: Any) -> None:
    config.ensemble_scheduling.step[1].input_map["min_length"] = "min_tokens"


def unmapped(config: Any) -> None:
    del config.ensemble_scheduling.step[1].input_map["input_lengths"]


def unmade(config: Any) -> None:
    config.ensemble_scheduling.step[2].input_map["TOKENS_BATCH"] = "_TOKENS"


def empty_engine(stock: Stock) -> None:
    for path in (stock.engines / "target").iterdir():
        path.unlink()


def checkpoint_as_engine(stock: Stock) -> None:
    (stock.engines / "target" / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')


def second_rank_lost(stock: Stock) -> None:
    stock.rebuild("target", pretrained_config__mapping__tp_size=2, pretrained_config__mapping__world_size=2)
    stock.set(TARGET, gpu_device_ids="0,2")
    (stock.engines / "target" / "rank1.engine").unlink()


def delay(config: Any) -> None:
    config.dynamic_batching.max_queue_delay_microseconds = 1000


def preferred(config: Any) -> None:
    config.dynamic_batching.preferred_batch_size[:] = [16]


def one_instance(config: Any) -> None:
    config.instance_group[0].count = 1


def on_gpu(config: Any) -> None:
    config.instance_group[0].kind = 1


def waits(config: Any) -> None:
    config.dynamic_batching.SetInParent()


def third_version(config: Any) -> None:
    config.version_policy.specific.versions.append(3)


def first_and_third_version(config: Any) -> None:
    config.version_policy.specific.versions.extend([1, 3])


def two_ranks(role: str) -> Change:
    return engine(role, pretrained_config__mapping__tp_size=2, pretrained_config__mapping__world_size=2)


FILES = (
    RepositoryCase("repository-empty", "holds no model", nothing_left),
    RepositoryCase("repository-empty", "no folder in it has a config.pbtxt", one_too_high),
    RepositoryCase("repository-config-missing", ".ipynb_checkpoints: has no config.pbtxt", notebook),
    RepositoryCase("repository-config-missing", "tool: has no config.pbtxt", code_alone, "warning"),
    RepositoryCase(
        "repository-config-unparsable",
        'tensorrt_llm/config.pbtxt:1: cannot be parsed: Message type "inference.ModelConfig" has no field named "nam"',
        swap(TARGET, 'name: "tensorrt_llm"', 'nam: "tensorrt_llm"'),
    ),
    RepositoryCase(
        "repository-placeholder",
        "tensorrt_llm_bls/config.pbtxt:2: ${triton_max_batch_size} was not filled in: the model does not load",
        swap(BLS, "max_batch_size: 8", "max_batch_size: ${triton_max_batch_size}"),
    ),
    RepositoryCase(
        "repository-placeholder",
        "${max_beam_width} in parameter max_beam_width was not filled in: it counts as not given",
        put(TARGET, max_beam_width="${max_beam_width}"),
        "warning",
    ),
    RepositoryCase(
        "repository-placeholder",
        "${engine_dir} in parameter gpt_model_path was not filled in: the model does not load",
        put(TARGET, gpt_model_path="${engine_dir}"),
    ),
    RepositoryCase(
        "repository-model-name",
        'tensorrt_llm_draft/config.pbtxt:1: name is "tensorrt_llm", the folder is tensorrt_llm_draft',
        swap(DRAFT, 'name: "tensorrt_llm_draft"', 'name: "tensorrt_llm"'),
    ),
    RepositoryCase("repository-version-folder", "has no version folder", without_versions),
    RepositoryCase("repository-version-folder", "its version folder 1 has no model.py", without_code),
    RepositoryCase("repository-version-folder", "version_policy names 3, there is 1", configure(BLS, third_version)),
    RepositoryCase(
        "repository-version-folder",
        "version_policy names 3, there is 1",
        configure(BLS, first_and_third_version),
        "warning",
    ),
    RepositoryCase(
        "repository-duplicate-tensor",
        "declares the output kv_cache_alloc_total_blocks 2 times",
        configure("ensemble", twice),
        "warning",
    ),
    RepositoryCase(
        "repository-duplicate-tensor",
        "declares the output kv_cache_alloc_total_blocks 2 times",
        configure(TARGET, twice),
    ),
)  # fmt: skip
PARAMETERS = (
    RepositoryCase(
        "repository-parameter-unknown",
        "parameter kv_cache_free_gpu_memory_fraction is not read by TensorRT-LLM 1.2.1",
        put(TARGET, kv_cache_free_gpu_memory_fraction="0.5"),
        "warning",
    ),
    RepositoryCase("repository-parameter-unknown", "the backend refuses it", put(DRAFT, worker_path="/worker")),
    RepositoryCase(
        "repository-parameter-unknown",
        "called return_perf_metrics since 0.19",
        put(TARGET, return_kv_cache_reuse_stats="true"),
        "warning",
    ),
    RepositoryCase(
        "repository-parameter-unknown",
        "enable_trt_overlap is read since 1.2, not by TensorRT-LLM 1.0.0",
        put(TARGET, enable_trt_overlap="true"),
        "warning",
        version="1.0",
    ),
    RepositoryCase(
        "repository-parameter-unknown",
        "parameter tensorrt_llm_draft_model is not read by the bls model",
        put(BLS, tensorrt_llm_draft_model="x"),
        "warning",
    ),
    RepositoryCase(
        "repository-parameter-value",
        "parameter enable_chunked_context: 'yes' is no boolean",
        put(TARGET, enable_chunked_context="yes"),
    ),
    RepositoryCase(
        "repository-parameter-value",
        "'90%' is no number",
        put(TARGET, kv_cache_free_gpu_mem_fraction="90%"),
    ),
    RepositoryCase(
        "repository-parameter-missing",
        "parameter guided_decoding_backend is not there",
        put(TARGET, guided_decoding_backend=None),
    ),
    RepositoryCase(
        "repository-parameter-missing",
        "parameter tokenizer_dir is empty",
        put("postprocessing", tokenizer_dir=""),
    ),
    RepositoryCase(
        "repository-input-name",
        "TensorRT-LLM 1.2.1 does not read an input min_length",
        swap(TARGET, 'name: "min_tokens"', 'name: "min_length"'),
        also=("repository-ensemble-map", "repository-tensor-missing"),
    ),
    RepositoryCase(
        "repository-input-name",
        "does not read an input return_kv_cache_reuse_stats",
        swap(DRAFT, 'name: "return_log_probs"', 'name: "return_kv_cache_reuse_stats"'),
        also=("repository-tensor-missing",),
    ),
)
CALLS = (
    RepositoryCase(
        "repository-model-unknown",
        "tensorrt_llm_draft_model_name names tensorrt_llm_drafts, and there is no such model",
        put(BLS, tensorrt_llm_draft_model_name="tensorrt_llm_drafts"),
        also=("repository-draft-unused",),
    ),
    RepositoryCase(
        "repository-model-unknown",
        "a step of the ensemble names preprocesing",
        configure("ensemble", without_step_model),
    ),
    RepositoryCase(
        "repository-draft-unused",
        "tensorrt_llm_draft/config.pbtxt: no model calls it",
        put(BLS, tensorrt_llm_draft_model_name=""),
        "warning",
    ),
    RepositoryCase(
        "repository-tensor-missing",
        "uses the input draft_input_ids of tensorrt_llm for every request",
        drop(TARGET, "input", "draft_input_ids"),
    ),
    RepositoryCase(
        "repository-tensor-missing",
        "uses the input min_tokens of tensorrt_llm_draft for requests with min_tokens",
        drop(DRAFT, "input", "min_tokens"),
        "warning",
    ),
    RepositoryCase(
        "repository-tensor-missing",
        "uses the output STOP_WORDS_IDS of preprocessing",
        drop("preprocessing", "output", "STOP_WORDS_IDS"),
        also=("repository-ensemble-map", "repository-ensemble-flow"),
    ),
    RepositoryCase(
        "repository-tensor-differs",
        "declares input_ids as TYPE_INT64 [-1], the backend has TYPE_INT32 [-1]",
        retype(DRAFT, "input_ids", "TYPE_INT64"),
    ),
    RepositoryCase(
        "repository-tensor-differs",
        "sends the input temperature of tensorrt_llm as TYPE_FP64 [1], it is TYPE_FP32 [1]",
        retype(BLS, "temperature", "TYPE_FP64"),
    ),
    RepositoryCase(
        "repository-ensemble-map",
        "the step tensorrt_llm maps the input min_length",
        configure("ensemble", wrong_map),
    ),
    RepositoryCase(
        "repository-ensemble-map",
        "the step tensorrt_llm gives no input_lengths, which that model needs",
        configure("ensemble", unmapped),
    ),
    RepositoryCase(
        "repository-ensemble-flow",
        "postprocessing.TOKENS_BATCH takes _TOKENS, which nothing makes",
        configure("ensemble", unmade),
    ),
    RepositoryCase(
        "repository-ensemble-flow",
        "top_p is TYPE_INT32 [1] from the ensemble's input top_p, and TYPE_FP32 [1] at tensorrt_llm.runtime_top_p",
        retype("ensemble", "top_p", "TYPE_INT32"),
    ),
)
ENGINES = (
    RepositoryCase("repository-engine-missing", "is not there", put(TARGET, gpt_model_path="/engines/gone")),
    RepositoryCase("repository-engine-missing", "is empty", empty_engine),
    RepositoryCase("repository-engine-missing", "is that of a Hugging Face checkpoint", checkpoint_as_engine),
    RepositoryCase(
        "repository-engine-unseen",
        "s3://bucket/engines/target was not looked at",
        put(TARGET, gpt_model_path="s3://bucket/engines/target"),
        "note",
    ),
    RepositoryCase(
        "repository-engine-files", "is an engine of 2 ranks, missing or empty: rank1.engine", second_rank_lost
    ),
    RepositoryCase(
        "repository-engine-version",
        "its engine is of TensorRT-LLM 1.2.1, the image 26.03 carries 1.2.0",
        as_it_is,
        image="26.03",
    ),
    RepositoryCase(
        "repository-engine-version",
        "tensorrt_llm_draft/config.pbtxt: its engine is of TensorRT-LLM 1.1.0, the engine of tensorrt_llm is of 1.2.1",
        engine("draft", "1.1.0", build_config__max_seq_len=8192),
        also=("repository-parameter-unknown",),
    ),
    RepositoryCase(
        "repository-engine-version",
        "was removed after 1.2",
        engine("draft", "1.3.0", build_config__max_seq_len=8192),
    ),
    RepositoryCase(
        "repository-image-unknown",
        "which TensorRT-LLM registry.example/llm:latest carries is not known",
        as_it_is,
        "note",
        image="registry.example/llm:latest",
    ),
    RepositoryCase(
        "repository-engine-limits",
        "max_batch_size 8 is more than the engine's max_batch_size 4",
        engine("target", build_config__max_batch_size=4),
    ),
    RepositoryCase(
        "repository-engine-limits",
        "max_beam_width 4 is more than the engine's max_beam_width 1",
        put(TARGET, max_beam_width="4"),
        also=("repository-not-for-pairs",),
    ),
    RepositoryCase(
        "repository-target-without-drafts",
        "its engine takes no draft tokens (mode NONE, max_draft_len 0)",
        engine("target", build_config__speculative_decoding_mode=1, build_config__max_draft_len=0,
               build_config__max_seq_len=8192),
    ),
    RepositoryCase(
        "repository-draft-smaller",
        "max_batch_size 4 is smaller than that of tensorrt_llm, 8",
        batch(DRAFT, 4),
        "warning",
    ),
    RepositoryCase(
        "repository-draft-smaller",
        "the engine's max_seq_len 4096 is smaller than that of tensorrt_llm, 8192",
        engine("draft", build_config__max_seq_len=4096),
        "warning",
    ),
)  # fmt: skip
SPECULATION = (
    RepositoryCase(
        "repository-decoupled",
        "tensorrt_llm_bls is, tensorrt_llm is not, tensorrt_llm_draft is not",
        decoupled(BLS),
    ),
    RepositoryCase("repository-decoupled", "NVIDIA's BLS cannot speculate", decoupled(BLS, TARGET, DRAFT)),
    RepositoryCase(
        "repository-kv-reuse",
        "KV cache reuse is off",
        put(DRAFT, enable_kv_cache_reuse="false"),
        "warning",
    ),
    RepositoryCase(
        "repository-needs-paged-fmha",
        "enable_chunked_context is on, and its engine was built without paged context FMHA",
        both(put(TARGET, enable_chunked_context="true"), engine("target", **NO_FMHA)),
    ),
    RepositoryCase("repository-not-for-pairs", "decoding_mode is medusa", put(TARGET, decoding_mode="medusa")),
    RepositoryCase(
        "repository-not-for-pairs",
        "cross_kv_cache_fraction is set, and the model has no encoder",
        put(DRAFT, cross_kv_cache_fraction="0.5"),
    ),
    RepositoryCase(
        "repository-prompt-excluded",
        "exclude_input_in_output is true: tensorrt_llm_bls cuts drafts out wrongly",
        put(DRAFT, exclude_input_in_output="true"),
    ),
    RepositoryCase(
        "repository-logits-type",
        "declares generation_logits as TYPE_FP32, its engine gives float16",
        engine("target", pretrained_config__logits_dtype="float16"),
    ),
    RepositoryCase(
        "repository-logits-type",
        "draft_logits is TYPE_FP16, and TYPE_FP32 in tensorrt_llm_draft (generation_logits)",
        retype(TARGET, "draft_logits", "TYPE_FP16"),
    ),
    RepositoryCase(
        "repository-fast-logits",
        "is on here and not in tensorrt_llm: one of them reads a handle as logits",
        put(DRAFT, **{FAST: "1"}),
    ),
    RepositoryCase(
        "repository-fast-logits",
        "has no participant_ids: it will be switched off",
        both(put(DRAFT, **{FAST: "1"}), put(TARGET, **{FAST: "1"})),
        "warning",
    ),
)
MACHINE = (
    RepositoryCase(
        "repository-kv-fractions",
        "0.9 here and 0.9 in tensorrt_llm_draft on GPU 0: together 1.8",
        put(DRAFT, gpu_device_ids="0"),
        "warning",
    ),
    RepositoryCase(
        "repository-gpu-ids",
        'gpu_device_ids "0" names 1 GPU, its engine has 2 ranks (tp 2, pp 1)',
        two_ranks("target"),
    ),
    RepositoryCase(
        "repository-participant-ids",
        "participant_ids has rank 1, which is tensorrt_llm's",
        both(put(TARGET, participant_ids="1"), put(DRAFT, participant_ids="1")),
    ),
    RepositoryCase(
        "repository-participant-ids",
        "participant_ids has rank 0, which is the orchestrator's",
        both(put(TARGET, participant_ids="0"), put(DRAFT, participant_ids="1")),
    ),
    RepositoryCase(
        "repository-participant-ids", "has no participant_ids, tensorrt_llm has", put(TARGET, participant_ids="1")
    ),
    RepositoryCase(
        "repository-participant-ids",
        "participant_ids names 2 ranks, its engine has 1",
        both(put(TARGET, participant_ids="1,2"), put(DRAFT, participant_ids="3")),
    ),
    RepositoryCase(
        "repository-bls-instances",
        "1 instance of NVIDIA's BLS before tensorrt_llm with max_batch_size 8",
        configure(BLS, one_instance),
        "warning",
    ),
    RepositoryCase(
        "repository-batching-useless", "max_queue_delay_microseconds 1000", configure(TARGET, delay), "warning"
    ),
    RepositoryCase(
        "repository-batching-useless",
        "preferred_batch_size 16 is more than max_batch_size 8",
        configure(TARGET, preferred),
    ),
    RepositoryCase("repository-batching-useless", "of KIND_GPU", configure(TARGET, on_gpu), "warning"),
    RepositoryCase("repository-batching-useless", "it takes requests one by one", configure(BLS, waits), "warning"),
    RepositoryCase("repository-shared-memory", "need 640 MiB of /dev/shm", as_it_is, "note"),
)
PORTS = (
    RepositoryCase(
        "repository-ports",
        "port 8001 is http and grpc",
        as_it_is,
        launch="exec tritonserver --model-repository=/models --http-port=8001",
    ),
    RepositoryCase(
        "repository-ports",
        "port 9000 is grpc and metrics",
        as_it_is,
        launch='command: ["tritonserver", "--grpc-port", "9000", "--metrics-port", "9000"]',
    ),
    RepositoryCase(
        "repository-ports",
        "port 8002 is http and metrics",
        as_it_is,
        launch="python3 launch_triton_server.py --world_size 1 --http_port 8002",
    ),
    RepositoryCase("repository-bls-port", "from localhost:8001 by gRPC", asks_itself, "note"),
    RepositoryCase(
        "repository-bls-port",
        "from localhost:8001 by gRPC, and gRPC will be on 9001: speculative requests fail",
        asks_itself,
        launch="tritonserver --grpc-port=9001",
    ),
)
REPOSITORY_CASES = (*FILES, *PARAMETERS, *CALLS, *ENGINES, *SPECULATION, *MACHINE, *PORTS)
