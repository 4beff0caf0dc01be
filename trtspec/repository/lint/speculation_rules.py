"""Rules about what speculation needs of the models together: streaming, KV reuse, beams, logits, the prompt."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.repository.lint.facts import RepositoryFacts, hit
from trtspec.repository.lint.model import Model
from trtspec.rules.registry import Hit, Level, rule

__all__: list[str] = []

_GUIDE = "examples/draft_target_model/README.md of NVIDIA/TensorRT-LLM"
_ENGINE_TYPES = {"float16": "TYPE_FP16", "float32": "TYPE_FP32"}
_FAST = "speculative_decoding_fast_logits"


@rule(
    "repository-decoupled",
    "CRASH",
    "error",
    subject="repository",
    title="Front model and engine models do not agree on being decoupled",
    source="triton-inference-server/tensorrtllm_backend#626, #70, #268, #348, #367; python_backend "
    "request_executor.cc refuses single-response calls of decoupled models",
    explanation="A front model that streams needs engine models that stream. NVIDIA's BLS calls both engine models "
    "for one response each when it speculates, which Triton refuses for decoupled models: with it nothing may be "
    "decoupled. Editing one copy of the repository and serving another leads here too.",
    fix="Set decoupled to the same value in all of them.",
    example="tensorrt_llm_bls decoupled, tensorrt_llm not",
)
def _decoupled(facts: RepositoryFacts) -> Iterator[Hit]:
    for caller in facts.callers:
        leaves = [model for model in (facts.model(caller.target), facts.model(caller.draft)) if model is not None]
        states = {model.name: model.decoupled for model in (caller.model, *leaves)}
        told = ", ".join(f"{name} {'is' if state else 'is not'}" for name, state in states.items())
        speculates = caller.model.kind == "bls" and caller.draft is not None
        line = caller.model.line_of("decoupled")
        if len(set(states.values())) > 1:
            wanted = "false" if speculates else "true"
            message = f"not all are decoupled: {told}"
            fix = f"write model_transaction_policy {{ decoupled: {wanted} }} in all of them"
            yield hit(facts, caller.model, message, fix, line=line, decoupled=states)
        elif speculates and caller.model.decoupled:
            message = f"NVIDIA's BLS cannot speculate with decoupled models: {told}"
            fix = "write decoupled: false in all of them (then nothing streams), or use the frontend of trtspec repo"
            yield hit(facts, caller.model, message, fix, line=line, decoupled=states)


@rule(
    "repository-kv-reuse",
    "PERF",
    "warning",
    subject="repository",
    title="KV cache reuse is off in a model of a pair",
    source=f"{_GUIDE}; triton-inference-server/tensorrtllm_backend#498",
    explanation="Each round sends the whole sequence to both models again. Without reuse of KV blocks each round "
    "computes the whole prompt anew, and speculation is slower than none.",
    fix="Set enable_kv_cache_reuse to true in both models.",
    example='enable_kv_cache_reuse: "false"',
)
def _reuse(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in _in_pairs(facts):
        if not model.cpp or model.flag("enable_kv_cache_reuse", default=True):
            continue
        message = "KV cache reuse is off: every round computes the whole prompt again"
        fix = 'set enable_kv_cache_reuse to "true"'
        yield hit(facts, model, message, fix, line=model.line_of("enable_kv_cache_reuse"))


def _in_pairs(facts: RepositoryFacts) -> list[Model]:
    """Targets and drafts, each once; a target whose drafts are looked up as well."""
    found = [model for _, *models in facts.pairs for model in models]
    return list({model.name: model for model in (*found, *(target for _, target in facts.speculative))}.values())


@rule(
    "repository-needs-paged-fmha",
    "CRASH",
    "error",
    subject="repository",
    title="A model uses what only paged context FMHA gives, and its engine has none",
    source=f"{_GUIDE}; the executor refuses chunked context and KV reuse without paged context FMHA",
    explanation="Reading prompts in pieces and reusing KV blocks need an engine built with paged context FMHA.",
    fix="Build with --use_paged_context_fmha enable, or switch the feature off.",
    example='enable_chunked_context: "true" with use_paged_context_fmha false in the engine',
)
def _paged(facts: RepositoryFacts) -> Iterator[Hit]:
    for model, engine in facts.each_engine():
        if engine.paged_context_fmha is not False:
            continue
        for key, default in (("enable_chunked_context", False), ("enable_kv_cache_reuse", True)):
            if model.flag(key, default=default):
                message = f"{key} is on, and its engine was built without paged context FMHA"
                fix = f'set {key} to "false", or build with --use_paged_context_fmha enable'
                yield hit(facts, model, message, fix, line=model.line_of(key), parameter=key)


@rule(
    "repository-not-for-pairs",
    "CRASH",
    "error",
    subject="repository",
    title="A parameter that does not go together with a draft, or with decoder-only models",
    source=f"{_GUIDE}: one beam, in-flight batching, decoding mode left to the engine; model_instance_state.cc: "
    "cross_kv_cache_fraction is for encoder-decoder models",
    explanation="Draft tokens from outside are verified by a decoder with one beam and batching in flight. "
    "decoding_mode names other ways of speculating, cross_kv_cache_fraction is refused for decoder-only models.",
    fix="Leave the parameter empty, or at the value for pairs.",
    example='max_beam_width: "4", gpt_model_type: "V1", decoding_mode: "medusa"',
)
def _parameters(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in _in_pairs(facts):
        if not model.cpp:
            continue
        wrong = {
            "max_beam_width": (model.number("max_beam_width") or 1) > 1 and "1",
            "gpt_model_type": model.value("gpt_model_type") in ("V1", "v1") and "inflight_fused_batching",
            "decoding_mode": model.value("decoding_mode") not in (None, "top_k", "top_p", "top_k_top_p") and "nothing",
        }
        for key, wanted in wrong.items():
            if wanted:
                message = f"{key} is {model.parameters[key]}, which does not go together with a draft"
                yield hit(facts, model, message, f"set it to {wanted}", line=model.line_of(key), parameter=key)
    for model in facts.leaves:
        if model.value("cross_kv_cache_fraction") and not model.value("encoder_model_path"):
            key = "cross_kv_cache_fraction"
            message = f"{key} is set, and the model has no encoder: it does not load"
            yield hit(facts, model, message, "leave it empty", line=model.line_of(key), parameter=key)


@rule(
    "repository-prompt-excluded",
    "SILENT",
    "error",
    subject="repository",
    title="NVIDIA's BLS speculates over models that leave the prompt out of their output",
    source="triton_decoder.py up to 1.2.0 cuts the draft's tokens out behind the prompt; "
    "triton-inference-server/tensorrtllm_backend#678, NVIDIA/TensorRT-LLM#2684",
    explanation="The BLS takes what follows the prompt's length in the draft's output. When the prompt is not in it, "
    "that is nothing: requests come back after a single token, or the draft contributes nothing.",
    fix='Set exclude_input_in_output to "false" in both models.',
    example='exclude_input_in_output: "true" in tensorrt_llm_draft',
)
def _excluded(facts: RepositoryFacts) -> Iterator[Hit]:
    key = "exclude_input_in_output"
    for caller, *models in facts.pairs:
        for model in models:
            if caller.model.kind == "bls" and model.flag(key):
                message = f"{key} is true: {caller.model.name} cuts drafts out wrongly (NVIDIA's BLS up to 1.2.0)"
                yield hit(facts, model, message, f'set {key} to "false"', line=model.line_of(key), parameter=key)


@rule(
    "repository-logits-type",
    "SILENT",
    "error",
    subject="repository",
    title="Logits have different types along their way",
    source="triton-inference-server/tensorrtllm_backend#598, NVIDIA/TensorRT-LLM#2088: halves read as floats",
    explanation="The engine's logits are halves or floats, and every config.pbtxt on their way must say the same: the "
    "engine's own model, the target that takes the draft's, and what passes them on. Otherwise they are garbage.",
    fix="Fill in the engine's logits type everywhere.",
    example="logits_dtype float16 in the engine, TYPE_FP32 in config.pbtxt",
)
def _logits(facts: RepositoryFacts) -> Iterator[Hit]:
    handles = _handles(facts)
    for model, engine in facts.each_engine():
        wanted = _ENGINE_TYPES.get(engine.logits_dtype or "")
        for name in ("context_logits", "generation_logits"):
            declared = model.outputs.get(name)
            if declared and wanted and declared.type != wanted and (model.name, name) not in handles:
                message = f"declares {name} as {declared.type}, its engine gives {engine.logits_dtype}"
                fix = f"write {wanted}"
                yield hit(facts, model, message, fix, line=model.line_of(name), tensor=name, expected=wanted)
    for upper, side, name, lower, other in _hops(facts):
        one, two = (upper.inputs if side == "input" else upper.outputs).get(name), lower.outputs.get(other)
        if one and two and one.type != two.type:
            message = f"{name} is {one.type}, and {two.type} in {lower.name} ({other}), from where it comes"
            fix = f"write {two.type}, or correct {lower.place(lower.line_of(other))}"
            yield hit(facts, upper, message, fix, line=upper.line_of(name), tensor=name, callee=lower.name)


def _handles(facts: RepositoryFacts) -> set[tuple[str, str]]:
    """Outputs that are opaque FP32 handles instead of logits."""
    return {
        (draft.name, "generation_logits")
        for _, target, draft in facts.pairs
        if target.flag(_FAST) and draft.flag(_FAST)
    }


def _hops(facts: RepositoryFacts) -> Iterator[tuple[Model, str, str, Model, str]]:
    """Where logits are taken over: (model, side, tensor) from (model, output)."""
    for _, target, draft in facts.pairs:
        yield target, "input", "draft_logits", draft, "generation_logits"
    for caller in facts.callers:
        target_model = facts.model(caller.target)
        for name in ("context_logits", "generation_logits"):
            if target_model is not None and caller.model.kind == "bls":
                yield caller.model, "output", name, target_model, name


@rule(
    "repository-fast-logits",
    "SILENT",
    "warning",
    subject="repository",
    title="Fast logits are asked for where their conditions do not hold",
    source=f"{_GUIDE}; model_instance_state.cc switches them off outside of orchestrator mode without spawning",
    explanation="Logits go from GPU to GPU only between two models of the C++ backend that both ask for it, in "
    "orchestrator mode with ranks of their own (participant_ids). With the flag in one model alone the other reads a "
    "handle as logits.",
    fix="Set the flag in both models and give them disjoint participant_ids, or switch it off in both.",
    example='speculative_decoding_fast_logits: "1" in the draft alone',
)
def _fast(facts: RepositoryFacts) -> Iterator[Hit]:
    for caller, target, draft in facts.pairs:
        on = [model for model in (target, draft) if model.flag(_FAST)]
        if len(on) == 1:
            other = draft if on[0] is target else target
            level: Level = "error"
            message = f"{_FAST} is on here and not in {other.name}: one of them reads a handle as logits"
            yield hit(facts, on[0], message, "give both the same value", line=on[0].line_of(_FAST), level=level)
        for model in on if len(on) == 2 else ():
            if not model.cpp or not model.value("participant_ids"):
                what = "has no participant_ids" if model.cpp else "is not the C++ backend"
                message = f"{_FAST} is on, and {model.name} {what}: it will be switched off with a line in the log"
                fix = "give both models disjoint participant_ids and start without spawning, or switch it off"
                yield hit(facts, model, message, fix, line=model.line_of(_FAST), caller=caller.model.name)
