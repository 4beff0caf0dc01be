"""What a run asks and how: prompts, load levels, and the way from a message to a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from trtspec.errors import UsageError
from trtspec.loadtest.arrivals import Traffic, open_loop, parse_profile
from trtspec.loadtest.asked import asked_prompts
from trtspec.loadtest.jobs import Shape
from trtspec.loadtest.options import RunOptions
from trtspec.loadtest.prompts import PromptSet
from trtspec.loadtest.sender import Message, SendOptions, plain_text
from trtspec.loadtest.tokens import TextTokens, open_tokenizer
from trtspec.loadtest.trace import load_trace, trace_prompts
from trtspec.spec import SpecFile

__all__ = ["Questions", "prepare"]


@dataclass(frozen=True)
class Questions:
    """The prompts, the plan's shape, what requests have in common, and the tokenizer (None: there is none)."""

    prompts: PromptSet
    shape: Shape
    send_options: SendOptions
    tokens: TextTokens | None


def prepare(spec_file: SpecFile | None, options: RunOptions) -> Questions:
    """Everything that is known before a server is asked; UsageError for files that cannot be used."""
    checkpoint = _checkpoint(spec_file, options)
    tokens = None if checkpoint is None else open_tokenizer(checkpoint)
    if options.tokenizer is not None and tokens is None:
        raise UsageError("no tokenizer.json there", where=str(options.tokenizer), fix="--tokenizer FOLDER of a model")
    render = _renderer(checkpoint, options)
    prompts = asked_prompts(spec_file, options, tokens, render)
    traffic, synthetic = _open_levels(options, prompts, tokens)
    send_options = SendOptions(
        render=render,
        temperature=options.temperature,
        timeout=options.timeout,
        draft_length=options.draft_length,
        synthetic=prompts.synthetic or synthetic,
    )
    return Questions(prompts, _shape(options, traffic), send_options, tokens)


def _checkpoint(spec_file: SpecFile | None, options: RunOptions) -> Path | None:
    """Where tokenizer and chat template come from."""
    if options.tokenizer is not None:
        return options.tokenizer
    if spec_file is None or spec_file.source("target").checkpoint is None:
        return None
    return spec_file.checkpoint("target")


def _shape(options: RunOptions, traffic: tuple[Traffic, ...]) -> Shape:
    return Shape(
        options.concurrency,
        options.requests,
        options.warmup,
        options.seed,
        options.max_tokens,
        traffic,
        limit=options.requests if options.counted else None,
        duration=options.duration,
        disconnect=options.disconnect,
        unique_prefixes=options.unique_prefixes,
        few_turns=options.servers == "one",
    )


def _open_levels(
    options: RunOptions, prompts: PromptSet, tokens: TextTokens | None
) -> tuple[tuple[Traffic, ...], bool]:
    """The levels that are no closed loop, and whether a trace's prompts are made up."""
    levels = [
        open_loop(rate, options.arrivals, burstiness=options.burstiness, burst=options.burst) for rate in options.rate
    ]
    if options.profile is not None:
        segments = parse_profile(options.profile)
        mean = sum(part.requests for part in segments) / sum(part.seconds for part in segments)
        levels.append(Traffic("steps", mean, options.arrivals, options.burstiness, options.burst, segments=segments))
    synthetic = False
    if options.trace is not None:
        trace = load_trace(options.trace)
        asked, synthetic = trace_prompts(trace, prompts.prompts, tokens, options.seed)
        levels.append(Traffic("trace", options.trace_speed, times=trace.times, prompts=asked))
    return tuple(replace(level, in_flight=options.max_in_flight) for level in levels), synthetic


def _renderer(checkpoint: Path | None, options: RunOptions) -> Callable[[Sequence[Message]], str]:
    if options.chat_template == "never" or checkpoint is None or checkpoint.is_file():
        return plain_text
    from trtspec.checkpoints.chat import chat_template, render_messages

    return plain_text if chat_template(checkpoint) is None else partial(render_messages, checkpoint)
