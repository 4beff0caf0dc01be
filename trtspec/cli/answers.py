"""How an answer looks: live with the accepted tokens coloured, as JSON, and its line of statistics."""

from __future__ import annotations

from collections import deque
from typing import Any

import click

from trtspec.cli.output import Sink
from trtspec.serving import Endpoint
from trtspec.units import ms_text
from trtspec.wire import Answer, Chunk

__all__ = ["AnswerView", "answer_data", "statistics_line"]

_COLOURS = {1: "\x1b[32m", 2: "\x1b[36m"}  # by who proposed the token
_LEGEND = "[green]green[/]: drafted and accepted; plain: chosen by the target itself"
_LOOKUP_LEGEND = (
    "[green]green[/]: drafted by a model and accepted; [cyan]cyan[/]: found in the text and accepted; plain: chosen by "
    "the target itself"
)
_SOURCES = {0: "target", 1: "model", 2: "text"}
_RESET = "\x1b[0m"
# A model's text may hold control sequences; only line breaks and tabs may reach the terminal.
_CONTROL = {code: 0xFFFD for code in (*range(32), 127, *range(128, 160)) if code not in (9, 10)}


class AnswerView:
    """Writes an answer to stdout as it comes.

    On a terminal, text of drafted and accepted tokens is green, or cyan where it was found in the text (`lookups`: that
    may happen). What is written is the server's `text_output` and nothing else; token texts only decide its colours,
    because they can run ahead of it.
    """

    def __init__(self, sink: Sink, *, lookups: bool = False) -> None:
        self._hidden = sink.mode == "json"
        self._terminal = sink.out.is_terminal
        self._coloured = self._terminal and not sink.out.no_color
        self._pending: deque[tuple[str, int]] = deque()
        self._last = "\n"
        if self._coloured and sink.mode == "human":
            sink.note(_LOOKUP_LEGEND if lookups else _LEGEND)

    def show(self, chunk: Chunk) -> None:
        """Write the chunk's text."""
        if chunk.details is not None:
            self._pending.extend(zip(chunk.details.texts, chunk.details.sources, strict=False))
        if self._hidden or not chunk.text:
            return
        shown = "".join(self._styled(piece, source) for piece, source in self._pieces(chunk.text))
        # color: click shall not take anything out of what goes to a file
        click.echo(shown, nl=False, color=True)
        self._last = chunk.text[-1]

    def close(self) -> None:
        """End the line on which the answer ends."""
        if not self._hidden and self._last != "\n":
            click.echo()
            self._last = "\n"

    def _pieces(self, text: str) -> list[tuple[str, int]]:
        """`text` cut where its tokens begin; once it is not the tokens' text, the rest is no token's."""
        pieces: list[tuple[str, int]] = []
        while text and self._pending:
            token, source = self._pending.popleft()
            size = min(len(token), len(text))
            if token[:size] != text[:size]:
                self._pending.clear()
                break
            pieces.append((text[:size], source))
            text = text[size:]
            if size < len(token):
                self._pending.appendleft((token[size:], source))
        return [*pieces, (text, 0)] if text else pieces

    def _styled(self, piece: str, source: int) -> str:
        safe = piece.translate(_CONTROL) if self._terminal else piece
        colour = _COLOURS.get(source, "") if self._coloured and piece else ""
        return f"{colour}{safe}{_RESET}" if colour else safe


def statistics_line(answer: Answer) -> str:
    """Tokens, rounds, drafted, accepted and speed in one line; what was not measured is left out."""
    counters = answer.counters
    parts = [
        _part("{:d} tokens", counters.num_output_tokens),
        *_speculation_parts(answer),
        _part("first after {}", None if answer.time_to_first_token is None else ms_text(answer.time_to_first_token)),
        _part("{:.1f} tokens/s", answer.tokens_per_second),
        _part("ended by {}", answer.finish_reason or None),
    ]
    return f"[dim]{' · '.join(part for part in parts if part)}[/]"


def _speculation_parts(answer: Answer) -> list[str]:
    counters = answer.counters
    if not counters.num_spec_steps:
        return ["no speculation" if counters.num_lookup_steps is None else "nothing drafted"]
    return [
        _part("{:d} rounds", counters.num_spec_steps),
        _part("{:d} drafted", counters.num_draft_tokens),
        _part("{:d} accepted", counters.num_accepted_tokens),
        *_lookup_parts(answer),
        _part("acceptance rate {:.2f}", answer.acceptance_rate),
        _part("mean acceptance length {:.2f}", answer.mean_acceptance_length),
    ]


def _lookup_parts(answer: Answer) -> list[str]:
    """What the text was good for; nothing where drafts are not looked up."""
    counters = answer.counters
    if counters.num_lookup_steps is None:
        return []
    drafted, accepted = counters.num_lookup_draft_tokens, counters.num_accepted_lookup_tokens
    return [f"of the text {counters.num_lookup_steps} rounds, {drafted} drafted, {accepted} accepted"]


def _part(form: str, value: Any) -> str:
    return "" if value is None else form.format(value)


def answer_data(answer: Answer, endpoint: Endpoint, prompt: str) -> dict[str, Any]:
    """The JSON document of an answer; times in seconds, null for what was not measured."""
    counters = answer.counters
    return {
        "schema": 1,
        "arm": endpoint.arm,
        "url": endpoint.url,
        "started": endpoint.started,
        "prompt": prompt,
        "text": answer.text,
        "finish_reason": answer.finish_reason or None,
        "tokens": _tokens(answer),
        "num_input_tokens": counters.num_input_tokens,
        "num_output_tokens": counters.num_output_tokens,
        "num_spec_steps": counters.num_spec_steps,
        "num_draft_tokens": counters.num_draft_tokens,
        "num_accepted_tokens": counters.num_accepted_tokens,
        **_lookups(answer),
        "acceptance_histogram": counters.acceptance_histogram and list(counters.acceptance_histogram),
        "acceptance_rate": answer.acceptance_rate,
        "mean_acceptance_length": answer.mean_acceptance_length,
        "time_to_first_token": answer.time_to_first_token,
        "request_latency": answer.seconds,
        "output_tokens_per_second": answer.tokens_per_second,
    }


def _tokens(answer: Answer) -> list[dict[str, Any]]:
    """Each token; with who proposed it where that may be the text."""
    told = answer.counters.num_lookup_steps is not None
    tokens = zip(answer.token_ids, answer.token_texts, answer.sources, strict=False)
    return [
        {"id": token, "text": text, "drafted": bool(source), **({"source": _SOURCES.get(source)} if told else {})}
        for token, text, source in tokens
    ]


def _lookups(answer: Answer) -> dict[str, int | None]:
    names = ("num_lookup_steps", "num_lookup_draft_tokens", "num_accepted_lookup_tokens")
    found = {name: getattr(answer.counters, name) for name in names}
    return found if found["num_lookup_steps"] is not None else {}
