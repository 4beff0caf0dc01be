"""Rules about build.extra_flags: which trtllm-build flags a version has, and which take speculation's ground away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trtspec.rules.facts import Facts, each_built, each_source
from trtspec.rules.precision import weight_algo
from trtspec.rules.registry import Hit, rule
from trtspec.toolchain.flags import GONE, NEVER_ON, OWN, build_flags
from trtspec.toolchain.flags.model import FlagTable

__all__: list[str] = []

_COMMAND = "trtllm-build's command page of TensorRT-LLM 1.2.0"
_BUILDER = "tensorrt_llm/builder.py of TensorRT-LLM 1.2"
_REFUSED = "tensorrt_llm/commands/build.py of TensorRT-LLM 1.2"
_ON = ("enable", "true", "1")


def _flags(facts: Facts) -> Mapping[str, str]:
    """The extra flags without dashes, with values as words (enable, disable, …); empty where nothing is built."""
    if not any(True for _ in each_source(facts)):
        return {}
    return {name.lstrip("-"): _word(value) for name, value in facts.spec.build.extra_flags.items()}


def _word(value: str | float) -> str:
    return ("enable" if value else "disable") if isinstance(value, bool) else str(value).strip().lower()


def _table(facts: Facts) -> FlagTable | None:
    return build_flags(facts.toolchain.minor) if facts.toolchain is not None else None


def _drop(name: str) -> str:
    return f"remove {name} from build.extra_flags"


@rule(
    "flag-owned",
    "CRASH",
    "error",
    title="An extra flag that trtspec sets itself",
    source="design of trtspec: one place for each value",
    explanation="The same flag twice on a command line means the last one; the engine would not be the one that the "
    "plan, the checks and the repository speak of.",
    fix="The spec's own field, as the finding names it.",
    example="build: {extra_flags: {max_seq_len: 4096}}",
)
def _owned(facts: Facts) -> Iterator[Hit]:
    for name, value in _flags(facts).items():
        if name in OWN and not _harms(name, value):  # what harms is named by a rule of its own
            owner = OWN[name]
            fix = f"{owner} instead" if owner.startswith("write ") else _drop(name)
            yield Hit("spec", f"build.extra_flags.{name} is set by trtspec: {owner}", fix, {"flag": name})


def _harms(name: str, value: str) -> bool:
    """True for a flag that trtspec sets for speculation, given with a value that takes its ground away."""
    return value in _REUSE.get(name, "").split() or (name == "max_beam_width" and value != "1")


@rule(
    "flag-gone",
    "CRASH",
    "error",
    title="An extra flag of an older TensorRT-LLM",
    source="NVIDIA/TensorRT-LLM#2057, #2008, #1840, #2143; release notes 0.15 to 0.18",
    explanation="Flags were removed, moved or renamed, and max_output_len became max_seq_len, which counts prompt and "
    "output together: it is no rename.",
    fix="What the flag became, as the finding names it.",
    example="build: {extra_flags: {max_output_len: 2048}}",
)
def _gone(facts: Facts) -> Iterator[Hit]:
    flags = _flags(facts)
    for name in flags:
        if name in GONE:
            yield Hit("spec", f"build.extra_flags.{name} {GONE[name]}", _gone_fix(facts, name, flags), {"flag": name})


def _gone_fix(facts: Facts, name: str, flags: Mapping[str, str]) -> str:
    asked = flags[name]
    prompt = flags.get("max_input_len") or str(facts.spec.build.max_input_len or "")
    if name == "max_output_len" and asked.isdecimal() and prompt.isdecimal():
        return f"set build.max_seq_len: {int(prompt) + int(asked)} (input {prompt} + output {asked})"
    return _drop(name)


@rule(
    "flag-unknown",
    "CRASH",
    "error",
    title="trtllm-build of this version has no such flag",
    source=_COMMAND,
    explanation="argparse stops with a usage message, after conversion has run.",
    fix="The nearest flag, as the finding names it.",
    example="build: {extra_flags: {reduce_fusoin: enable}}",
)
def _unknown(facts: Facts) -> Iterator[Hit]:
    table = _table(facts)
    for name in _flags(facts) if table is not None else ():
        if table is None or name in OWN or name in GONE or table.find(name) is not None:
            continue
        near = table.nearest(name)
        version = facts.toolchain.version if facts.toolchain else ""
        message = f"trtllm-build {version} has no flag --{name}"
        yield Hit("spec", message, f"did you mean {near}?" if near else _drop(name), {"flag": name, "nearest": near})


@rule(
    "flag-value",
    "CRASH",
    "error",
    title="A value that the flag does not take",
    source=_COMMAND,
    explanation="argparse stops with a usage message, after conversion has run.",
    fix="One of the values that the finding names.",
    example="build: {extra_flags: {reduce_fusion: maybe}}",
)
def _value(facts: Facts) -> Iterator[Hit]:
    table = _table(facts)
    if table is None or not _flags(facts):
        return
    for given, value in facts.spec.build.extra_flags.items():
        name = given.lstrip("-")
        flag = None if name in OWN or name in GONE else table.find(name)
        problem = flag.problem(value) if flag is not None else None
        if problem is not None:
            yield Hit("spec", f"build.extra_flags.{name}: {problem}", "write a value it takes", {"flag": name})


# flag → the words that take block reuse away
_REUSE = {
    "use_paged_context_fmha": "disable",
    "context_fmha": "disable",
    "remove_input_padding": "disable",
    "kv_cache_type": "continuous disabled",
}


@rule(
    "flag-without-reuse",
    "SILENT",
    "error",
    title="An extra flag that makes KV reuse impossible",
    source="the draft-target example of TensorRT-LLM: paged KV cache, (paged) context FMHA on both sides",
    explanation="The engine builds. Speculation then recomputes every prefix in every round, or is refused by the "
    "server.",
    fix="Remove the flag.",
    example="build: {extra_flags: {use_paged_context_fmha: disable}}",
)
def _reuse(facts: Facts) -> Iterator[Hit]:
    for name, value in _flags(facts).items():
        if value in _REUSE.get(name, "").split():
            message = f"{name}: {value} makes reuse of KV blocks impossible, which draft and target need"
            yield Hit("spec", message, _drop(name), {"flag": name, "value": value})


@rule(
    "flag-context-logits",
    "CRASH",
    "error",
    title="Context logits cannot be gathered with draft tokens",
    source=f"{_REFUSED}: refused with max_draft_len > 0",
    explanation="trtllm-build stops for the target engine.",
    fix="Remove the flag; acceptance by logits uses generation logits, which are a run-time choice.",
    example="build: {extra_flags: {gather_context_logits: true}}",
)
def _context_logits(facts: Facts) -> Iterator[Hit]:
    flags = _flags(facts)
    for name in ("gather_context_logits", "gather_all_token_logits"):
        if flags.get(name) in _ON:
            length = facts.spec.speculation.engine_draft_length
            yield Hit("target", f"{name}: {NEVER_ON[name]} ({length})", _drop(name), {"flag": name})


@rule(
    "flag-streamingllm",
    "CRASH",
    "error",
    title="StreamingLLM aborts the build",
    source=f"{_REFUSED}; {_BUILDER} switches paged context FMHA off with it",
    explanation="It keeps a window of the cache, which contradicts reuse of the whole prefix.",
    fix="Remove the flag.",
    example="build: {extra_flags: {streamingllm: enable}}",
)
def _streaming(facts: Facts) -> Iterator[Hit]:
    if _flags(facts).get("streamingllm") in _ON:
        yield Hit("spec", f"streamingllm: {NEVER_ON['streamingllm']}", _drop("streamingllm"))


@rule(
    "flag-profiles",
    "CRASH",
    "error",
    title="Several profiles together with opt_num_tokens",
    source=f"{_REFUSED}",
    explanation="Several profiles choose their own optimum; trtllm-build refuses a given one.",
    fix="Remove one of the two.",
    example="build: {extra_flags: {multiple_profiles: enable, opt_num_tokens: 256}}",
)
def _profiles(facts: Facts) -> Iterator[Hit]:
    flags = _flags(facts)
    if flags.get("multiple_profiles") in _ON and "opt_num_tokens" in flags:
        message = f"multiple_profiles: enable is refused together with opt_num_tokens {flags['opt_num_tokens']}"
        yield Hit("spec", message, _drop("opt_num_tokens"))


@rule(
    "flag-beams",
    "CRASH",
    "error",
    title="Beam search and speculation exclude each other",
    source="the draft-target example of TensorRT-LLM: beam width 1 on both sides",
    explanation="A beam search follows several texts at once; drafts are verified along one.",
    fix="Remove max_beam_width.",
    example="build: {extra_flags: {max_beam_width: 4}}",
)
def _beams(facts: Facts) -> Iterator[Hit]:
    beams = _flags(facts).get("max_beam_width", "1")
    if beams.isdecimal() and int(beams) > 1:
        message = f"max_beam_width {beams}: draft tokens are verified with beam width 1 only"
        yield Hit("spec", message, _drop("max_beam_width"), {"beams": int(beams)})


@rule(
    "flag-reduce-scatter",
    "CRASH",
    "error",
    title="pp_reduce_scatter is for Mixtral only",
    source=f"{_REFUSED}",
    explanation="trtllm-build stops for every other architecture.",
    fix="Remove the flag.",
    example="build: {extra_flags: {pp_reduce_scatter: enable}} with a Llama",
)
def _reduce_scatter(facts: Facts) -> Iterator[Hit]:
    if _flags(facts).get("pp_reduce_scatter") not in _ON:
        return
    for role, _, config in each_built(facts):
        if config.architecture not in (None, "MixtralForCausalLM"):
            message = f"pp_reduce_scatter: enable stops the build of {config.architecture}"
            yield Hit(role, message, _drop("pp_reduce_scatter"))


_FUSING = ("LlamaForCausalLM", "Gemma2ForCausalLM")


@rule(
    "flag-switched-off",
    "SILENT",
    "warning",
    title="A fusion that the builder switches off again",
    source=f"{_BUILDER}: reduce_fusion needs tp > 1 and Llama, Gemma 2 or Medusa; user_buffer needs reduce_fusion; "
    "norm_quant_fusion needs an NVFP4 Llama without reduce_fusion",
    explanation="The builder warns in its log and builds without; the expected gain is not there.",
    fix="Remove the flag, or meet its conditions.",
    example="build: {extra_flags: {reduce_fusion: enable}} with tp: 1",
)
def _switched_off(facts: Facts) -> Iterator[Hit]:
    flags = _flags(facts)
    for role, source in each_source(facts):
        config = facts.surveys[role].config
        architecture = config.architecture if config else None
        reduces = flags.get("reduce_fusion") in _ON and source.tp > 1 and architecture in _FUSING
        llama4bit = architecture == "LlamaForCausalLM" and weight_algo(facts, role) == "NVFP4"
        holds = {"reduce_fusion": reduces, "user_buffer": reduces, "norm_quant_fusion": llama4bit and not reduces}
        for name, kept in holds.items():
            if flags.get(name) in _ON and not kept:
                message = f"{name} is switched off for {architecture or 'this model'} with tp {source.tp}"
                yield Hit(role, message, _drop(name), {"flag": name})


_FP8_PLUGINS = ("gemm_plugin", "gemm_swiglu_plugin", "low_latency_gemm_plugin", "low_latency_gemm_swiglu_plugin")


@rule(
    "flag-needs-fp8",
    "CRASH",
    "error",
    title="An FP8 plugin over weights that are not FP8",
    source=f"{_COMMAND}: these plugins multiply FP8 matrices",
    explanation="The plugin finds tensors of another type and the build stops.",
    fix="quantization: fp8, or remove the flag.",
    example="build: {extra_flags: {gemm_swiglu_plugin: fp8}} with quantization: none",
)
def _needs_fp8(facts: Facts) -> Iterator[Hit]:
    asked = [name for name in _FP8_PLUGINS if _flags(facts).get(name) == "fp8"]
    for role, _ in each_source(facts):
        algo = weight_algo(facts, role)
        if asked and algo != "FP8":
            message = f"{' and '.join(asked)}: fp8, but the {role}'s weights are {algo or 'not quantized'}"
            yield Hit(role, message, f"set {role}.quantization: fp8, or {_drop(asked[0])}", {"flags": asked})


@rule(
    "flag-lora",
    "SILENT",
    "warning",
    title="LoRA together with draft-target speculation",
    source="nothing read describes the two together",
    explanation="An adapter changes the target's predictions, and the draft does not have it: acceptance falls, if "
    "the combination works at all.",
    fix="Merge the adapter into the target, and distil the draft for it.",
    example="build: {extra_flags: {lora_plugin: auto}}",
)
def _lora(facts: Facts) -> Iterator[Hit]:
    flags = _flags(facts)
    asked = [name for name in flags if name == "lora_dir" or (name == "lora_plugin" and flags[name] != "disable")]
    if asked:
        message = f"{' and '.join(asked)}: adapters are not described for draft-target engines"
        yield Hit("spec", message, "merge the adapter into the target's checkpoint", {"flags": asked})


@rule(
    "flag-deprecated",
    "SILENT",
    "error",
    title="An extra flag that does nothing any more",
    source=f"{_COMMAND}: generation logits are a flag of the executor now",
    explanation="The builder prints a warning. Whether logits are returned is decided by the server's configuration.",
    fix="Remove the flag.",
    example="build: {extra_flags: {gather_generation_logits: true}}",
)
def _deprecated(facts: Facts) -> Iterator[Hit]:
    if _flags(facts).get("gather_generation_logits") in _ON:
        message = f"gather_generation_logits: {NEVER_ON['gather_generation_logits']}"
        yield Hit("spec", message, _drop("gather_generation_logits"))
