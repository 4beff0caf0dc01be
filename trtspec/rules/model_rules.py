"""Rules about what config.json says of a model: its head, rope scaling, and sizes; and about the size of the draft."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from trtspec.checkpoints import ModelConfig, RopeScaling, Survey
from trtspec.checkpoints.families import family_of
from trtspec.rules.facts import Facts, ModelRole, each_config
from trtspec.rules.registry import Hit, rule

__all__: list[str] = []


@rule(
    "head-missing",
    "CRASH",
    "error",
    title="No output head, and the embedding is not said to serve as one",
    source="NVIDIA/TensorRT-LLM#1733, #1675, #1785, #2232: small tied models failed conversion",
    explanation="Small models reuse the embedding as output head and store it once. The converter looks for lm_head "
    "unless config.json says that the two are tied.",
    fix='Add "tie_word_embeddings": true to config.json if the model ties them, else fetch the checkpoint again.',
    example='no lm_head.weight in the shards, {"tie_word_embeddings": false}',
)
def _head(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        survey = facts.surveys[role]
        family = family_of(config.architecture, config.model_type)
        tied = config.tied if config.tied is not None or family is None else family.tied
        if tied or _has_head(survey) is not False:
            continue
        path = survey.folder / "config.json"
        fix = f'if the model ties them, add "tie_word_embeddings": true to {path}; else fetch the checkpoint again'
        said = "is false" if config.tied is False else "is not given"
        message = f"the weights have no lm_head, and tie_word_embeddings {said} in config.json"
        yield Hit(role, message, fix, {"tied": config.tied}, level="note" if tied is None else "error")


def _has_head(survey: Survey) -> bool | None:
    """Whether the weights, or at least their index, list an output head; None: neither can be read."""
    if survey.weights is not None:
        return survey.weights.head is not None
    return survey.index.has_head if survey.index is not None else None


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
# tensorrt_llm.functional.RotaryScalingType; from_string answers `none` for every other word
_ENGINE_ROPE = ("linear", "dynamic", "longrope", "llama3", "yarn", "mrope")


@rule(
    "rope-scaling",
    "SILENT",
    "error",
    title="Rope scaling lacks fields of its kind, or is of an unknown kind",
    source="NVIDIA/TensorRT-LLM#2105, #2471, #2302: `type` became `rope_type`, llama3 brought four fields",
    explanation="Rotary positions are stretched as the model was trained. A field that is missing or renamed is read "
    "as its default, or stops the conversion.",
    fix="Copy the section from the model's original config.json.",
    example='{"rope_scaling": {"rope_type": "llama3", "factor": 8.0}} without low_freq_factor, high_freq_factor, …',
)
def _rope(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        for scaling in config.rope:
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
    """llama3 interpolates between the two; Llama 4 sets both to 1 and has no band between them."""
    return _number(low) and _number(high) and low <= high and not (low == high != 1)


@rule(
    "rope-kind-ignored",
    "SILENT",
    "error",
    title="TensorRT-LLM does not know this kind of rope scaling and leaves it out",
    source="tensorrt_llm/functional.py RotaryScalingType.from_string: linear, dynamic, longrope, llama3, yarn, mrope, "
    "else none; NVIDIA/TensorRT-LLM#1385",
    explanation="The engine would be built without any scaling: answers repeat themselves beyond the native length.",
    fix="Set runtime: torch, or choose a model with one of these kinds.",
    example='runtime: tensorrt_llm with {"rope_scaling": {"rope_type": "proportional"}}',
)
def _rope_ignored(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        kinds = [scaling.kind for scaling in config.rope if scaling.kind and scaling.kind not in _ENGINE_ROPE]
        if facts.engines and kinds:
            message = f"TensorRT-LLM reads rope kind {kinds[0]!r} as none: positions would not be scaled"
            yield Hit(role, message, "set runtime: torch", {"kind": kinds[0]})


@rule(
    "sizes-contradict",
    "CRASH",
    "error",
    title="Sizes in config.json contradict each other",
    source="transformers' and TensorRT-LLM's attention: heads share the hidden size where no head_dim is given, "
    "and each KV head serves equally many query heads; a token is sent to experts that are there",
    explanation="No loader can build such a model: the shapes of its weights would not fit together.",
    fix="Copy config.json from the model's original checkpoint.",
    example='{"hidden_size": 4096, "num_attention_heads": 33}',
)
def _contradicting(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        fix = f"copy {facts.surveys[role].folder / 'config.json'} from the model's original checkpoint"
        for message, data in _contradictions(config):
            yield Hit(role, message, fix, data)


def _contradictions(config: ModelConfig) -> Iterator[tuple[str, dict[str, object]]]:
    hidden, heads = config.hidden, config.heads
    if hidden and heads and hidden % heads and config.head_dim in (None, hidden // heads):
        yield f"hidden size {hidden} cannot be shared by {heads} heads", {"hidden_size": hidden, "heads": heads}
    layers = config.layer_kv_heads or (config.kv_heads or 0,)
    for kv_heads in sorted({count for count in layers if heads and count and heads % count}):
        message = f"{heads} heads cannot be shared by {kv_heads} KV heads"
        yield message, {"heads": heads, "kv_heads": kv_heads}
    experts, used = config.experts, config.experts_per_token
    if experts and used and used > experts:
        yield f"a token is sent to {used} of {experts} experts", {"experts": experts, "experts_per_token": used}


@rule(
    "config-incomplete",
    "INFO",
    "note",
    title="config.json leaves sizes to the model family's defaults",
    source="transformers fills them from the configuration class",
    explanation="Checks and plans that need such a size are left out, they do not guess.",
    fix="Nothing; or write the sizes into config.json.",
    example='{"architectures": ["FalconForCausalLM"]} without a length',
)
def _incomplete(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        missing = _missing_sizes(config)
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
