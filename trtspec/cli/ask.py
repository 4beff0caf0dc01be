"""`trtspec ask`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from trtspec.cli.answers import AnswerView, answer_data, statistics_line
from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples
from trtspec.cli.numbers import FiniteRange
from trtspec.cli.output import Sink
from trtspec.serving import Endpoint, given_server, some_server
from trtspec.spec import ARMS, Arm, SpecFile, load_spec

__all__ = ["command"]

_DEFAULT_SPEC = Path("trtspec.yaml")


@make_command(
    epilog=examples(
        'trtspec ask "Write a haiku about rain."',
        'trtspec ask trtspec.yaml "What is a B-tree?" --max-tokens 80 --draft-length 6',
        'trtspec ask "What is a B-tree?" --arm baseline --output json',
        'trtspec ask "Count to ten." --temperature 0.8 --top-p 0.95 --seed 7 --stop five',
        'git diff | trtspec ask "-"',
    )
)
@click.argument("words", metavar='[SPEC] "PROMPT"', nargs=-1, required=True)
@click.option("--arm", type=click.Choice(ARMS), help="Which arm; default: the one that runs, else speculative.")
@click.option("--url", metavar="HOST:PORT", help="gRPC address of a running server; none is started then.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=256, show_default=True, help="Length limit.")
@click.option("--draft-length", type=click.IntRange(0, 64), help="Tokens drafted per round; 0: no speculation.")
@click.option("--temperature", type=FiniteRange(0, 10), default=0.0, show_default=True, help="0: greedy.")
@click.option("--seed", type=click.IntRange(min=0), help="Of the sampling; the same gives the same answer.")
@click.option("--top-p", type=FiniteRange(0, 1, min_open=True), help="Sample from the likeliest, up to this share.")
@click.option("--top-k", type=click.IntRange(min=1), help="Sample from so many of the likeliest.")
@click.option("--stop", metavar="TEXT", multiple=True, help="End the answer before this text (repeatable).")
@click.option("--raw", is_flag=True, help="Send the prompt as it is, without the model's chat template.")
@click.option("--timeout", type=FiniteRange(min=1), default=300.0, show_default=True, help="Seconds.")
def command(sink: Sink, words: tuple[str, ...], arm: Arm | None, url: str | None, **options: Any) -> int | None:
    """Stream one answer and show which tokens were drafted and accepted.

    Asks the server that runs for this spec, or starts one for this question. "-" reads the prompt from stdin.
    """
    spec_path, prompt = _arguments(words)
    spec_file = load_spec(spec_path)
    text = prompt if options["raw"] else _rendered(spec_file, prompt)
    with _server(spec_file, arm, url, sink) as endpoint:
        view = AnswerView(sink, lookups=spec_file.spec.draft.looks_up)
        _ask(view, sink, endpoint, text, options)
    return None


def _arguments(words: tuple[str, ...]) -> tuple[Path, str]:
    """Spec and prompt of `PROMPT` or `SPEC PROMPT`."""
    if len(words) > 2 or (len(words) == 2 and not _names_a_spec(words[0])):
        raise click.UsageError('put the prompt in quotes: trtspec ask SPEC "PROMPT"')
    if len(words) == 1 and _names_a_spec(words[0]):
        raise click.UsageError(f'there is no prompt: trtspec ask {words[0]} "PROMPT"')
    spec = Path(words[0]) if len(words) == 2 else _DEFAULT_SPEC
    prompt = sys.stdin.read() if words[-1] == "-" else words[-1]
    if not prompt.strip():
        raise click.UsageError("the prompt is empty")
    return spec, prompt


def _names_a_spec(word: str) -> bool:
    return word.endswith((".yaml", ".yml")) or (len(word) < 4096 and "\0" not in word and Path(word).is_file())


def _rendered(spec_file: SpecFile, prompt: str) -> str:
    from trtspec.checkpoints.chat import render_user

    return render_user(spec_file.checkpoint("target"), prompt)


@contextmanager
def _server(spec_file: SpecFile, arm: Arm | None, url: str | None, sink: Sink) -> Iterator[Endpoint]:
    if url is None:
        with some_server(spec_file, arm, sink) as endpoint:
            yield endpoint
    elif arm is not None:
        raise click.UsageError("--url decides which arm answers; leave out --arm")
    else:
        yield given_server(spec_file, url)


def _ask(view: AnswerView, sink: Sink, endpoint: Endpoint, prompt: str, options: dict[str, Any]) -> None:
    from trtspec.wire import FrontendRequest, ask

    request = FrontendRequest(
        prompt,
        options["max_tokens"],
        num_draft_tokens=options["draft_length"],
        temperature=options["temperature"] or None,
        top_p=options["top_p"],
        top_k=options["top_k"],
        stop_words=options["stop"],
        seed=options["seed"],
        token_details=True,
    )
    try:
        answer = asyncio.run(ask(endpoint.url, request, timeout=options["timeout"], on_chunk=view.show))
    finally:
        view.close()
    if sink.mode == "json":
        sink.result(answer_data(answer, endpoint, prompt), lambda _console: None)
    sink.note(statistics_line(answer))
