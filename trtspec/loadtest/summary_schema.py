"""The published JSON Schema of summary.json (docs/summary.schema.json)."""

from __future__ import annotations

from trtspec.loadtest.caveat import SECTIONS
from trtspec.loadtest.drafters import DRAFTERS
from trtspec.loadtest.figures import FIGURES
from trtspec.loadtest.goodput import LEVELS
from trtspec.loadtest.json_shapes import (
    ANY_OBJECT,
    COUNT,
    FLAG,
    NUMBER,
    REASON,
    TEXT,
    Schema,
    closed,
    either,
    items,
    keyed,
    maybe,
    one_of,
    shape,
)
from trtspec.loadtest.metrics import METRICS, Metric
from trtspec.loadtest.round_costs import ROUND_PARTS
from trtspec.spec.names import ARMS

__all__ = ["closed_summary_schema", "summary_schema"]

_HIGH = ("p50", "p90", "p95", "p99")
_LOW = ("p10", "p5", "p1")
_LABEL = 'load label: "concurrency 4", "poisson 5/s", "trace"'
_MEANINGS = {figure.name: f"{figure.meaning} Formula: {figure.formula}. Sample: {figure.sample}." for figure in FIGURES}


def summary_schema() -> Schema:
    """The schema; objects are open, since keys may be added."""
    arms = {"type": "object", "properties": dict.fromkeys(ARMS, _ref("arm"))}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "trtspec summary.json",
        **shape(
            {
                "schema": {"const": 1},
                "arms": arms,
                "acceptance": _ref("acceptance"),
                "comparison": _comparison(),
                "valid_for_acceptance": FLAG,
                "client": maybe(ANY_OBJECT),
                "server": maybe(ANY_OBJECT),
                "cold_start": maybe(ANY_OBJECT),
                "formulas": keyed(TEXT, "metric"),
            },
            meaning="What a load test measured. Seconds, tokens and requests; null with a reason where not measured.",
        ),
        "$defs": _definitions(),
    }


def closed_summary_schema() -> Schema:
    """The schema with unknown keys forbidden."""
    schema: Schema = closed(summary_schema())
    return schema


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _definitions() -> dict[str, Schema]:
    rows = _arm_rows()
    level = {"kind": TEXT, "value": maybe(NUMBER)}
    return {
        "row": _row(),
        "share": _share(),
        "interval": _interval(),
        "pooled": shape(_pooled(), {"by_drafter": _by_drafter()}),
        "acceptance": _acceptance(),
        "arm_part": shape(rows),
        "arm_level": shape({**level, **rows}),
        "arm": shape(
            {
                **rows,
                "by_concurrency": keyed(_ref("arm_part"), "number of connections of a closed loop"),
                "by_load": keyed(_ref("arm_level"), _LABEL),
            }
        ),
        "by_arm": shape(dict.fromkeys(ARMS, _ref("interval"))),
        "window": _window(),
        "attained": shape({"load": TEXT, **level, "requests_per_second": maybe(NUMBER), "met": maybe(_ref("share"))}),
        "rho": _rho(),
    }


def _row() -> Schema:
    values = {name: maybe(NUMBER) for name in ("mean", *_HIGH)}
    low = {name: maybe(NUMBER) for name in _LOW}
    return shape(
        {**values, "count": COUNT, "unit": TEXT, "reason": REASON},
        low,
        "A distribution: percentiles only where the sample carries them; the low ones for rates.",
    )


def _with(name: str, **more: Schema) -> Schema:
    """A row with keys of its own."""
    base = _row()
    properties = {**base["properties"], **more}
    return {**base, "description": _MEANINGS.get(name, base["description"]), "properties": properties}


def _share() -> Schema:
    rate = maybe({"type": "number", "minimum": 0, "maximum": 1})
    keys = {"share": rate, "low": rate, "high": rate, "confidence": NUMBER, "count": COUNT}
    return shape(keys, meaning="A share with its Wilson interval.")


def _interval() -> Schema:
    keys = {"estimate": maybe(NUMBER), "low": maybe(NUMBER), "high": maybe(NUMBER), "confidence": NUMBER}
    return shape({**keys, "count": COUNT, "reason": REASON}, {"units": COUNT}, "An estimate with its interval.")


