"""What rules look at: the spec, what could be read of both checkpoints, what the two have in common, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trtspec.checkpoints import ModelConfig, Pairing, Side, Survey, TokenizerFacts, pair_facts, survey_checkpoint
from trtspec.checkpoints.architectures import TENSORRT_LLM
from trtspec.checkpoints.draft_vocabulary import read_draft_vocabulary
from trtspec.checkpoints.reading import read_document
from trtspec.checkpoints.weights import Weights
from trtspec.errors import TrtspecError
from trtspec.hardware.catalogue import Gpu, find_gpu
from trtspec.spec import Spec, SpecFile
from trtspec.spec.model import ModelSource
from trtspec.spec.names import PROMPT_SETS
from trtspec.toolchain.detect import Toolchain, resolve_toolchain
from trtspec.toolchain.families import Family, converter_family

__all__ = [
    "MODEL_ROLES",
    "OTHER",
    "Facts",
    "ModelRole",
    "each_built",
    "each_config",
    "each_source",
    "each_tokenizer",
    "each_weights",
    "family_of",
    "gather_facts",
]

ModelRole = Literal["target", "draft"]
MODEL_ROLES: tuple[ModelRole, ...] = ("target", "draft")
OTHER: dict[ModelRole, ModelRole] = {"target": "draft", "draft": "target"}


@dataclass(frozen=True)
class Facts:
    """Everything that a rule may use; gathered once, never changed.

    `toolchain` and `gpu` are None where the runtime needs none, the spec names none, or it could not be found: then
    `toolchain_error` and `gpu_error` say why. `missing_paths` are the spec's paths that do not exist, by dotted key;
    `adapters` the roles whose folder holds an adapter and no model, with its base model's name.
    `vocabulary_error` says what is wrong with the draft's draft_vocabulary.json (runtime torch).
    `weights_needed` is False where weight files may still be absent (commands are only shown).

    Without a second model (draft.method ngram) the survey of the draft is the target's: the target proposes its own
    tokens, so nothing can differ.
    """

    spec: Spec
    surveys: Mapping[ModelRole, Survey]
    pair: Pairing
    toolchain: Toolchain | None = None
    toolchain_error: TrtspecError | None = None
    gpu: Gpu | None = None
    gpu_error: TrtspecError | None = None
    missing_paths: Mapping[str, Path] = field(default_factory=dict)
    adapters: Mapping[ModelRole, str] = field(default_factory=dict)
    vocabulary_error: TrtspecError | None = None
    weights_needed: bool = True

    @property
    def roles(self) -> tuple[ModelRole, ...]:
        """The models there are."""
        return MODEL_ROLES if self.spec.draft.is_model else ("target",)

    @property
    def same_folder(self) -> bool:
        """True when target and draft are the same checkpoint (the control with full acceptance)."""
        return self.surveys["target"].folder.resolve() == self.surveys["draft"].folder.resolve()

    @property
    def engines(self) -> bool:
        """True when TensorRT-LLM builds the engines."""
        return self.spec.runtime == "tensorrt_llm"

    def source(self, role: ModelRole) -> ModelSource:
        """The spec's section of a role."""
        return self.spec.target if role == "target" else self.spec.draft

    def side(self, role: ModelRole) -> Side:
        """What a role's model knows of tokens."""
        return self.pair.target if role == "target" else self.pair.draft

    def is_built(self, role: ModelRole) -> bool:
        """True when the role's engine is built from a checkpoint, False when an engine is given."""
        return role in self.roles and self.source(role).engine is None


def each_source(facts: Facts) -> Iterator[tuple[ModelRole, ModelSource]]:
    """The roles whose engines TensorRT-LLM is to build, with their section of the spec."""
    for role in facts.roles:
        if facts.engines and facts.is_built(role):
            yield role, facts.source(role)


def each_built(facts: Facts) -> Iterator[tuple[ModelRole, ModelSource, ModelConfig]]:
    """Those of `each_source` whose config.json could be read, with it."""
    for role, source in each_source(facts):
        config = facts.surveys[role].config
        if config is not None:
            yield role, source, config


def family_of(config: ModelConfig) -> Family | None:
    """The converter for a model's class; None when no engine can be made of it."""
    architecture = config.architecture or ""
    return converter_family(architecture, TENSORRT_LLM.get(architecture))


def each_config(facts: Facts) -> Iterator[tuple[ModelRole, ModelConfig]]:
    """The roles whose config.json could be read, with it."""
    for role in facts.roles:
        config = facts.surveys[role].config
        if config is not None:
            yield role, config


