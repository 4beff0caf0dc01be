"""One model of a pair as far as tokens go: vocabulary rows and ids, end ids, the begin-of-text token, the template."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trtspec.checkpoints.checkpoint import Survey

__all__ = ["UNKNOWN", "Side", "side_facts", "writes_bos"]


@dataclass(frozen=True)
class Side:
    """`rows` of the model's vocabulary, `ids` up to the tokenizer's largest, `unused` ids below that without a token.

    `adds_bos`: the tokenizer puts the begin-of-text token in front; `template_writes_bos`: the chat template does.
    None where it is not known.
    """

    rows: int | None = None
    ids: int | None = None
    unused: int = 0
    end_ids: tuple[int, ...] = ()
    bos_id: int | None = None
    adds_bos: bool | None = None
    template_writes_bos: bool | None = None
    chat_template: str | None = field(default=None, repr=False)

    @property
    def padding(self) -> int | None:
        """Vocabulary rows beyond the tokenizer's ids; negative when ids are beyond the rows."""
        return None if self.rows is None or self.ids is None else self.rows - self.ids

    @property
    def doubles_bos(self) -> bool:
        """True when a rendered prompt that is tokenised with special tokens begins with two begin-of-text tokens."""
        return bool(self.adds_bos and self.template_writes_bos and self.bos_id is not None)

    def bos_json(self) -> dict[str, Any]:
        """The side's entry of `bos` in `check --output json`."""
        return {
            "id": self.bos_id,
            "tokenizer_adds": self.adds_bos,
            "template_writes": self.template_writes_bos,
            "doubled": self.doubles_bos,
        }


UNKNOWN = Side()


def writes_bos(template: str, bos: str | None) -> bool:
    """True when a chat template names the begin-of-text token, by its variable or its text."""
    return "bos_token" in template or bool(bos and bos in template)


def side_facts(survey: Survey) -> Side:
    """The token facts of one model."""
    tokenizer, template = survey.tokenizer, survey.chat_template
    if tokenizer is None:
        return Side(rows=survey.vocab_size, end_ids=survey.end_ids, chat_template=template)
    bos = tokenizer.tokens.get(tokenizer.bos_id) if tokenizer.bos_id is not None else None
    return Side(
        rows=survey.vocab_size,
        ids=tokenizer.width,
        unused=tokenizer.width - len(tokenizer.tokens),
        end_ids=survey.end_ids,
        bos_id=tokenizer.bos_id,
        adds_bos=tokenizer.adds_bos,
        template_writes_bos=writes_bos(template, bos) if template is not None else None,
        chat_template=template,
    )