def _arm_rows() -> dict[str, Schema]:
    counts = shape(dict.fromkeys(("ok", "failed", "excluded"), COUNT))
    levels = keyed(NUMBER, f"service level in seconds: {', '.join(LEVELS)}")
    reading = {**_share()["properties"], "reading_speed": NUMBER, "reason": REASON}
    return {
        "requests": counts,
        "error_rate": maybe(NUMBER),
        "active_seconds": NUMBER,
        **{metric.name: _metric(metric) for metric in METRICS},
        "underruns": shape(reading, meaning=_MEANINGS["underruns.share"]),
        "requests_per_second": _with("requests_per_second"),
        "goodput": _with("goodput", slo=levels, met=_ref("share")),
    }


def _metric(metric: Metric) -> Schema:
    if metric.name == "output_tokens_per_second":
        return _with(metric.name, total=maybe(NUMBER))
    return _with(metric.name)


def _pooled() -> dict[str, Schema]:
    counts = dict.fromkeys(("num_spec_steps", "num_draft_tokens", "num_accepted_tokens"), maybe(COUNT))
    rates = dict.fromkeys(("acceptance_rate", "mean_acceptance_length"), maybe(NUMBER))
    return {**counts, **rates, "acceptance_histogram": items(COUNT), "per_position": items(NUMBER)}


def _acceptance() -> Schema:
    return shape(
        {
            **_pooled(),
            "by_category": keyed(_ref("pooled"), "category of the prompts"),
            "source": one_of("server", "derived", "none"),
            "reason": REASON,
        },
        {"by_drafter": _by_drafter()},
    )


def _by_drafter() -> Schema:
    counts = dict.fromkeys(("num_spec_steps", "num_draft_tokens", "num_accepted_tokens"), COUNT)
    rates = dict.fromkeys(("acceptance_rate", "mean_acceptance_length", "output_share"), maybe(NUMBER))
    meaning = f"who drafted ({', '.join(DRAFTERS)}); only where drafts are looked up in the text"
    return keyed(shape({**counts, **rates}), meaning)


def _comparison() -> Schema:
    speedup = keyed(_ref("interval"), "metric")
    part = {"pairs": COUNT, "speedup": speedup}
    return shape(
        {
            "speedup": {**speedup, "description": _MEANINGS["comparison.speedup"]},
            "headline": TEXT,
            "by_concurrency": keyed(shape({**part, "verdict": TEXT}), "number of connections of a closed loop"),
            "by_load": keyed(_compared_level(speedup), _LABEL),
            "by_category": keyed(shape(part), "category of the prompts"),
            "equality": _equality(),
            **_judgement(),
            **_explanations(),
            "warnings": items(TEXT),
            "caveats": items(shape({"code": TEXT, "text": TEXT, "section": one_of(*SECTIONS)})),
            "method": TEXT,
        },
        meaning="Speculation against the baseline. docs/statistics.md says what each part means.",
    )


def _compared_level(speedup: Schema) -> Schema:
    return shape(
        {
            "kind": TEXT,
            "value": maybe(NUMBER),
            "pairs": COUNT,
            "units": COUNT,
            "unit": one_of("pairs", "prompts", "blocks"),
            "verdict": TEXT,
            "why": maybe(TEXT),
            "headline": _ref("interval"),
            "speedup": speedup,
            "output_tokens_per_second": _ref("by_arm"),
            "detectable_effect": _effect(),
            "by_category": keyed(shape({"pairs": COUNT, "speedup": speedup}), "category of the prompts"),
        }
    )


def _effect() -> Schema:
    return shape({"value": maybe(NUMBER), "power": NUMBER, "reason": REASON})


def _equality() -> Schema:
    texts = dict.fromkeys(("prompt_id", "category", "load", "baseline_text", "speculative_text"), TEXT)
    place = {"pair": TEXT, **texts, "concurrency": COUNT, "character": COUNT, "token_index": maybe(COUNT)}
    token = shape({"token": COUNT, "logit": NUMBER})
    examined = {
        "verdict": TEXT,
        "reason": TEXT,
        "logit_gap": NUMBER,
        "arithmetic": maybe(TEXT),
        "threshold": NUMBER,
        "baseline_token": COUNT,
        "speculative_token": COUNT,
        "two_best": items(token),
    }
    return shape({"identical": COUNT, "diverged": COUNT, "first_divergence": items(shape(place, examined))})


