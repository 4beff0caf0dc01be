"""Rules about which TensorRT-LLM builds the engines, and whether it runs them on the GPU that the spec names."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.errors import SpecError, VersionUnsupported
from trtspec.rules.facts import Facts, each_source
from trtspec.rules.registry import Hit, rule
from trtspec.toolchain.detect import installed_mismatch
from trtspec.toolchain.releases import supports_sm

__all__: list[str] = []

_TABLE = "Triton's compatibility matrix (triton-inference-server/server, docs/introduction/compatibility.md)"


@rule(
    "version-unsupported",
    "CRASH",
    "error",
    title="This TensorRT-LLM cannot build engines, or its flags are not known",
    source="NVIDIA/TensorRT-LLM#15763, #15907, #15918: trtllm-build, converters and backend were removed for 1.3",
    explanation="Engines need trtllm-build and Triton's tensorrtllm backend. Both are gone in the release candidates "
    "of 1.3; before 1.0 flags and converters were others.",
    fix="tensorrt_llm.version: 1.2.1, in the image 26.04-trtllm-python-py3 or newer.",
    example='tensorrt_llm: {version: "1.3.0rc29"}',
)
def _version(facts: Facts) -> Iterator[Hit]:
    error = facts.toolchain_error
    if isinstance(error, VersionUnsupported):
        yield Hit("spec", error.message, error.fix, {"version": error.version})


@rule(
    "version-image-mismatch",
    "CRASH",
    "error",
    title="The version and the image contradict each other, or the image has no known TensorRT-LLM",
    source=f"{_TABLE}; triton-inference-server/tensorrtllm_backend#531, #190, #299, #375",
    explanation="An engine carries the version that built it, and the server refuses any other. The label of a "
    "container is not the version of the library in it: 25.12 carries 1.1.0.",
    fix="Give one of the two, or a pair that fits.",
    example='tensorrt_llm: {version: "1.1.0", image: 26.03-trtllm-python-py3}',
)
def _image(facts: Facts) -> Iterator[Hit]:
    error = facts.toolchain_error
    if isinstance(error, SpecError):
        for problem in error.problems:
            yield Hit("spec", str(problem), error.fix, {"key": problem.path})


@rule(
    "installed-version-differs",
    "CRASH",
    "warning",
    title="The TensorRT-LLM installed here is not the one that the engines are for",
    source=f"{_TABLE}; NVIDIA/TensorRT-LLM#660, #1695, triton-inference-server/server#8462",
    explanation="Engines built with the installed release would be refused by the image that serves them.",
    fix="Build inside the image: trtspec build --in-docker IMAGE.",
    example='tensorrt_llm: {version: "1.2.1"} on a machine with 1.1.0',
)
def _installed(facts: Facts) -> Iterator[Hit]:
    why = installed_mismatch(facts.toolchain) if facts.toolchain is not None else None
    if why is not None and facts.toolchain is not None:
        image = facts.toolchain.image or "IMAGE"
        yield Hit("spec", why, f"trtspec build --in-docker {image}", {"installed": facts.toolchain.installed})


@rule(
    "gpu-too-old",
    "CRASH",
    "error",
    title="The GPU is older than what draft-target engines run on",
    source="the draft-target example of TensorRT-LLM: SM 80 or newer; its support matrix begins at SM 80",
    explanation="T4 (SM 75) and V100 (SM 70) lack the attention kernels that speculation needs; V100 was dropped in "
    "0.16.",
    fix="A30, A10, L4 or newer; or runtime: torch.",
    example="runtime: tensorrt_llm with hardware: {gpu: T4}",
)
def _old(facts: Facts) -> Iterator[Hit]:
    if facts.engines and facts.gpu is not None and facts.gpu.sm < 80:
        message = f"{facts.gpu.name} is SM {facts.gpu.sm}, draft-target engines need SM 80 or newer"
        yield Hit("spec", message, "choose a newer GPU, or set runtime: torch", {"sm": facts.gpu.sm})


@rule(
    "gpu-not-in-version",
    "CRASH",
    "error",
    title="This TensorRT-LLM has no speculative kernels for this GPU",
    source="NVIDIA/TensorRT-LLM#6158: what ran on H100 asserted on B200; support matrix and release notes",
    explanation="Kernels for a new architecture come with a later release; before that an engine builds and fails at "
    "its first speculative request.",
    fix="A newer tensorrt_llm.version, or an older GPU.",
    example='tensorrt_llm: {version: "1.0.0"} with hardware: {gpu: B300}',
)
def _kernels(facts: Facts) -> Iterator[Hit]:
    if facts.toolchain is None or facts.gpu is None or facts.gpu.sm < 80:
        return
    why = supports_sm(facts.toolchain.version, facts.gpu.sm)
    if why is not None:
        data = {"sm": facts.gpu.sm, "version": facts.toolchain.version}
        yield Hit("spec", f"{facts.gpu.name}: {why}", "set tensorrt_llm.version: 1.2.1, or choose another GPU", data)


@rule(
    "gpu-unknown",
    "SILENT",
    "warning",
    title="The GPU's name is not in the catalogue",
    source="trtspec's catalogue of GPUs",
    explanation="Without its memory and compute capability nothing that depends on the GPU is checked or planned.",
    fix="One of the nearest names, or the most similar GPU with hardware.memory_gib.",
    example="hardware: {gpu: H1000}",
)
def _unknown(facts: Facts) -> Iterator[Hit]:
    error = facts.gpu_error
    if error is not None and facts.spec.hardware is not None:
        yield Hit("spec", error.message, error.fix, {"gpu": facts.spec.hardware.gpu})


@rule(
    "gpu-not-given",
    "INFO",
    "note",
    title="No GPU is named: what depends on it is not checked",
    source="precision, kernels and memory depend on the GPU",
    explanation="The build finds the GPU it runs on; the check can only look at the one in the spec.",
    fix="hardware: {gpu: …, count: …}.",
    example="runtime: tensorrt_llm without a hardware section",
)
def _not_given(facts: Facts) -> Iterator[Hit]:
    if facts.spec.hardware is None and any(True for _ in each_source(facts)):
        message = "no hardware section: precision against the GPU, kernels and memory are not checked"
        yield Hit("spec", message, "add hardware: {gpu: H100-80GB-SXM, count: 1}")


@rule(
    "path-missing",
    "CRASH",
    "error",
    title="A file or folder that the spec names is not there",
    source="the step that needs it would fail after the ones before it have run",
    explanation="Engines, converters, calibration texts and prompts are needed late; a wrong path shows up hours in.",
    fix="Correct the path; relative ones start at the folder of trtspec.yaml.",
    example="loadtest: {prompts: ./promts.jsonl}",
)
def _paths(facts: Facts) -> Iterator[Hit]:
    for key, path in facts.missing_paths.items():
        late = key == "loadtest.prompts"  # the pair can be built and served without them
        yield Hit("spec", f"{key}: {path} does not exist", f"correct {key} in the spec",
                  {"path": str(path)}, level="warning" if late else "error")  # fmt: skip


@rule(
    "engine-without-checkpoint",
    "INFO",
    "note",
    title="An engine is given without its checkpoint: the pair is compared as far as engines tell",
    source="an engine's config.json holds no tokenizer",
    explanation="Token ids, end ids and the chat template come from the checkpoint; its weights are not needed.",
    fix="Give the checkpoint folder too (configuration and tokenizer; its weights may be missing).",
    example="target: {engine: ./engines/target}",
)
def _no_checkpoint(facts: Facts) -> Iterator[Hit]:
    for role in facts.roles:
        if facts.source(role).checkpoint is None:
            message = "an engine without its checkpoint: tokenizer, end ids and lengths are not compared"
            yield Hit(role, message, f"add {role}.checkpoint (its weights may be missing)")
