from __future__ import annotations

from dataclasses import replace

from trtspec.training.card import CandidateLine, CardFacts, Measurement, card
from trtspec.training.evaluate import Acceptance

CODE, CHAT = Acceptance(2, 6, 3), Acceptance(2, 4, 1)
FACTS = CardFacts(
    target="Big",
    shape="hidden 64, 2 layers",
    parameters=1_500_000,
    dtype="float16",
    how="new layers",
    data="prompts",
    answers=3603,
    tokens=380_440,
    vocabulary=25_489,
    seed=7,
    training="AdamW.",
    measurements=[
        Measurement("held-out prompts", 3, 1, CODE, {"code": CODE}, (0.5, 0.25, None)),
        Measurement("load-test prompts", 3, 2, CODE + CHAT, {"code": CODE, "chat": CHAT}, (0.5, 0.5, 0.5)),
        Measurement("held-out prompts", 2, 1, CODE, {"code": CODE}, (0.5, 0.25)),
    ],
    longest=400,
    command="trtspec distill --seed 7",
)


def test_the_table_has_a_column_for_every_category_and_a_dash_for_what_was_not_measured() -> None:
    text = card(FACTS)
    assert "| held-out prompts | 1 | 3 | 2.50 | 0.50 | 0.50 | – |" in text
    assert "| load-test prompts | 2 | 3 | 2.00 | 0.40 | 0.50 | 0.25 |" in text
    assert "| held-out prompts | 0.50 | 0.25 | – |" in text
    assert "380 440 tokens" in text
    assert "    trtspec distill --seed 7\n" in text


def test_a_run_says_whether_it_can_be_repeated_byte_for_byte() -> None:
    assert "number of\n  threads gives the same bytes" in card(FACTS)
    assert "Trained on a GPU" in card(replace(FACTS, device="cuda"))
    timed = card(replace(FACTS, seconds=(3600.0, 90.0)))
    assert "answering 1 h 00 min, training 1 min 30 s" in timed
    assert "does not give the same bytes again" in timed


def test_the_licence_names_the_model_that_was_tuned_too() -> None:
    assert "* **Licence**: that of Big, whose answers it was trained on.\n" in card(FACTS)
    assert "trained on, and that of Small, which it started from.\n" in card(replace(FACTS, tuned="Small"))


def test_candidates_and_the_chosen_one() -> None:
    lines = [
        CandidateLine("2x64", 900_000, 1.8, 3, 1.5, 1.21, True),
        CandidateLine("target:1", 10**6, None, 2, 3, 1, False),
    ]
    text = card(replace(FACTS, candidates=lines, proposed=8192))
    assert "| **2x64** | 0.9 | 1.80 | 3 | 1.50 | 1.21 |" in text
    assert "| target:1 | 1.0 | – | 2 | 3.00 | 1.00 |" in text
    assert "may choose another shape" in text
    assert "only the 8 192 tokens" in text