def each_weights(facts: Facts) -> Iterator[tuple[ModelRole, Weights]]:
    """The roles whose tensors could be listed, with them."""
    for role in facts.roles:
        weights = facts.surveys[role].weights
        if weights is not None:
            yield role, weights


def each_tokenizer(facts: Facts) -> Iterator[tuple[ModelRole, TokenizerFacts]]:
    """The roles whose tokenizer could be read, with it."""
    for role in facts.roles:
        tokenizer = facts.surveys[role].tokenizer
        if tokenizer is not None:
            yield role, tokenizer


def gather_facts(spec_file: SpecFile, *, weights: bool = True, gpu: Gpu | None = None) -> Facts:
    """Read both checkpoints of a spec; unreadable parts become failures in the surveys, not exceptions.

    `gpu` counts where the spec names none.
    """
    target = _survey(spec_file, "target")
    draft = _survey(spec_file, "draft") if spec_file.spec.draft.is_model else target
    surveys: dict[ModelRole, Survey] = {"target": target, "draft": draft}
    toolchain, toolchain_error = _toolchain(spec_file.spec)
    named, gpu_error = _gpu(spec_file.spec)
    return Facts(
        spec=spec_file.spec,
        surveys=surveys,
        pair=pair_facts(surveys["target"], surveys["draft"]),
        toolchain=toolchain,
        toolchain_error=toolchain_error,
        gpu=named if spec_file.spec.hardware is not None else gpu,
        gpu_error=gpu_error,
        missing_paths={key: path for key, path in _named_paths(spec_file) if not path.exists()},
        adapters={
            role: base
            for role, survey in surveys.items()
            if (role == "target" or survey is not target) and (base := _adapter(survey)) is not None
        },
        vocabulary_error=_vocabulary_error(spec_file.spec, draft),
        weights_needed=weights,
    )


def _vocabulary_error(spec: Spec, draft: Survey) -> TrtspecError | None:
    """What is wrong with the list of ids that the draft may propose, which the torch runtime reads."""
    if spec.runtime != "torch" or not spec.draft.is_model or draft.vocab_size is None:
        return None
    try:
        read_draft_vocabulary(draft.folder, draft.vocab_size)
    except TrtspecError as error:
        return error
    return None


def _adapter(survey: Survey) -> str | None:
    """The base model of a folder that holds an adapter only ("" where it names none); None for a model."""
    path = survey.folder / "adapter_config.json"
    if survey.config is not None or not path.is_file():
        return None
    try:
        return str(read_document(path).get("base_model_name_or_path") or "")
    except TrtspecError:
        return ""


def _survey(spec_file: SpecFile, role: ModelRole) -> Survey:
    """What the role's checkpoint holds; nothing at all where only an engine is given."""
    engine = spec_file.given_engine(role)
    source = spec_file.spec.target if role == "target" else spec_file.spec.draft
    if source.checkpoint is None and engine is not None:
        return Survey(engine, None, None, None, None)
    return survey_checkpoint(spec_file.checkpoint(role))


def _toolchain(spec: Spec) -> tuple[Toolchain | None, TrtspecError | None]:
    if spec.runtime != "tensorrt_llm":
        return None, None
    try:
        return resolve_toolchain(spec), None
    except TrtspecError as error:
        return None, error


def _gpu(spec: Spec) -> tuple[Gpu | None, TrtspecError | None]:
    if spec.hardware is None:
        return None, None
    try:
        return find_gpu(spec.hardware.gpu, spec.hardware.memory_gib), None
    except TrtspecError as error:
        return None, error


def _named_paths(spec_file: SpecFile) -> Iterator[tuple[str, Path]]:
    """The files and folders besides checkpoints that a spec names, absolute, by dotted key."""
    spec = spec_file.spec
    for role in ("baseline", "target", "draft"):
        engine = spec_file.given_engine(role)
        if engine is not None:
            yield f"{role}.engine", engine
    if spec.tensorrt_llm.examples is not None:
        yield "tensorrt_llm.examples", spec_file.root / spec.tensorrt_llm.examples.expanduser()
    dataset = spec.calibration.dataset
    if dataset is not None and dataset.startswith((".", "/", "~")):  # others may be a name on the hub
        yield "calibration.dataset", spec_file.root / Path(dataset).expanduser()
    if spec.loadtest.prompts not in PROMPT_SETS:
        yield "loadtest.prompts", spec_file.root / Path(spec.loadtest.prompts).expanduser()
