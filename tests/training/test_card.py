from __future__ import annotations

from trtspec.training.card import Measurement, Summary, card
from trtspec.training.evaluate import Acceptance
from trtspec.training.model import DraftShape
from trtspec.training.train import Progress


def test_the_table_has_a_column_for_every_category_and_a_dash_for_what_was_not_measured() -> None:
    code, chat = Acceptance(2, 6, 3), Acceptance(2, 4, 1)
    measurements = [
        Measurement("held-out prompts", 3, 1, code, {"code": code}),
        Measurement("load-test prompts", 3, 2, code + chat, {"code": code, "chat": chat}),
    ]
    best = Progress(epoch=2.0, seconds=60, loss=1.5, rate=0.4, match=0.6)
    text = card(Summary(DraftShape(), 0, 380_440, 3603, 25_489, 600, 300, best, measurements, note="* By hand."))
    assert "| held-out prompts | 1 | 3 | 2.50 | 0.50 | 0.50 | – |" in text
    assert "| load-test prompts | 2 | 3 | 2.00 | 0.40 | 0.50 | 0.25 |" in text
    assert "--tokens 380000" in text
    assert "  * By hand." in text
