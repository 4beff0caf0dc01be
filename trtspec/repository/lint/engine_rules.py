"""Rules about the engines behind a repository's models: there, whole, and large enough for what is promised."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.building.inspection import EngineConfig
from trtspec.building.inspection.folder_rules import missing_ranks
from trtspec.errors import TrtspecError
from trtspec.repository.contract import contract_for
from trtspec.repository.lint.facts import RepositoryFacts, hit
from trtspec.repository.lint.model import Model
from trtspec.rules.registry import Hit, rule
from trtspec.toolchain.releases import images_for, same_release

__all__: list[str] = []


@rule(
    "repository-engine-missing",
    "CRASH",
    "error",
    subject="repository",
    title="There is no engine where a model looks for it",
    source="triton-inference-server/tensorrtllm_backend#61, #207, #500: the server fails on an empty JSON document",
    explanation="gpt_model_path is a path as the server sees it, inside its container. A folder that is not mounted "
    "there, is empty, or is a checkpoint stops the model while it loads.",
    fix="Correct gpt_model_path; when it is a path in the container, say with --root-map where it lies here.",
    example="gpt_model_path: /engines/target with the engines mounted at /models",
)
def _missing(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.parsed:
        view = facts.engines.get(model.name)
        if view is None or view.config is not None or view.problem is None:
            continue
        here = "" if str(view.host) == view.seen else f" (here {view.host})"
        message = f"gpt_model_path {view.seen}{here}: {view.problem}"
        fix = "give the folder that trtllm-build wrote; for a path in the container add --root-map HOST=CONTAINER"
        line = model.line_of(view.seen)
        yield hit(facts, model, message, fix, line=line, engine=view.seen, folder=str(view.host))


@rule(
    "repository-engine-unseen",
    "INFO",
    "note",
    subject="repository",
    title="An engine lies where it cannot be looked at from here",
    source="triton-inference-server/server docs/user_guide/model_repository.md: repositories in S3, GCS and Azure",
    explanation="The engine's limits could not be compared with the configuration.",
    fix="Compare them where the engine lies: trtspec engines show FOLDER.",
    example="gpt_model_path: s3://bucket/engines/target",
)
def _unseen(facts: RepositoryFacts) -> Iterator[Hit]:
    for model in facts.leaves:
        view = facts.engines.get(model.name)
        if view is not None and view.host is None:
            yield hit(facts, model, f"{view.seen} was not looked at", line=model.line_of(view.seen), engine=view.seen)


@rule(
    "repository-engine-files",
    "CRASH",
    "error",
    subject="repository",
    title="The engine of a model lacks files of its ranks",
    source="triton-inference-server/tensorrtllm_backend#61: every rank loads rankN.engine from the engine folder",
    explanation="Each rank (tp × pp) loads its own rankN.engine.",
    fix="Copy the whole engine folder.",
    example="an engine of tp 2 with rank0.engine alone",
)
def _files(facts: RepositoryFacts) -> Iterator[Hit]:
    for model, engine in facts.each_engine():
        view = facts.engines[model.name]
        lacking = missing_ranks(engine, dict(view.files))
        if lacking:
            message = f"{view.seen} is an engine of {engine.world_size} ranks, missing or empty: {', '.join(lacking)}"
            yield hit(facts, model, message, "copy the whole engine folder", engine=view.seen, missing=lacking)


@rule(
    "repository-engine-version",
    "CRASH",
    "error",
    subject="repository",
    title="The image, or another engine, is of another release than an engine",
    source="triton-inference-server/tensorrtllm_backend#531, #190, #299, #375; triton-inference-server/server#8462",
    explanation="An engine loads only in the release that built it, and all models of a server share one.",
    fix="Serve with an image of the engine's release, or build the engine again.",
    example="--image 26.03-trtllm-python-py3 (1.2.0) and an engine of 1.1.0",
)
def _version(facts: RepositoryFacts) -> Iterator[Hit]:
    wanted, whose = facts.image_version, f"the image {facts.image} carries"
    for model, engine in facts.each_engine():
        if wanted is None:
            wanted, whose = engine.version, f"the engine of {model.name} is of"
        try:
            same = same_release(engine.version, wanted)
            contract_for(engine.version)
        except TrtspecError as error:
            yield hit(facts, model, error.message, error.fix, version=engine.version)
            continue
        if not same:
            images = images_for(engine.version)
            message = f"its engine is of TensorRT-LLM {engine.version}, {whose} {wanted}"
            fits = f"serve with {images[0]}, or " if images else ""
            fix = f"{fits}build the engine with {wanted}"
            yield hit(facts, model, message, fix, version=engine.version, expected=wanted, images=list(images))


@rule(
    "repository-image-unknown",
    "INFO",
    "note",
    subject="repository",
    title="It is not known which TensorRT-LLM is in the image",
    source="NVIDIA's release notes of Triton; trtspec's table of images is docs/versions.md",
    explanation="An image of one's own cannot be looked up.",
    fix="Give NVIDIA's image that it is made from.",
    example="--image registry.example/llm:latest",
)
def _image(facts: RepositoryFacts) -> Iterator[Hit]:
    if facts.image and facts.image_version is None:
        message = f"which TensorRT-LLM {facts.image} carries is not known; versions were not compared with it"
        yield Hit("repository", message, "give NVIDIA's image that it is made from", {"image": facts.image})


@rule(
    "repository-engine-limits",
    "CRASH",
    "error",
    subject="repository",
    title="A model promises more than its engine can",
    source="triton-inference-server/tensorrtllm_backend#130; NVIDIA/TensorRT-LLM#2303; tensorrtllm_backend#473",
    explanation="Batch, beams, lengths and draft tokens are built into an engine. What config.pbtxt says beyond is "
    "ignored, refuses requests, or does not load.",
    fix="Lower the value, or build the engine larger.",
    example="max_batch_size: 8 with an engine of max_batch_size 4",
)
def _limits(facts: RepositoryFacts) -> Iterator[Hit]:
    for model, engine in facts.each_engine():
        promises = (
            ("max_batch_size", model.config.max_batch_size, engine.max_batch_size, "max_batch_size"),
            ("max_beam_width", model.number("max_beam_width"), engine.max_beam_width, "max_beam_width"),
        )
        for key, promised, built, name in promises:
            yield from _exceeded(facts, model, (key, promised), (name, built))
        for window in model.groups("max_attention_window_size"):
            yield from _exceeded(
                facts, model, ("max_attention_window_size", max(window)), ("max_seq_len", engine.max_seq_len)
            )
    yield from _frontend_limits(facts)


def _frontend_limits(facts: RepositoryFacts) -> Iterator[Hit]:
    for caller in facts.callers:
        for leaf in (facts.model(caller.target), facts.model(caller.draft)):
            engine = facts.engine(leaf) if leaf is not None else None
            if leaf is None or engine is None or caller.model.kind != "frontend":
                continue
            room = engine.max_seq_len - engine.max_draft_len
            of = f" of the engine of {leaf.name}"
            limits = [("max_seq_len", room, f"room for a request{of}")]
            if leaf.name == caller.target:
                limits.append(("vocab_size", engine.vocab_size, f"vocab_size{of}"))
                if caller.speculates:
                    limits += [
                        (key, engine.max_draft_len, f"max_draft_len{of}")
                        for key in ("max_draft_length", "num_draft_tokens")
                    ]
            for key, built, what in limits:
                yield from _exceeded(facts, caller.model, (key, caller.model.number(key)), (what, built))


def _exceeded(
    facts: RepositoryFacts, model: Model, promised: tuple[str, float | None], built: tuple[str, int]
) -> Iterator[Hit]:
    (key, value), (name, limit) = promised, built
    if value is not None and value > limit:
        engine = name if " of the engine" in name else f"the engine's {name}"
        message = f"{key} {value:g} is more than {engine} {limit}"
        fix = f"set {key} to {limit} or less, or build the engine larger"
        yield hit(facts, model, message, fix, line=model.line_of(key), parameter=key, value=value, limit=limit)


@rule(
    "repository-target-without-drafts",
    "CRASH",
    "error",
    subject="repository",
    title="The target's engine takes no draft tokens",
    source="triton-inference-server/tensorrtllm_backend#473: Number of draft tokens is larger than maximum number",
    explanation="Only an engine built with --speculative_decoding_mode draft_tokens_external takes draft tokens.",
    fix="Build the target with --speculative_decoding_mode draft_tokens_external --max_draft_len N.",
    example="a target engine with max_draft_len 0 before a draft model",
)
def _without_drafts(facts: RepositoryFacts) -> Iterator[Hit]:
    for caller, target in facts.speculative:
        engine = facts.engine(target)
        if engine is not None and not (engine.speculates and engine.max_draft_len):
            message = f"its engine takes no draft tokens (mode {engine.speculative_mode}, max_draft_len "
            whose = caller.draft or "its lookups"
            message += f"{engine.max_draft_len}), and {caller.model.name} gives it those of {whose}"
            fix = "build it with --speculative_decoding_mode draft_tokens_external --max_draft_len N"
            yield hit(facts, target, message, fix, mode=engine.speculative_mode, draft=caller.draft)


@rule(
    "repository-draft-smaller",
    "PERF",
    "warning",
    subject="repository",
    title="The draft takes fewer or shorter requests than the target",
    source="triton-inference-server/tensorrtllm_backend#130: the smaller of the two limits what speculates at once",
    explanation="Each request in flight is in both models. The draft's smaller batch makes drafts wait; sequences "
    "longer than it takes are not drafted, or refused.",
    fix="Build the draft with the target's batch and length.",
    example="draft max_batch_size 4, target max_batch_size 8",
)
def _smaller(facts: RepositoryFacts) -> Iterator[Hit]:
    for _, target, draft in facts.pairs:
        batches = (draft.config.max_batch_size, target.config.max_batch_size)
        pairs = [("max_batch_size", *batches, draft.line_of("max_batch_size"))]
        mine_built, others_built = facts.engine(draft), facts.engine(target)
        if mine_built and others_built:
            lengths = (_request_tokens(mine_built), _request_tokens(others_built))
            pairs.append(("the engine's max_seq_len", *lengths, None))
        for name, mine, others, line in pairs:
            if mine < others:
                message = f"{name} {mine} is smaller than that of {target.name}, {others}"
                fix = "build the draft as large as the target, or lower the target's"
                yield hit(facts, draft, message, fix, line=line, value=mine, target=others)


def _request_tokens(engine: EngineConfig) -> int:
    return engine.max_seq_len - engine.max_draft_len
