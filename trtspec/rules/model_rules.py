"""Rules about the models themselves: architecture, head, rope scaling, size, code in the folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from trtspec.checkpoints import ModelConfig, RopeScaling, Survey, architecture_support
from trtspec.rules.facts import MODEL_ROLES, Facts, ModelRole
from trtspec.rules.registry import Hit, rule
from trtspec.units import count_text

__all__: list[str] = []

_RUNTIMES = {"torch": "the torch runtime", "tensorrt_llm": "TensorRT-LLM's engine builder"}


@rule(
    "architecture-unknown",
    "CRASH",
    "error",
    title="The architecture is not one that the runtime can serve",
    source="model map of TensorRT-LLM 1.0 to 1.2; transformers' causal language models",
)
def _architecture(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        config = facts.surveys[role].config
        if config is None:
            continue
        if config.architecture is None:
            message = "config.json names no architecture"
            fix = f'add "architectures": ["…ForCausalLM"] to {facts.surveys[role].folder / "config.json"}'
            yield Hit(role, message, fix, {"architecture": None})
        else:
            yield from _supported(facts, role, config.architecture)


def _supported(facts: Facts, role: ModelRole, name: str) -> Iterator[Hit]:
    runtime = facts.spec.runtime
    support = architecture_support(name, runtime)
    data = {"architecture": name, "support": support}
    if support == "other_runtime":
        yield Hit(role, f"{name} cannot be built by {_RUNTIMES[runtime]} 1.0 to 1.2", "set runtime: torch", data)
    elif support == "recurrent":
        message = f"{name} keeps a running state, which cannot go back to before a rejected draft token"
        yield Hit(role, message, "choose a model with attention only", data)
    elif support == "not_causal":
        yield Hit(role, f"{name} is no causal language model", "choose a …ForCausalLM checkpoint", data)
    elif support == "unknown" and runtime == "tensorrt_llm":
        yield Hit(role, f"{name} is not in {_RUNTIMES[runtime]}'s model map", "set runtime: torch", data)
    elif support == "unknown":
        message = f"{name} is not among the architectures known here; {_RUNTIMES[runtime]} will try it"
        yield Hit(role, message, "trtspec build tells at once", data, level="warning")


@rule(
    "remote-code",
    "CRASH",
    "error",
    title="The checkpoint needs Python code that it carries",
    source="auto_map in config.json; code from a folder runs only when the spec allows it",
)
def _remote_code(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        config = facts.surveys[role].config
        if config is None or not config.remote_code:
            continue
        name = config.architecture or "the model"
        known = config.architecture is not None and architecture_support(config.architecture, "torch") == "supported"
        source = facts.spec.draft if role == "draft" else facts.spec.target
        if known and not source.trust_remote_code:
            message = f"the folder carries Python code (auto_map); it is not run, {name} is built in"
            yield Hit(role, message, None, {"trusted": False}, level="note")
        elif source.trust_remote_code:
            message = f"Python code from the folder will run ({role}.trust_remote_code)"
            yield Hit(role, message, "read it first", {"trusted": True}, level="warning")
        else:
            message = f"{name} is defined by Python code in the folder (auto_map), which trtspec does not run by itself"
            yield Hit(role, message, f"read the code, then set {role}.trust_remote_code: true", {"trusted": False})


# model types whose class does not tie the head to the embedding unless config.json says so
_UNTIED = frozenset(
    {"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi", "phi3", "gpt_neox", "gptj",
     "deepseek", "deepseek_v2", "deepseek_v3", "olmo", "olmo2", "olmoe", "stablelm", "internlm2", "baichuan", "granite"}
)  # fmt: skip


@rule(
    "head-missing",
    "CRASH",
    "error",
    title="No output head, and the embedding is not said to serve as one",
    source="NVIDIA/TensorRT-LLM#1733, #1675, #1785, #2232: small tied models failed conversion",
)
def _head(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        survey = facts.surveys[role]
        if survey.config is None or survey.weights is None or survey.weights.head is not None:
            continue
        if survey.config.tied:
            continue
        path = survey.folder / "config.json"
        fix = f'if the model ties them, add "tie_word_embeddings": true to {path}; else fetch the checkpoint again'
        said = "is false" if survey.config.tied is False else "is not given"
        sure = survey.config.tied is False or survey.config.model_type in _UNTIED
        message = f"the weights have no lm_head, and tie_word_embeddings {said} in config.json"
        yield Hit(role, message, fix, {"tied": survey.config.tied}, level="error" if sure else "note")


# kind → fields that it needs (transformers' modeling_rope_utils), and the transformers release that brought it
_ROPE_FIELDS: dict[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    "mrope": ("mrope_section",),
    "proportional": (),
}
_ROPE_SINCE = {"llama3": "4.43", "longrope": "4.43", "yarn": "4.43", "mrope": "4.45", "proportional": "5.0"}


@rule(
    "rope-scaling",
    "SILENT",
    "error",
    title="Rope scaling lacks fields of its kind, or is of an unknown kind",
    source="NVIDIA/TensorRT-LLM#2105, #2471, #2302: `type` became `rope_type`, llama3 brought four fields",
)
def _rope(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        config = facts.surveys[role].config
        for scaling in config.rope if config else ():
            yield from _rope_hits(role, facts.surveys[role], scaling)


def _rope_hits(role: ModelRole, survey: Survey, scaling: RopeScaling) -> Iterator[Hit]:
    fix = f"copy {scaling.where} from the model's original {survey.folder / 'config.json'}"
    data = {"kind": scaling.kind, "where": scaling.where}
    if scaling.kind is None:
        yield Hit(role, f"{scaling.where} names no kind (rope_type, or type in older files)", fix, data)
        return
    if scaling.kind not in _ROPE_FIELDS:
        known = ", ".join(_ROPE_FIELDS)
        message = f"{scaling.where} is of the unknown kind {scaling.kind!r} (known: {known})"
        yield Hit(role, message, fix, data, level="warning")
        return
    missing = [name for name in _ROPE_FIELDS[scaling.kind] if scaling.fields.get(name) is None]
    if missing:
        needs = f"rope kind {scaling.kind} needs {', '.join(_ROPE_FIELDS[scaling.kind])}"
        since = _ROPE_SINCE.get(scaling.kind)
        version = f" (transformers {since} or newer writes them)" if since else ""
        message = f"{scaling.where}: {needs}; missing: {', '.join(missing)}{version}"
        yield Hit(role, message, fix, {**data, "missing": missing})
        return
    yield from _rope_values(role, scaling, fix)


def _rope_values(role: ModelRole, scaling: RopeScaling, fix: str) -> Iterator[Hit]:
    fields, where = scaling.fields, scaling.where
    data = {"kind": scaling.kind, "where": where}
    factor = fields.get("factor")
    if factor is not None and not (_number(factor) and factor >= 1):
        yield Hit(role, f"{where}.factor is {factor!r}, a number of at least 1 is expected", fix, data)
    low, high = fields.get("low_freq_factor"), fields.get("high_freq_factor")
    if scaling.kind == "llama3" and not _ascending(low, high):
        message = f"{where}: low_freq_factor {low!r} must be a number below high_freq_factor {high!r}"
        yield Hit(role, message, fix, data)


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _ascending(low: object, high: object) -> bool:
    return _number(low) and _number(high) and low < high


@rule(
    "config-incomplete",
    "INFO",
    "note",
    title="config.json leaves sizes to the model family's defaults",
    source="transformers fills them from the configuration class",
)
def _incomplete(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        config = facts.surveys[role].config
        missing = _missing_sizes(config) if config else []
        if missing:
            yield Hit(role, f"config.json does not state {', '.join(missing)}", None, {"missing": missing})


def _missing_sizes(config: ModelConfig) -> list[str]:
    wanted = {
        "layers": config.layers,
        "hidden size": config.hidden,
        "attention heads": config.heads,
        "vocab_size": config.vocab_size,
        "length": config.max_positions,
    }
    return [name for name, value in wanted.items() if value is None]


@rule(
    "quantized-checkpoint",
    "CRASH",
    "warning",
    title="The checkpoint's weights are quantised",
    source="quantization_config in config.json; NVIDIA/TensorRT-LLM#1113, #2559",
)
def _quantized(facts: Facts) -> Iterator[Hit]:
    for role in MODEL_ROLES:
        config = facts.surveys[role].config
        if config is not None and config.quantization is not None and facts.spec.runtime == "torch":
            message = f"weights are quantised ({config.quantization}); the torch runtime needs plain ones"
            yield Hit(role, message, "use the unquantised checkpoint", {"method": config.quantization})


@rule(
    "draft-not-smaller",
    "PERF",
    "warning",
    title="The draft is not smaller than the target",
    source="a round costs one target pass and draft_length draft passes: it pays only when those are cheap",
)
def _size(facts: Facts) -> Iterator[Hit]:
    target, draft = facts.surveys["target"].weights, facts.surveys["draft"].weights
    if target is None or draft is None or not target.parameters:
        return
    ratio = draft.parameters / target.parameters
    data = {"ratio": ratio, "target": target.parameters, "draft": draft.parameters}
    if facts.same_folder:
        message = "target and draft are the same checkpoint: a control in which all is accepted, never a speed-up"
        yield Hit("pair", message, "give a smaller model as draft", data)
    elif ratio >= 1:
        sizes = f"{count_text(draft.parameters)} parameters, the target {count_text(target.parameters)}"
        yield Hit("pair", f"the draft has {sizes}", "exchange the two, or choose a smaller draft", data)
    elif ratio > 0.5:
        yield Hit("pair", f"the draft is {ratio:.0%} of the target's size: drafting will cost much", None, data, "note")
