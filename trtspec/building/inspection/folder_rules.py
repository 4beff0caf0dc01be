"""Rules about the folder of an engine: is it one, of which runtime, whole, and for which GPU and version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trtspec.building.inspection.engine_config import CONFIG, EngineConfig
from trtspec.building.inspection.facts import BOTH_RUNTIMES, EngineFacts, InspectedEngine, engine_rule, rebuild
from trtspec.errors import VersionUnsupported
from trtspec.rules.registry import Hit, rule
from trtspec.toolchain.releases import images_for, same_release

__all__ = ["missing_ranks"]

_RANK = re.compile(r"rank(\d+)\.engine")


@rule(
    "engine-unreadable",
    "CRASH",
    "error",
    subject="engine",
    title="The engine folder cannot be read",
    source="triton-inference-server/tensorrtllm_backend#61, #207, #500: the server fails on an empty JSON document",
    explanation="An engine is a folder with config.json and one engine file a rank. A folder that is empty, another "
    "folder, or a config.json that lacks what the runtime reads stops the server while it loads the model.",
    fix="Give the folder that trtllm-build wrote, as seen from where the server runs.",
    example="an empty folder, or config.json without build_config.max_seq_len",
)
def _unreadable(facts: EngineFacts) -> Iterator[Hit]:
    for engine in facts.engines:
        for problem in engine.problems:
            where = f"{engine.folder / CONFIG}: {problem}" if problem.path else f"{engine.folder} {problem.message}"
            data = {"folder": str(engine.folder), "file": CONFIG, "key": problem.path or None}
            yield Hit(engine.role, f"the {engine.role} engine cannot be used: {where}", rebuild(engine), data)


@engine_rule(
    "engine-runtime",
    "CRASH",
    "error",
    title="The engine belongs to another runtime",
    source="trtspec's torch runtime writes folders of the same shape with runtime: torch",
    explanation="An engine of the torch runtime holds safetensors, one of TensorRT-LLM compiled networks; neither "
    "runtime can load the other's.",
    fix="Build the engine with the spec's runtime.",
    example="runtime: tensorrt_llm with an engine folder that holds model.safetensors",
    runtimes=BOTH_RUNTIMES,
)
def _runtime(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted = engine.expectation.runtime
    if config.runtime != wanted:
        message = f"{engine.folder} is an engine of runtime {config.runtime}, the spec says {wanted}"
        yield Hit(engine.role, message, rebuild(engine), {"runtime": config.runtime, "expected": wanted})


@engine_rule(
    "engine-version",
    "CRASH",
    "error",
    title="The engine was built by another version of TensorRT-LLM than will run it",
    source="triton-inference-server/tensorrtllm_backend#531, #190, #299, #375; NVIDIA/TensorRT-LLM#660, #1695; "
    "triton-inference-server/server#8462",
    explanation="An engine loads only in the version that built it: it holds a serialised TensorRT plan. The label of "
    "a container is not the version of the library in it.",
    fix="Serve with an image that carries the engine's version, or build the engine in the image that serves.",
    example='{"version": "1.1.0"} with tensorrt_llm: {image: 26.03-trtllm-python-py3}, which carries 1.2.0',
)
def _version(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted = engine.expectation.version
    if wanted is None:
        return
    data = {"version": config.version, "expected": wanted}
    try:
        if same_release(config.version, wanted):
            return
        images = images_for(config.version)
    except VersionUnsupported as error:
        yield Hit(engine.role, f"the {engine.role} engine's {CONFIG}: {error.message}", rebuild(engine), data)
        return
    runs = f"{engine.expectation.image} carries {wanted}" if engine.expectation.image else f"{wanted} will run it"
    message = f"the {engine.role} engine was built by TensorRT-LLM {config.version}, {runs}"
    fits = f"set tensorrt_llm.image to one with {config.version} ({', '.join(images)}), or " if images else ""
    yield Hit(engine.role, message, f"{fits}build the engine again with {wanted}", {**data, "images": list(images)})


@engine_rule(
    "engine-gpu",
    "CRASH",
    "error",
    title="The engine was built for another GPU architecture",
    source="NVIDIA/TensorRT-LLM#3031, #222; NVIDIA/TensorRT#2900",
    explanation="A TensorRT plan is compiled for one compute capability and does not load on another.",
    fix="Build the engine on the kind of GPU that will serve it.",
    example="built on L4 (SM 89), hardware: {gpu: H100-80GB-SXM} (SM 90)",
)
def _gpu(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted = engine.expectation.sm
    if wanted is None or engine.sm is None or engine.sm == wanted:
        return
    gpu = f"{engine.expectation.gpu} (SM {wanted})" if engine.expectation.gpu else f"a GPU with SM {wanted}"
    built = f" on {config.built_on}" if config.built_on else ""
    message = f"the {engine.role} engine was built{built} for SM {engine.sm}, it will run on {gpu}"
    yield Hit(engine.role, message, f"build it on {gpu}", {"sm": engine.sm, "expected": wanted})


def missing_ranks(config: EngineConfig, files: dict[str, int]) -> list[str]:
    """Names of the engine files that are absent or empty, one a rank."""
    names = (
        ["model.safetensors"] if config.runtime == "torch" else [f"rank{n}.engine" for n in range(config.world_size)]
    )
    return [name for name in names if not files.get(name)]


@engine_rule(
    "engine-files",
    "CRASH",
    "error",
    title="There is not one engine file for each rank",
    source="triton-inference-server/tensorrtllm_backend#61: every rank loads rankN.engine from the engine folder",
    explanation="Each rank (tp × pp) loads its own rankN.engine. A file that is missing, empty, or left over from "
    "another build stops the server, or runs a mixture of two builds.",
    fix="Copy the whole engine folder, or build it again.",
    example='{"mapping": {"world_size": 2}} and no rank1.engine',
    runtimes=BOTH_RUNTIMES,
)
def _files(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    lacking = missing_ranks(config, dict(engine.files))
    absent = [name for name in lacking if name not in engine.files]
    empty = [name for name in lacking if name in engine.files]
    ranks = f"{config.world_size} rank{'' if config.world_size == 1 else 's'}"
    if absent:
        message = f"the {engine.role} engine has {ranks}, not there: {', '.join(absent)}"
        yield Hit(engine.role, f"{message} ({engine.folder})", rebuild(engine), {"missing": absent})
    if empty:
        message = f"files of the {engine.role} engine are empty: {', '.join(empty)} ({engine.folder})"
        yield Hit(engine.role, message, rebuild(engine), {"empty": empty})
    found = [int(match[1]) for name in engine.files if (match := _RANK.fullmatch(name))]
    extra = [f"rank{number}.engine" for number in sorted(found) if number >= config.world_size]
    if extra and config.runtime != "torch":
        message = (
            f"the {engine.role} engine has {ranks}, but there is also {', '.join(extra)}: left from another build?"
        )
        yield Hit(engine.role, f"{message} ({engine.folder})", rebuild(engine), {"extra": extra})


@engine_rule(
    "engine-managed-weights",
    "CRASH",
    "error",
    title="A fast build's weights are not beside the engine",
    source="trtllm-build --fast_build writes rankN_managed_weights.safetensors (tensorrt_llm/builder.py)",
    explanation="With --fast_build the weights are not in the engine but in a file beside it, one a rank.",
    fix="Copy the whole engine folder, or build without --fast_build.",
    example="built with --fast_build, no rank0_managed_weights.safetensors",
)
def _managed_weights(engine: InspectedEngine, config: EngineConfig) -> Iterator[Hit]:
    wanted = engine.expectation.managed_weights
    if wanted is not None and wanted != config.manage_weights:
        state = "on" if config.manage_weights else "off"
        message = f"fast_build was {'asked for' if wanted else 'not asked for'}, the engine has manage_weights {state}"
        yield Hit(engine.role, f"{engine.role}: {message}", rebuild(engine), {"manage_weights": config.manage_weights})
    if config.manage_weights:
        names = [f"rank{number}_managed_weights.safetensors" for number in range(config.world_size)]
        lacking = [name for name in names if not engine.files.get(name)]
        if lacking:
            message = f"the {engine.role} engine keeps its weights beside it, not there: {', '.join(lacking)}"
            yield Hit(engine.role, f"{message} ({engine.folder})", rebuild(engine), {"missing": lacking})
