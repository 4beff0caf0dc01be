"""Rules about what kind of model a checkpoint is: one that the runtime has, that continues text, that can roll back."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.checkpoints import Support, architecture_support
from trtspec.rules.facts import Facts, ModelRole, each_config
from trtspec.rules.registry import Hit, rule
from trtspec.toolchain.families import NOT_CONVERTIBLE

__all__: list[str] = []

_RUNTIMES = {"torch": "the torch runtime", "tensorrt_llm": "TensorRT-LLM's engine builder"}
_MAP = "tensorrt_llm/models/__init__.py of TensorRT-LLM 1.0 to 1.2 (MODEL_MAP)"
# class without engines → what to take instead
_INSTEAD = {
    "Llama4ForConditionalGeneration": "take Llama-3.3-70B-Instruct, the newest Llama that has engines",
    "Llama4ForCausalLM": "take Llama-3.3-70B-Instruct, the newest Llama that has engines",
    "DeepseekV3ForCausalLM": "take DeepSeek-V2, the newest DeepSeek that has engines",
    "DeepseekV32ForCausalLM": "take DeepSeek-V2, the newest DeepSeek that has engines",
    "Gemma3ForConditionalGeneration": "take a text-only Gemma3ForCausalLM checkpoint",
    "Mistral3ForConditionalGeneration": "take a MistralForCausalLM checkpoint",
    "Cohere2ForCausalLM": "take a CohereForCausalLM checkpoint (Command R)",
}


def _of_support(facts: Facts, support: Support) -> Iterator[tuple[ModelRole, str]]:
    """The roles whose architecture stands so to the runtime, with its name."""
    for role, config in each_config(facts):
        if config.architecture and architecture_support(config.architecture, facts.spec.runtime) == support:
            yield role, config.architecture


@rule(
    "architecture-unknown",
    "CRASH",
    "error",
    title="The architecture is in no list of what the runtime can serve",
    source=f"{_MAP}; transformers' causal language models",
    explanation="Engines are made by one class a model family; without it the converter stops at once. The torch "
    "runtime may still load a class that is not known here.",
    fix="Choose a model of a known architecture, or runtime: torch.",
    example='config.json: {"architectures": ["NewForCausalLM"]}',
)
def _unknown(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        if config.architecture is None:
            fix = f'add "architectures": ["…ForCausalLM"] to {facts.surveys[role].folder / "config.json"}'
            yield Hit(role, "config.json names no architecture", fix, {"architecture": None})
    runtime = _RUNTIMES[facts.spec.runtime]
    for role, name in _of_support(facts, "unknown"):
        data = {"architecture": name}
        if facts.engines:
            yield Hit(role, f"{name} is not in {runtime}'s model map (1.0 to 1.2)", "set runtime: torch", data)
        else:
            message = f"{name} is not among the architectures known here; {runtime} will try it"
            yield Hit(role, message, "trtspec build tells at once", data, level="warning")


@rule(
    "architecture-without-engines",
    "CRASH",
    "error",
    title="TensorRT-LLM has no engine builder for this architecture",
    source=f"{_MAP}; newer families run in its PyTorch backend only",
    explanation="Since 1.0 new model families come to TensorRT-LLM's PyTorch backend alone: Llama 4, DeepSeek-V3, "
    "GPT-OSS, Qwen3-Next, multimodal wrappers. trtllm-build cannot make engines of them.",
    fix="Take the family's newest member that has engines, or set runtime: torch.",
    example='runtime: tensorrt_llm with {"architectures": ["DeepseekV3ForCausalLM"]}',
)
def _without_engines(facts: Facts) -> Iterator[Hit]:
    for role, name in _of_support(facts, "other_runtime"):
        message = f"{name} cannot be built by {_RUNTIMES['tensorrt_llm']} 1.0 to 1.2: only its PyTorch backend has it"
        instead = _INSTEAD.get(name)
        fix = f"{instead}, or set runtime: torch" if instead else "set runtime: torch"
        yield Hit(role, message, fix, {"architecture": name})


@rule(
    "architecture-not-convertible",
    "CRASH",
    "error",
    title="The converter for this architecture reads no Hugging Face folder",
    source="examples/models/contrib/grok and examples/models/core/gpt of TensorRT-LLM 1.x",
    explanation="The class can be built into an engine, but only from its original release in another format.",
    fix="Another model, or runtime: torch.",
    example='runtime: tensorrt_llm with {"architectures": ["Grok1ModelForCausalLM"]}',
)
def _not_convertible(facts: Facts) -> Iterator[Hit]:
    for role, name in _of_support(facts, "supported"):
        if facts.engines and name in NOT_CONVERTIBLE:
            message = f"{name}: {NOT_CONVERTIBLE[name]}"
            yield Hit(role, message, "choose another model, or set runtime: torch", {"architecture": name})


@rule(
    "architecture-recurrent",
    "CRASH",
    "error",
    title="The model keeps a running state that cannot be rolled back",
    source="state-space and linear-attention layers (Mamba, RWKV, RecurrentGemma, hybrids of them)",
    explanation="Rejected draft tokens must be forgotten. An attention cache is cut back; the state of a recurrent "
    "layer has already taken them in.",
    fix="Choose a model with attention layers only.",
    example='config.json: {"architectures": ["MambaForCausalLM"]}',
)
def _recurrent(facts: Facts) -> Iterator[Hit]:
    for role, name in _of_support(facts, "recurrent"):
        message = f"{name} keeps a running state, which cannot go back to before a rejected draft token"
        yield Hit(role, message, "choose a model with attention only", {"architecture": name})


@rule(
    "architecture-not-causal",
    "CRASH",
    "error",
    title="The checkpoint is no causal language model",
    source="speculation continues a text token by token; encoders, encoder-decoders and classifiers do not",
    explanation="Draft and target must both predict the next token of the same sequence.",
    fix="Choose a …ForCausalLM checkpoint.",
    example='config.json: {"architectures": ["T5ForConditionalGeneration"]}',
)
def _not_causal(facts: Facts) -> Iterator[Hit]:
    for role, name in _of_support(facts, "not_causal"):
        yield Hit(
            role, f"{name} is no causal language model", "choose a …ForCausalLM checkpoint", {"architecture": name}
        )


@rule(
    "multimodal-wrapper",
    "INFO",
    "note",
    title="The checkpoint has parts for images or sound, of which only the language model is used",
    source="vision_config or audio_config in config.json",
    explanation="Requests are text only; the other parts take memory while loading and nothing else.",
    fix="Nothing, or take the text-only checkpoint where there is one.",
    example='config.json: {"architectures": ["Gemma3ForConditionalGeneration"], "vision_config": {…}}',
)
def _multimodal(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        parts = [key for key in ("vision_config", "audio_config") if isinstance(config.data.get(key), dict)]
        supported = architecture_support(config.architecture or "", facts.spec.runtime) in ("supported", "unknown")
        if parts and supported:
            yield Hit(
                role, f"only the language model is used ({', '.join(parts)} is left aside)", None, {"parts": parts}
            )


@rule(
    "remote-code",
    "CRASH",
    "error",
    title="The checkpoint needs Python code that it carries",
    source="auto_map in config.json; code from a folder runs only when the spec allows it",
    explanation="A model class that is neither in transformers nor in TensorRT-LLM comes as Python files in the "
    "folder. Running them is running a stranger's program.",
    fix="Read the code, then set trust_remote_code: true for that model.",
    example='config.json: {"auto_map": {"AutoModelForCausalLM": "modeling.MyLM"}}',
)
def _remote_code(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        if not config.remote_code:
            continue
        name = config.architecture or "the model"
        known = config.architecture is not None and architecture_support(config.architecture, "torch") == "supported"
        trusted = facts.source(role).trust_remote_code
        if known and not trusted:
            message = f"the folder carries Python code (auto_map); it is not run, {name} is built in"
            yield Hit(role, message, None, {"trusted": False}, level="note", severity="INFO")
        elif trusted:
            message = f"Python code from the folder will run ({role}.trust_remote_code)"
            yield Hit(role, message, "read it first", {"trusted": True}, level="warning", severity="SILENT")
        else:
            message = f"{name} is defined by Python code in the folder (auto_map), which trtspec does not run by itself"
            yield Hit(role, message, f"read the code, then set {role}.trust_remote_code: true", {"trusted": False})


@rule(
    "sliding-window-reuse",
    "SILENT",
    "warning",
    title="KV reuse is known to be unreliable with this model's sliding window",
    source="TensorRT-LLM's accuracy tests of Gemma 3 (PyTorch backend) switch KV reuse off for gaps in kernel support "
    "of its sliding window; draft-target speculation needs reuse on",
    explanation="Each round continues the sequence from reused KV blocks. TensorRT-LLM tests Gemma 3 without reuse "
    "because its kernels do not cover that window exactly; whether engines are touched is not known.",
    fix="Compare outputs with `trtspec loadtest` (equality) before serving, or take Gemma 2.",
    example='runtime: tensorrt_llm with {"model_type": "gemma3_text", "sliding_window": 512}',
)
def _window(facts: Facts) -> Iterator[Hit]:
    for role, config in each_config(facts):
        built = facts.engines and architecture_support(config.architecture or "", "tensorrt_llm") == "supported"
        if built and config.model_type == "gemma3_text" and config.windowed_layers:
            message = f"{config.windowed_layers} of {config.layers} layers see the last {config.sliding_window} tokens"
            message += " only; TensorRT-LLM tests Gemma 3 with KV reuse off, which speculation needs on"
            fix = "compare the outputs of both arms with trtspec loadtest before serving"
            yield Hit(role, message, fix, {"window": config.sliding_window, "layers": config.windowed_layers})
