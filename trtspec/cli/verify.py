"""`trtspec verify`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trtspec.cli.arm_addresses import arms_of_addresses, spec_or_addresses
from trtspec.cli.command import command as make_command
from trtspec.cli.command import examples, spec_argument
from trtspec.cli.failures import exit_code, show_error
from trtspec.cli.load_options import arm_options, read_concurrency, read_share
from trtspec.cli.numbers import FiniteRange
from trtspec.cli.output import Sink

if TYPE_CHECKING:
    from trtspec.verification import VerifyResult

__all__ = ["command"]

_PATH = click.Path(path_type=Path)
_OWN = ("samples", "tokens", "significance", "tasks", "strict")


@make_command(
    epilog=examples(
        "trtspec verify",
        "trtspec verify trtspec.yaml --requests 200 --concurrency 1,8",
        "trtspec verify --prompts mine.jsonl --max-tokens 256 --strict",
        "trtspec verify --temperature 0.8 --samples 500",
        "trtspec verify --tasks arithmetic.jsonl",
        "trtspec verify --arm-url baseline=gpu1:8001 --arm-url speculative=gpu2:8001",
        "trtspec verify --a http://gpu1:8000/v1 --b http://gpu2:8000/v1",
        "trtspec verify --output json | jq .verdict_code",
    )
)
@spec_argument
@arm_options
@click.option("--prompts", metavar="FILE", help="builtin, or a JSONL file with id, category, prompt, max_tokens.")
@click.option("--requests", type=click.IntRange(min=1), help="Prompts that are asked. Default: 48, at a temperature 8.")
@click.option("--concurrency", metavar="N,…", callback=read_concurrency, help="Requests in flight. Default: 4.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Output limit. Default: each prompt's own.")
@click.option("--draft-length", type=click.IntRange(1, 64), help="Tokens drafted per round. Default: the server's.")
@click.option(
    "--temperature", type=FiniteRange(0, 10),
    help="Above 0 distributions are compared, over many samples. Default: 0, greedy.",
)  # fmt: skip
@click.option("--samples", type=click.IntRange(min=20), help="Samples of each prompt and arm. Default: 200.")
@click.option("--tokens", type=click.IntRange(1, 64), help="Tokens of a sample. Default: 4.")
@click.option(
    "--significance", metavar="SHARE", callback=read_share,
    help="Chance of a false alarm of a test of samples or scores. Default: 1%.",
)  # fmt: skip
@click.option("--tasks", metavar="FILE", type=_PATH, help="JSONL with prompt, answer, match: scores of both arms.")
@click.option("--strict", is_flag=True, default=None, help="Fail too where nothing shows a difference to be harmless.")
@click.option("--chat-template", type=click.Choice(["auto", "never"]), help="auto: the target's, when it has one.")
@click.option("--tokenizer", metavar="FOLDER", type=_PATH, help="Checkpoint whose chat template is used.")
@click.option("--seed", type=click.IntRange(min=0), help="Choice of prompts, and sampling.")
@click.option("--timeout", type=FiniteRange(min=0, min_open=True), help="Seconds until a request has failed.")
@click.option("--out", type=_PATH, help="Folder of the result. Default: a new one in runs/<name>/.")
def command(sink: Sink, spec_path: Path, **options: Any) -> int | None:
    """Show that speculation does not change answers; exit with 6 where it does.

    Greedy answers of both arms must be equal. Each that is not is examined: a near-tie between two tokens is
    rounding, a clear choice that differs is a fault. With --temperature many short samples of both arms must come
    from one distribution. With --tasks both arms' scores on a labelled set are compared.
    """
    from trtspec.verification import verify, verify_options

    spec_file = spec_or_addresses(spec_path, options["a_url"])
    own = {name: options.pop(name) for name in _OWN}
    checked = verify_options(spec_file, own, **arms_of_addresses(options))
    result = verify(spec_file, checked, sink)
    _show(sink, result)
    if result.failure is None:
        return None
    # the result is on stdout already; only the message belongs beside it
    show_error(result.failure, replace(sink, mode="human"))
    return exit_code(result.failure)


def _show(sink: Sink, result: VerifyResult) -> None:
    from trtspec.cli.verify_view import print_verification

    sink.result(result.data, lambda console: print_verification(console, result.data, result.path), str(result.path))
