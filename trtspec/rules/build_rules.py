"""Rules about the sizes that are built into engines, and what the load on them will be."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.rules.facts import Facts, each_source
from trtspec.rules.registry import Hit, rule
from trtspec.rules.sizes import decoder_buffer_bytes, sequence_limit
from trtspec.units import bytes_text, count_text

__all__: list[str] = []

_BUILDER = "tensorrt_llm/builder.py of TensorRT-LLM 1.2"
_CHECK = "the check of max_num_tokens in TensorRT-LLM 1.2"
_LARGE_PASS = 16384
_LARGE_BUFFERS = 1 << 30


def _target_is_built(facts: Facts) -> bool:
    return any(role == "target" for role, _ in each_source(facts))


@rule(
    "batch-size-buffers",
    "OOM",
    "warning",
    title="max_batch_size makes large probability buffers",
    source="TensorRT-LLM's C++ runtime: two buffers of batch × (draft + 1) × beams × vocabulary (float32 assumed)",
    explanation="Verifying drafts needs the probabilities of every position of every sequence, allocated for the "
    "largest batch when the server starts. At the tool's default of 2048 sequences that is 21 GiB.",
    fix="build.max_batch_size: what is really in flight.",
    example="build: {max_batch_size: 512} with a vocabulary of 128 256",
)
def _buffers(facts: Facts) -> Iterator[Hit]:
    rows = facts.pair.target_vocab
    if rows is None or not _target_is_built(facts):
        return
    batch, length = facts.spec.build.max_batch_size, facts.spec.speculation.engine_draft_length
    size = decoder_buffer_bytes(batch, length, rows)
    if size > _LARGE_BUFFERS:
        message = f"2 × {batch} sequences × ({length} + 1) tokens × {count_text(rows)} rows × 4 bytes = "
        message += f"{bytes_text(size)} of probability buffers"
        load, each = facts.spec.loadtest, size // batch
        wanted = max(load.concurrency) if "concurrency" in load.model_fields_set else _LARGE_BUFFERS // each
        fix = f"set build.max_batch_size: {wanted}, or what is really in flight: a sequence costs {bytes_text(each)}"
        if not 0 < wanted < batch:
            fix = "lower speculation.max_draft_length"
        yield Hit("target", message, fix, {"bytes": size, "batch": batch})


@rule(
    "max-num-tokens-large",
    "OOM",
    "warning",
    title="More than 16384 tokens in one pass",
    source=f"{_CHECK}: it warns above 16384",
    explanation="Activations grow with max_num_tokens and are reserved when the engine is built; a tensor may pass "
    "TensorRT's limit on its size.",
    fix="build.max_num_tokens: 8192; longer prompts are split.",
    example="build: {max_num_tokens: 32768}",
)
def _large(facts: Facts) -> Iterator[Hit]:
    tokens = facts.spec.build.max_num_tokens
    if tokens > _LARGE_PASS and _target_is_built(facts):
        message = f"max_num_tokens {count_text(tokens)}: activations are reserved for that many, trtllm-build warns "
        message += f"above {count_text(_LARGE_PASS)}"
        yield Hit("spec", message, "set build.max_num_tokens: 8192", {"max_num_tokens": tokens})


@rule(
    "max-num-tokens-capped",
    "INFO",
    "note",
    title="max_num_tokens is more than all sequences together hold",
    source=f"{_CHECK}: capped at max_seq_len × max_batch_size",
    explanation="The builder lowers it; config.json of the engine will say another number than the spec.",
    fix="Nothing; or the smaller number.",
    example="build: {max_num_tokens: 8192, max_batch_size: 1, max_seq_len: 2048}",
)
def _capped(facts: Facts) -> Iterator[Hit]:
    limit, build = sequence_limit(facts), facts.spec.build
    if limit is not None and build.max_num_tokens > limit * build.max_batch_size and _target_is_built(facts):
        most = limit * build.max_batch_size
        message = f"max_num_tokens {count_text(build.max_num_tokens)} becomes {count_text(most)} "
        message += f"(max_batch_size {build.max_batch_size} × max_seq_len {count_text(limit)})"
        yield Hit("spec", message, None, {"asked": build.max_num_tokens, "written": most})


@rule(
    "max-num-tokens-lifted",
    "OOM",
    "note",
    title="max_num_tokens is raised for the verification of a full batch",
    source=f"{_BUILDER}: at least max_batch_size × (max_draft_len + 1) for a speculative mode",
    explanation="Verifying drafts takes draft length + 1 tokens of every sequence in one pass. The builder raises the "
    "target's max_num_tokens, and with it the memory for activations.",
    fix="Nothing; or plan with the larger number.",
    example="build: {max_num_tokens: 256, max_batch_size: 64} with max_draft_length: 8",
)
def _lifted(facts: Facts) -> Iterator[Hit]:
    build, length = facts.spec.build, facts.spec.speculation.engine_draft_length
    needed = build.max_batch_size * (length + 1)
    if build.max_num_tokens < needed and _target_is_built(facts):
        message = f"the target's max_num_tokens {build.max_num_tokens} becomes {needed} "
        message += f"(max_batch_size {build.max_batch_size} × (max_draft_length {length} + 1))"
        yield Hit(
            "target", message, f"set build.max_num_tokens: {needed}", {"asked": build.max_num_tokens, "written": needed}
        )


@rule(
    "prompts-in-chunks",
    "PERF",
    "note",
    title="Expected prompts are longer than one pass",
    source="NVIDIA/TensorRT-LLM#2702, #6539: a 32k engine refuses prompts over 8192, its max_num_tokens",
    explanation="A prompt longer than max_num_tokens is split into chunks, which needs chunked context in the server: "
    "`trtspec repo` switches it on, the backend's own default is off. Without it such a prompt is refused, and a long "
    "answer stops, since each round sends the whole sequence as prompt.",
    fix="build.max_num_tokens of at least the usual prompt, for one pass.",
    example="expectations: {prompt_tokens: 9000} with build: {max_num_tokens: 8192, max_seq_len: 32768}",
)
def _chunks(facts: Facts) -> Iterator[Hit]:
    expected, tokens = facts.spec.expectations, facts.spec.build.max_num_tokens
    given = "prompt_tokens" in expected.model_fields_set
    if given and expected.prompt_tokens > tokens and any(True for _ in each_source(facts)):
        passes = -(-expected.prompt_tokens // tokens)
        message = f"prompts of {count_text(expected.prompt_tokens)} tokens take {passes} passes of max_num_tokens "
        message += f"{count_text(tokens)}; a server without chunked context refuses them"
        data = {"passes": passes, "max_num_tokens": tokens}
        yield Hit("spec", message, f"set build.max_num_tokens: {expected.prompt_tokens}", data)


@rule(
    "concurrency-over-batch",
    "PERF",
    "warning",
    title="The load test sends more requests at once than the engines hold",
    source="triton-inference-server/tensorrtllm_backend#257, #416: requests beyond the batch wait",
    explanation="Requests beyond max_batch_size wait in a queue. Their waiting time is measured, the engines' "
    "behaviour at that concurrency is not.",
    fix="build.max_batch_size of at least the highest concurrency.",
    example="loadtest: {concurrency: [1, 16]} with build: {max_batch_size: 8}",
)
def _concurrency(facts: Facts) -> Iterator[Hit]:
    most, batch = max(facts.spec.loadtest.concurrency), facts.spec.build.max_batch_size
    if most > batch:
        message = f"loadtest.concurrency goes to {most}, build.max_batch_size is {batch}: {most - batch} requests wait"
        yield Hit("spec", message, f"set build.max_batch_size: {most}", {"concurrency": most, "batch": batch})


@rule(
    "logits-transfer",
    "PERF",
    "note",
    title="Accepting by logits moves the draft's logits to the target",
    source="triton-inference-server/tensorrtllm_backend docs (use_draft_logits); fast logits need orchestrator mode",
    explanation="Each round carries draft length × vocabulary numbers from one model to the other, through the host "
    "unless fast logits are on.",
    fix="acceptance: tokens for greedy requests; logits where sampled text must keep the target's distribution.",
    example="speculation: {acceptance: logits, draft_length: 5} with a vocabulary of 128 256",
)
def _transfer(facts: Facts) -> Iterator[Hit]:
    rows, length = facts.pair.draft_vocab, facts.spec.speculation.draft_length
    if facts.spec.speculation.acceptance != "logits" or rows is None:
        return
    wide = 2 if facts.spec.build.logits_dtype == "float16" else 4
    size = length * rows * wide
    message = f"each round moves {length} × {count_text(rows)} logits = {bytes_text(size)} for each sequence"
    yield Hit("pair", message, None, {"bytes": size})


@rule(
    "sampling-by-tokens",
    "PERF",
    "note",
    title="Sampled requests with acceptance by tokens",
    source="a sampled token must equal the drafted one; rejection sampling accepts more (Leviathan et al. 2023)",
    explanation="With a temperature above 0 the target draws a token at random, and a draft is accepted only if it "
    "guessed that draw. Output stays right; acceptance falls with the temperature. In the torch runtime the draft "
    "draws with the target's random numbers, so it guesses right more often, and answers depend on the seed alone, not "
    "on the draft length.",
    fix="acceptance: logits, or measure at temperature 0 as well.",
    example="loadtest: {temperature: 0.8} with speculation: {acceptance: tokens}",
)
def _sampling(facts: Facts) -> Iterator[Hit]:
    temperature = facts.spec.loadtest.temperature
    if temperature > 0 and facts.spec.speculation.acceptance == "tokens":
        message = f"loadtest.temperature {temperature:g} with acceptance by tokens: the draft must guess each draw"
        fix = "set speculation.acceptance: logits" if facts.spec.draft.is_model else "measure at temperature 0 as well"
        yield Hit("spec", message, fix, {"temperature": temperature})
