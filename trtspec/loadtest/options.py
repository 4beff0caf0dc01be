"""What a load test was asked to do: the spec's values and what the command line puts over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trtspec.errors import UsageError
from trtspec.loadtest.arrivals import Arrivals
from trtspec.loadtest.stopping import Patience
from trtspec.spec import SpecFile
from trtspec.spec.model import LoadTestOptions
from trtspec.spec.names import ARMS, Arm
from trtspec.wire import Kind

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["RunOptions", "options_from_json", "run_options"]


@dataclass(frozen=True)
class RunOptions:
    """All values of one run, none left open but where None says what it means; those of the spec are told there.

    `urls` are addresses of servers that run already; empty: both arms' servers are started and stopped. `out` is the
    run's folder; None: a new one below `runs/<name>/`. `draft_length` None: the server's own. `counted`: `requests`
    was asked for, so that no level goes on beyond it. `aa`: both arms are the baseline. `tokenizer` is the checkpoint
    folder or tokenizer.json that counts what a server does not; None: the target's. `calibration` is an earlier A/A
    run. `labels` are the arms' names for people.
    """

    prompts: str = "builtin"
    categories: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    min_prompt_chars: int | None = None
    max_prompt_chars: int | None = None
    min_prompt_tokens: int | None = None
    max_prompt_tokens: int | None = None
    turns: int | None = None
    system_prompt: str | None = None
    input_length: str | None = None
    output_length: str | None = None
    chat_template: str = "auto"
    protocol: str = "http"
    concurrency: tuple[int, ...] = (1, 4)
    rate: tuple[float, ...] = ()
    arrivals: Arrivals = "poisson"
    burstiness: float = 1.0
    burst: int = 8
    profile: str | None = None
    trace: Path | None = None
    trace_speed: float = 1.0
    max_in_flight: int | None = None
    requests: int = 60
    counted: bool = False
    duration: float | None = None
    until: float | None = None
    warmup: int = 4
    max_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 1
    timeout: float = 120.0
    disconnect: float = 0.0
    unique_prefixes: bool = False
    workers: int | None = None
    servers: str = "both"
    slo: Mapping[str, float] = field(default_factory=dict)
    reading_speed: float = 15.0
    draft_length: int | None = None
    urls: Mapping[Arm, str] = field(default_factory=dict)
    kind: Kind = "auto"
    models: Mapping[Arm, str] = field(default_factory=dict)
    labels: Mapping[Arm, str] = field(default_factory=dict)
    tokenizer: Path | None = None
    aa: bool = False
    calibration: Path | None = None
    out: Path | None = None

    @property
    def patience(self) -> Patience:
        """When a level has been measured enough."""
        return Patience(self.duration, self.until, self.counted)

    @property
    def multiplexed(self) -> bool:
        """True over gRPC, where all requests share a connection."""
        spoken = {_spoken(url) for url in self.urls.values()} or {_GRPC if self.protocol == "grpc" else ""}
        return spoken == {_GRPC}

    def as_json(self) -> dict[str, Any]:
        """For provenance; `options_from_json` reads it back."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}


_PATHS = ("trace", "tokenizer", "calibration", "out")
_GRPC = "gRPC"
_TUPLES = ("concurrency", "rate", "categories", "language")
_NEEDED = {"concurrency", "rate", "requests", "seed"}
# a file is looked for where it is named
_OTHER_RULES = {"trace"}


def options_from_json(data: Mapping[str, Any]) -> RunOptions:
    """The options that a run was started with; UsageError when they are not of this version."""
    missing = sorted(_NEEDED - set(data))
    if missing:
        raise UsageError(f"these are options of another version: no {', '.join(missing)}", where="provenance.json")
    from pydantic import TypeAdapter, ValidationError

    known = {item.name for item in fields(RunOptions)}
    values = {name: value for name, value in data.items() if name in known}
    values.update({name: values.get(name) or None for name in _PATHS})
    try:
        options = TypeAdapter(RunOptions).validate_python(values)
    except ValidationError as error:
        raise UsageError(f"these options cannot be used: {_complaint(error)}", where="provenance.json") from None
    _require_valid(options)
    return options