def _judgement() -> dict[str, Schema]:
    crossing = {"low": maybe(NUMBER), "high": maybe(NUMBER), "confidence": NUMBER}
    client = {"bound": maybe(FLAG), "error": maybe(NUMBER), "limit": maybe(NUMBER), "unit": TEXT, "reason": REASON}
    floor = {"value": maybe(NUMBER), "reason": REASON, "source": TEXT}
    return {
        "break_even_concurrency": maybe(NUMBER),
        "break_even_reason": REASON,
        "break_even_interval": shape({**crossing, "crossing": maybe(NUMBER), "reason": REASON}),
        "detectable_effect": _effect(),
        "noise_floor": shape(floor, {"speedup": maybe(_ref("interval")), "biased": maybe(FLAG)}),
        "client_bound": shape({"bound": FLAG, "share": NUMBER, "by_load": keyed(shape(client), _LABEL)}),
        "verdict": TEXT,
        "verdict_code": TEXT,
        "withheld": maybe(TEXT),
    }


def _explanations() -> dict[str, Schema]:
    return {
        "correlation": keyed(_ref("rho"), "what is ranked against what"),
        "acceptance_by_position": _positions(),
        "predicted": shape({"by_load": keyed(_predicted(), _LABEL)}),
        "capacity": _capacity(),
        "cost": _cost(),
        "steady_state": shape({"by_load": keyed(_steady(), _LABEL)}),
    }


def _rho() -> Schema:
    keys = {"rho": maybe(NUMBER), "low": maybe(NUMBER), "high": maybe(NUMBER), "confidence": NUMBER, "count": COUNT}
    return shape({**keys, "reason": REASON}, {"source": TEXT, "points": items(items(NUMBER))})


def _positions() -> Schema:
    place = {"start": NUMBER, "end": maybe(NUMBER), "requests": COUNT, "rounds": COUNT}
    length = dict.fromkeys(("tokens_per_round", "low", "high"), maybe(NUMBER))
    return shape({"bins": items(shape({**place, **length})), "decay": _ref("interval"), "reason": REASON})


def _predicted() -> Schema:
    names = ("tokens_per_round", "round_cost", "predicted", "decode", "measured", "gap")
    parts = ("step", *ROUND_PARTS, "transport", "ideal", "achieved_over_ideal")
    return shape(
        {
            **dict.fromkeys(names, maybe(NUMBER)),
            "factors": maybe(keyed(NUMBER, "part of the speed-up; they multiply to `measured`")),
            "source": TEXT,
            "reason": REASON,
            "round": shape({**dict.fromkeys(parts, maybe(NUMBER)), "reason": REASON}),
        }
    )


def _capacity() -> Schema:
    top = {"value": maybe(NUMBER), "requests_per_second": maybe(NUMBER), "beyond": FLAG, "reason": REASON}
    arm = shape({**top, "steps": items(_ref("attained"))})
    ladder = shape({**dict.fromkeys(ARMS, arm), "ratio": maybe(NUMBER), "ratio_is_bound": FLAG})
    levels = maybe(keyed(NUMBER, "service level in seconds"))
    return shape({"slo": levels, "share": NUMBER, "ladders": keyed(ladder, "kind of load"), "reason": REASON})


def _cost() -> Schema:
    level = shape({**dict.fromkeys(ARMS, _ref("interval")), "ratio": _ref("interval")})
    return shape(
        {
            "price_per_gpu_hour": maybe(NUMBER),
            "gpus": maybe(keyed(COUNT, "arm")),
            "unit": TEXT,
            "reason": REASON,
            "by_load": keyed(level, _LABEL),
        }
    )


def _window() -> Schema:
    numbers = dict.fromkeys(("begins", "ends", "transient", "halves"), maybe(NUMBER))
    return shape({"skipped": COUNT, "requests": COUNT, **numbers})


def _steady() -> Schema:
    return shape({**dict.fromkeys(ARMS, _ref("window")), "speedup": either(_ref("interval"), {"type": "null"})})
