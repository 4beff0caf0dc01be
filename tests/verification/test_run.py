"""Whole verifications against scripted servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.builders import toy_spec
from tests.loadtest.servers import chat_server, pace
from tests.verification.pair import Script, sampler, speaker
from tests.wire.fake_triton import ErrorMessage, FakeTriton, Received
from trtspec.errors import LoadTestFailed, UsageError, VerificationFailed
from trtspec.files import read_json
from trtspec.progress import SilentReporter
from trtspec.spec import SpecFile
from trtspec.verification import VerifyResult, verify, verify_options
from trtspec.verification.schema import closed_verification_schema

CLEAR = (0.0, 0.0, 0.0, 0.0, 5.0, 1.0)
TIED = (0.0, 0.0, 0.0, 0.0, 5.0, 4.999)
OWN = ("samples", "tokens", "significance", "tasks", "strict")


@pytest.fixture(scope="module")
def spec_file(tmp_path_factory: pytest.TempPathFactory) -> SpecFile:
    folder = tmp_path_factory.mktemp("toy")
    # prompts of its own: what a scripted arm draws depends on them, and must not change with the built-in ones
    lines = [json.dumps({"id": f"p{n}", "prompt": f"{'x' * n} number {n}", "max_tokens": 16}) for n in range(40)]
    (folder / "prompts.jsonl").write_text("\n".join(lines))
    return toy_spec(folder, loadtest={"prompts": "prompts.jsonl"})


def check(spec_file: SpecFile, out: Path, scripts: tuple[Script, Script], **values: Any) -> VerifyResult:
    """A verification of (baseline, speculative) scripts."""
    own = {name: values.pop(name) for name in OWN if name in values}
    sizes: dict[str, Any] = {"requests": 6, "concurrency": (3,), "timeout": 5.0, **values}
    with FakeTriton(scripts[0]) as one, FakeTriton(scripts[1]) as other:
        urls = {"baseline": one.url, "speculative": other.url}
        result = verify(spec_file, verify_options(spec_file, own, urls=urls, out=out, **sizes), SilentReporter())
    jsonschema.validate(result.data, closed_verification_schema())
    assert read_json(out / "verification.json") == result.data
    return result


def test_equal_answers(spec_file: SpecFile, tmp_path: Path) -> None:
    result = check(spec_file, tmp_path / "v", (speaker("left"), speaker("left")), concurrency=(1, 3))
    assert result.failure is None
    assert result.data["verdict_code"] == "IDENTICAL"
    assert result.data["equality"] == {
        "compared": 12,
        "identical": 12,
        "diverged": 0,
        "verdicts": {"near-tie": 0, "logic fault?": 0, "not reproduced": 0, "not examined": 0},
        "divergences": [],
    }
    answers = [json.loads(line) for line in (tmp_path / "v" / "answers.jsonl").read_text().splitlines()]
    assert {answer["load"] for answer in answers} == {"concurrency 1", "concurrency 3"}


@pytest.mark.parametrize(
    ("logits", "code", "verdict"), [(TIED, "NEAR-TIES", "near-tie"), (CLEAR, "LOGIC FAULT", "logic fault?")]
)
def test_every_divergence_is_examined(
    spec_file: SpecFile, tmp_path: Path, logits: tuple[float, ...], code: str, verdict: str
) -> None:
    scripts = speaker("left", logits), speaker("right", logits)
    result = check(spec_file, tmp_path / "v", scripts, requests=30)
    assert result.data["verdict_code"] == code
    places = result.data["equality"]["divergences"]
    # more than a load test would ask about
    assert [place["verdict"] for place in places] == [verdict] * 30
    place = places[0]
    assert (place["token_index"], place["baseline_token"], place["speculative_token"]) == (2, 4, 5)
    assert (place["baseline_text"], place["speculative_text"]) == ("left", "right")
    assert isinstance(result.failure, VerificationFailed) == (code == "LOGIC FAULT")


def test_what_nothing_explains_fails_only_when_asked_to(spec_file: SpecFile, tmp_path: Path) -> None:
    scripts = speaker("left"), speaker("right")
    result = check(spec_file, tmp_path / "v", scripts)
    assert result.data["verdict_code"] == "UNEXPLAINED"
    assert result.data["equality"]["divergences"][0]["reason"] == "the server gives no token details"
    assert result.failure is None
    strict = check(spec_file, tmp_path / "strict", scripts, strict=True)
    assert isinstance(strict.failure, VerificationFailed)


def test_a_difference_that_does_not_come_again(spec_file: SpecFile, tmp_path: Path) -> None:
    asked: dict[str, int] = {}

    def once(request: Received) -> str:
        asked[request.prompt] = asked.get(request.prompt, 0) + 1
        return "right" if asked[request.prompt] == 1 else "left"

    result = check(spec_file, tmp_path / "v", (speaker("left", CLEAR), speaker(once, CLEAR)))
    assert result.data["equality"]["verdicts"]["not reproduced"] == 6
    assert result.data["verdict_code"] == "UNEXPLAINED"


def test_requests_that_fail_are_no_success(spec_file: SpecFile, tmp_path: Path) -> None:
    def broken(request: Received) -> Any:
        return [ErrorMessage("boom")] if len(request.prompt) % 2 else speaker("left")(request)

    result = check(spec_file, tmp_path / "v", (speaker("left"), broken), requests=12)
    assert isinstance(result.failure, LoadTestFailed)
    assert 0 < result.data["answers"]["failed"] < 12
    assert result.data["equality"]["compared"] == 12 - result.data["answers"]["failed"]


def test_nothing_compared_is_no_success(spec_file: SpecFile, tmp_path: Path) -> None:
    result = check(spec_file, tmp_path / "v", (speaker("left"), lambda _: [ErrorMessage("boom")]))
    assert result.data["verdict_code"] == "INCONCLUSIVE"
    assert result.failure is not None


def test_any_two_servers_are_compared_by_their_texts(tmp_path: Path) -> None:
    with chat_server() as one, chat_server(pace(1, 1)) as other:
        urls = {"baseline": f"{one.url}/v1", "speculative": f"{other.url}/v1"}
        options = verify_options(None, {}, urls=urls, requests=4, max_tokens=5, out=tmp_path / "v")
        result = verify(None, options, SilentReporter())
    assert result.data["verdict_code"] == "IDENTICAL"


# --- distributions ---

EVEN = (40, 30, 20, 10)
BENT = (20, 25, 30, 25)


def sample(spec_file: SpecFile, out: Path, second: Script, **values: Any) -> VerifyResult:
    sizes = {"requests": 3, "samples": 120, "temperature": 0.7, "concurrency": (8,), **values}
    return check(spec_file, out, (sampler(EVEN), second), **sizes)


def test_equal_distributions_pass_and_the_power_is_told(spec_file: SpecFile, tmp_path: Path) -> None:
    result = sample(spec_file, tmp_path / "v", sampler(EVEN))
    assert result.failure is None
    section = result.data["distribution"]
    assert (result.data["verdict_code"], section["unit"], section["samples"]) == ("SAME", "tokens", 720)
    assert 0 < section["pooled"]["detectable"] < section["prompts"][0]["detectable"] < 1
    assert section["pooled"]["total_variation"] < section["pooled"]["noise"]["p95"] * 1.5
    assert "would have been seen" in result.data["verdict"]


def test_a_bent_distribution_is_rejected(spec_file: SpecFile, tmp_path: Path) -> None:
    result = sample(spec_file, tmp_path / "v", sampler(BENT))
    assert isinstance(result.failure, VerificationFailed)
    section = result.data["distribution"]
    assert result.data["verdict_code"] == "DIFFERENT"
    assert section["pooled"]["rejected"]
    assert section["pooled"]["total_variation"] > section["pooled"]["noise"]["p95"]
    assert section["prompts"][0]["largest_differences"]


def test_one_bent_prompt_among_many_is_named(spec_file: SpecFile, tmp_path: Path) -> None:
    first: list[str] = []

    def one_is_bent(request: Received) -> Any:
        first.append(request.prompt)
        return sampler((10, 20, 30, 40) if request.prompt == first[0] else EVEN)(request)

    result = sample(spec_file, tmp_path / "v", one_is_bent, samples=80)
    rejected = [prompt["prompt_id"] for prompt in result.data["distribution"]["prompts"] if prompt["rejected"]]
    assert len(rejected) == 1
    assert rejected[0] in result.data["verdict"]


def test_texts_are_compared_where_no_token_ids_are_told(spec_file: SpecFile, tmp_path: Path) -> None:
    result = check(
        spec_file, tmp_path / "v", (sampler(EVEN, details=False), sampler((10, 20, 30, 40), details=False)),
        requests=2, samples=150, temperature=0.7,
    )  # fmt: skip
    assert result.data["distribution"]["unit"] == "characters"
    assert result.data["verdict_code"] == "DIFFERENT"


def test_no_seed_is_used_twice(spec_file: SpecFile, tmp_path: Path) -> None:
    with FakeTriton(sampler(EVEN)) as one, FakeTriton(sampler(EVEN)) as other:
        urls = {"baseline": one.url, "speculative": other.url}
        sizes: dict[str, Any] = {"requests": 2, "temperature": 0.7, "seed": 5}
        options = verify_options(spec_file, {"samples": 30, "tokens": 2}, urls=urls, out=tmp_path / "v", **sizes)
        verify(spec_file, options, SilentReporter())
        received = [*one.received, *other.received]
    assert len({request.inputs["seed"][0] for request in received}) == len(received) == 120
    assert {request.inputs["max_tokens"][0] for request in received} == {2}


def test_samples_that_are_all_alike_tell_nothing(spec_file: SpecFile, tmp_path: Path) -> None:
    result = check(spec_file, tmp_path / "v", (sampler((1,)), sampler((1,))), temperature=0.7, samples=20, requests=2)
    assert result.data["verdict_code"] == "INCONCLUSIVE"
    assert isinstance(result.failure, LoadTestFailed)


def test_arms_that_refuse_every_sample(spec_file: SpecFile, tmp_path: Path) -> None:
    refusing: Script = lambda _: [ErrorMessage("no sampling")]  # noqa: E731 - a script
    result = check(spec_file, tmp_path / "v", (refusing, refusing), temperature=0.7, samples=20, requests=2)
    assert result.data["answers"]["failed"] == 80
    assert "no sampling" in result.data["answers"]["errors"]
    assert result.failure is not None


# --- tasks ---


def tasks(path: Path, count: int) -> Path:
    lines = [{"id": f"t{n}", "prompt": f"task number {n}", "answer": "left", "match": "contains"} for n in range(count)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_scores_of_both_arms(spec_file: SpecFile, tmp_path: Path) -> None:
    def sometimes(request: Received) -> str:
        return "left" if request.prompt.rstrip().endswith(("0", "1", "2")) or "number 3" in request.prompt else "right"

    file = tasks(tmp_path / "tasks.jsonl", 10)
    scripts = speaker("left", TIED), speaker(sometimes, TIED)
    result = check(spec_file, tmp_path / "v", scripts, tasks=file, chat_template="never")
    section = result.data["tasks"]
    assert section["tasks"] == 10
    assert section["right"] == {"baseline": 10, "speculative": 4}
    assert (section["only_baseline"], section["only_speculative"]) == (6, 0)
    assert section["p"] == pytest.approx(2 / 64)
    assert not section["rejected"]
    assert len(section["differing"]) == 6
    # the answers themselves are compared too
    assert result.data["verdict_code"] == "NEAR-TIES" or result.data["equality"]["diverged"] == 6


def test_a_worse_score_is_a_failure(spec_file: SpecFile, tmp_path: Path) -> None:
    file = tasks(tmp_path / "tasks.jsonl", 12)
    result = check(spec_file, tmp_path / "v", (speaker("left", TIED), speaker("right", TIED)), tasks=file)
    assert result.data["tasks"]["rejected"]
    assert isinstance(result.failure, VerificationFailed)


def test_at_a_temperature_only_scores_are_compared(spec_file: SpecFile, tmp_path: Path) -> None:
    file = tasks(tmp_path / "tasks.jsonl", 5)
    result = check(spec_file, tmp_path / "v", (speaker("left"), speaker("left now")), tasks=file, temperature=0.5)
    assert result.data["equality"] is None
    assert result.data["verdict_code"] == "SAME"


# --- options ---


def test_options_that_contradict_each_other(spec_file: SpecFile) -> None:
    with pytest.raises(UsageError, match="--samples is for a test of distributions"):
        verify_options(spec_file, {"samples": 30})
    with pytest.raises(UsageError, match="--max-tokens is for greedy answers"):
        verify_options(spec_file, {}, temperature=0.5, max_tokens=9)
    with pytest.raises(UsageError, match="one concurrency"):
        verify_options(spec_file, {}, temperature=0.5, concurrency=(1, 2))


def test_the_specs_load_levels_are_not_the_verifications(tmp_path: Path) -> None:
    spec_file = toy_spec(tmp_path, loadtest={"until": 0.05, "rate": [1.0], "temperature": 0.9, "warmup": 7})
    load = verify_options(spec_file, {}).load
    assert (load.rate, load.until, load.temperature, load.concurrency, load.requests) == ((), None, 0.0, (4,), 48)