def _require_valid(options: RunOptions) -> None:
    """UsageError for a value that a spec's loadtest section would not take either."""
    from pydantic import ValidationError

    values = {name: getattr(options, name) for name in LoadTestOptions.model_fields if name not in _OTHER_RULES}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    if not options.concurrency:  # no closed loop beside open ones
        del plain["concurrency"]
    try:
        LoadTestOptions.model_validate(plain)
    except ValidationError as error:
        raise UsageError(_complaint(error)) from None


def _complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = " ".join(str(part) for part in first["loc"][:1])
    return f"{place.replace('_', '-')} {str(first['input'])[:60]}: {first['msg']}"


def run_options(spec_file: SpecFile | None, **overrides: Any) -> RunOptions:
    """The spec's load-test values with those of `overrides` that are not None; UsageError for values that cannot be.

    Without a spec, its defaults.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    section = LoadTestOptions() if spec_file is None else spec_file.spec.loadtest
    values = {name: getattr(section, name) for name in type(section).model_fields}
    asked = set(given) | section.model_fields_set
    values.update({name: tuple(values[name]) for name in _TUPLES})
    values["slo"] = {**section.slo, **given.pop("slo", {})}
    values["counted"] = "requests" in asked
    if section.trace is not None and spec_file is not None:
        values["trace"] = spec_file.root / section.trace
    values.update(given)
    if asked & {"rate", "profile", "trace"} and not _wants_closed_loops(set(given), section.model_fields_set):
        values["concurrency"] = ()
    options = RunOptions(**values)
    _require_valid(options)
    _check(options, spec_file)
    return options


def _wants_closed_loops(on_line: set[str], in_spec: set[str]) -> bool:
    """Open-loop levels stand alone unless a concurrency was asked for in the same place."""
    opened = {"rate", "profile", "trace"}
    return "concurrency" in on_line or (not on_line & opened and "concurrency" in in_spec)


def _check(options: RunOptions, spec_file: SpecFile | None) -> None:
    for name, levels in (("concurrency", options.concurrency), ("rate", options.rate)):
        if len(set(levels)) < len(levels):
            raise UsageError(f"{name} {', '.join(f'{level:g}' for level in levels)}: one is given twice")
    _check_addresses(options, spec_file)
    _check_prompts(options)
    if options.until is not None and options.counted:
        raise UsageError("--until decides how many requests there are", fix="--until without --requests")
    limit = None if spec_file is None else spec_file.spec.speculation.engine_draft_length
    if options.draft_length is not None and limit is not None and options.draft_length > limit:
        fix = "a shorter --draft-length, or a larger speculation.max_draft_length and a new build"
        raise UsageError(f"draft length {options.draft_length} is more than the engine's {limit}", fix=fix)


def _check_prompts(options: RunOptions) -> None:
    for unit in ("chars", "tokens"):
        least, most = getattr(options, f"min_prompt_{unit}"), getattr(options, f"max_prompt_{unit}")
        if least is not None and most is not None and least > most:
            raise UsageError(f"prompts of at least {least} and at most {most} {unit}: there can be none")
    if options.output_length is not None and options.max_tokens is not None:
        raise UsageError("--output-length and --max-tokens both limit the answer", fix="one of them")


def _check_addresses(options: RunOptions, spec_file: SpecFile | None) -> None:
    urls = options.urls
    if spec_file is None and not urls:
        raise UsageError("neither a spec nor addresses", fix="trtspec loadtest --a URL --b URL")
    if urls and set(urls) != set(ARMS):
        missing = next(arm for arm in ARMS if arm not in urls)
        raise UsageError(f"no address for the {missing} arm", fix=f"--arm-url {missing}=HOST:PORT")
    spoken = {arm: _spoken(url) for arm, url in urls.items()}
    if len(set(spoken.values())) > 1:
        text = " and ".join(f"{arm} {way}" for arm, way in spoken.items())
        raise UsageError(f"both arms must be asked over the same protocol: {text}", fix="two addresses of one form")
    if urls and options.servers == "one":
        raise UsageError("--servers one is for servers that the load test starts", fix="leave out the addresses")


def _spoken(url: str) -> str:
    scheme, found, rest = url.partition("://")
    if not found or scheme == "grpcs":
        return _GRPC
    return "OpenAI-compatible HTTP" if rest.partition("#")[0].strip("/").count("/") else "Triton's HTTP"
