"""The package's own prompts."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.builders import toy_spec
from trtspec.cli.main import cli
from trtspec.demo.run import DemoOptions, write_demo_spec
from trtspec.loadtest.prompts import BUILTIN, BUILTIN_60, HUMAN_EVAL, RANDOM, load_prompts, warmup_prompts
from trtspec.spec import load_spec
from trtspec.spec.names import PROMPT_SETS
from trtspec.training.prompts import make_prompts

ALL = load_prompts("builtin").prompts
SIXTY = load_prompts("builtin-60").prompts
# of [id, category, text, max_tokens] of the 60 prompts with which the demo's draft was measured
_MEASURED = "7170b69e174942ee81e5263f919ddc5ced3adb5dedeb24dd68c4ad2c5b2da97f"
_CHINESE = re.compile(r"[\u4e00-\u9fff]")


def test_twelve_categories_of_twenty() -> None:
    assert Counter(prompt.category for prompt in ALL) == dict.fromkeys(
        [
            "copying", "reformatting", "code_editing", "code", "extraction", "summarising", "translation",
            "question_answering", "reasoning", "chat", "creative", "stories",
        ],
        20,
    )  # fmt: skip
    assert len({prompt.id for prompt in ALL}) == len({prompt.text for prompt in ALL}) == 240


def test_the_sixty_of_the_demo_are_what_they_were_and_come_first() -> None:
    rows = [[prompt.id, prompt.category, prompt.text, prompt.max_tokens] for prompt in SIXTY]
    assert hashlib.sha256(json.dumps(rows, ensure_ascii=False).encode()).hexdigest() == _MEASURED
    assert ALL[:60] == SIXTY


def test_languages_are_what_the_texts_are_in() -> None:
    languages = Counter(prompt.language for prompt in ALL)
    assert 38 <= languages["zh"] <= 48
    assert {prompt.id for prompt in ALL if _CHINESE.search(prompt.text)} == {
        prompt.id for prompt in ALL if prompt.language == "zh" and prompt.category != "translation"
    } | {f"translate-{number}" for number in (17, 18, 19, 20)}
    assert len({prompt.category for prompt in ALL if prompt.language == "zh"}) == 12
    assert {prompt.category for prompt in ALL if prompt.language not in {"en", "zh"}} == {"translation"}


def test_entropy_from_low_to_high() -> None:
    assert Counter(prompt.entropy for prompt in ALL) == {"low": 80, "medium": 100, "high": 60}
    assert all(len({p.entropy for p in ALL if p.category == name}) == 1 for name in {p.category for p in ALL})


def test_lengths_vary_and_answers_have_room() -> None:
    sizes = [len(prompt.text) for prompt in ALL]
    assert min(sizes) > 25
    assert 2000 < max(sizes) < 3000
    assert all(64 <= prompt.max_tokens <= 800 for prompt in ALL)
    # what is to be given back whole must fit: four characters or more a token, of Chinese (and of code in it) fewer
    copied = [prompt for prompt in ALL if prompt.category in {"copying", "code_editing"}]
    cut = [p.id for p in copied if p.max_tokens < len(p.text) * (0.5 if p.language == "zh" else 0.2)]
    assert cut == []


def test_warm_up_prompts_are_never_measured() -> None:
    assert not {prompt.text for prompt in warmup_prompts()} & {prompt.text for prompt in ALL}


def test_no_draft_is_trained_on_them() -> None:
    trained = {prompt.text for prompt in make_prompts(20_000, seed=0)}
    assert not trained & {prompt.text for prompt in (*ALL, *warmup_prompts())}


def test_no_sentence_that_a_draft_is_trained_on_stands_in_them() -> None:
    def sentences(text: str) -> set[str]:
        return {part.strip() for part in re.split(r"(?<=[.!?。！？])\s*|\n", text) if len(part.strip()) >= 40}

    trained = {sentence for prompt in make_prompts(6000, seed=3) for sentence in sentences(prompt.text)}
    assert len(trained) > 1000
    assert not trained & {sentence for prompt in ALL for sentence in sentences(prompt.text)}


@pytest.mark.parametrize("name", ["builtin", "builtin-60"])
def test_the_same_every_time(name: str) -> None:
    assert load_prompts(name) == load_prompts(name)
    assert load_prompts(name).sha256 == load_prompts(name, seed=5).sha256


def test_the_demo_asks_the_sixty(tmp_path: Path) -> None:
    path = write_demo_spec(DemoOptions(tmp_path, 60, (1,), 80, 4), tmp_path / "target")
    assert load_spec(path).spec.loadtest.prompts == "builtin-60"


def test_check_looks_for_files_and_not_for_named_sets(tmp_path: Path) -> None:
    assert set(PROMPT_SETS) == {BUILTIN, BUILTIN_60, HUMAN_EVAL, RANDOM}
    for number, name in enumerate((*PROMPT_SETS, "mine.jsonl")):
        spec = toy_spec(tmp_path / str(number), loadtest={"prompts": name})
        result = CliRunner().invoke(cli, ["check", str(spec.path), "--output", "json"])
        missing = [one for one in json.loads(result.stdout)["findings"] if f"{number}/{name}" in str(one)]
        assert bool(missing) == (name == "mine.jsonl"), result.stdout
