"""Which two servers a command asks: those of a spec, or any two addresses, and the spec that then need not be there."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from trtspec.errors import UsageError
from trtspec.spec import SpecFile, load_spec

__all__ = ["arms_of_addresses", "from_here", "require_own_options", "spec_is_named", "spec_or_addresses"]


def spec_is_named() -> bool:
    """Whether the running command was given a spec on its command line."""
    source = click.get_current_context().get_parameter_source("spec_path")
    return source is not ParameterSource.DEFAULT


def require_own_options(beside: AbstractSet[str]) -> None:
    """UsageError where --resume comes with an option that would not be used: a run goes on as it was begun.

    `beside` are the names of options that may stand beside it.
    """
    context = click.get_current_context()
    given = [
        max(option.opts, key=len)
        for option in context.command.params
        if isinstance(option, click.Option)
        and option.name not in beside
        and context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    ]
    if given:
        raise UsageError(
            f"--resume goes on with the run's own options, not with {', '.join(given)}", fix="leave it out"
        )


def spec_or_addresses(path: Path, first: str | None) -> SpecFile | None:
    """The spec; None where two addresses are compared (`first` is one) and no spec was named."""
    return None if first is not None and not spec_is_named() else load_spec(path)


def arms_of_addresses(options: dict[str, Any]) -> dict[str, Any]:
    """What `run_options` takes: two addresses become arms, files are looked for where the command runs."""
    given = dict(options)
    first, second = given.pop("a_url"), given.pop("b_url")
    names = given.pop("a_name"), given.pop("b_name")
    models = given.pop("a_model"), given.pop("b_model")
    given["prompts"] = from_here(given["prompts"])
    alone = bool(given.get("aa"))
    if first is None and second is None:
        return given
    if first is None or (second is None and not alone):
        raise UsageError("two servers are compared", fix="--a URL --b URL" + (" (or --a URL --aa)" * ("aa" in given)))
    if given["urls"]:
        raise UsageError("--arm-url and --a, --b name the same arms", fix="one of the two")
    second = first if second is None else second
    given["urls"] = {"baseline": first, "speculative": second}
    given["labels"] = {"baseline": names[0] or first, "speculative": names[1] or second}
    asked = {"baseline": models[0], "speculative": models[1] or models[0]}
    given["models"] = {arm: model for arm, model in asked.items() if model is not None}
    return given


def from_here(prompts: str | None) -> str | None:
    """A file named on the command line belongs to the current folder; one named in the spec to the spec's."""
    if prompts is None:
        return None
    path = Path(prompts)
    return str(path.absolute()) if path.exists() or path.suffix else prompts
