"""A Grafana dashboard of the frontend's metrics, as the JSON model that Grafana imports.

Source of the form: Grafana documentation, "JSON model" (schema version 39, Grafana 11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["dashboard"]

_WHICH = 'model=~"$model"'
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8


@dataclass(frozen=True)
class _Panel:
    title: str
    unit: str  # Grafana's name of the unit
    queries: tuple[tuple[str, str], ...]  # (legend, PromQL)
    note: str = ""


def _rate(name: str, by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({name}{{{_WHICH}}}[$__rate_interval]))"


def _quantile(share: float, name: str) -> str:
    return f"histogram_quantile({share:g}, {_rate(f'{name}_bucket', 'le')})"


def _quantiles(name: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"p{share * 100:g}", _quantile(share, name)) for share in (0.5, 0.9, 0.99))


_LOOKUP_ACCEPTANCE = f"{_rate('trtspec_lookup_accepted_tokens_total')} / {_rate('trtspec_lookup_drafted_tokens_total')}"
_ACCEPTANCE = f"{_rate('trtspec_accepted_tokens_total')} / {_rate('trtspec_drafted_tokens_total')}"
_FINE = "stop|length|stop_word|cancelled"
_FAILED = f'sum (rate(trtspec_requests_total{{{_WHICH},result!~"{_FINE}"}}[$__rate_interval]))'
_PARTS = _rate("trtspec_round_part_seconds_total", "part")
_SHARES = f"{_PARTS} / ignoring (part) group_left {_rate('trtspec_round_seconds_sum')}"
_LENGTH = f"1 + {_rate('trtspec_accepted_tokens_total')} / {_rate('trtspec_rounds_total')}"

_PANELS = (
    _Panel("Requests in work", "short", (("running", f"sum (trtspec_running_requests{{{_WHICH}}})"),)),
    _Panel("Requests by result", "reqps", (("{{result}}", _rate("trtspec_requests_total", "result")),)),
    _Panel(
        "Failed requests",
        "percentunit",
        (
            (
                "share",
                f"{_FAILED} / {_rate('trtspec_requests_total')}",
            ),
        ),
    ),
    _Panel("Time to first token", "s", _quantiles("trtspec_time_to_first_token_seconds")),
    _Panel(
        "Tokens",
        "short",
        (
            ("output / s", _rate("trtspec_output_tokens_total")),
            ("prompt / s", _rate("trtspec_prompt_tokens_total")),
        ),
    ),
    _Panel("Rounds", "ops", (("rounds / s", _rate("trtspec_rounds_total")),)),
    _Panel("Acceptance rate", "percentunit", (("accepted / drafted", _ACCEPTANCE),)),
    _Panel("Tokens per round", "short", (("mean acceptance length", _LENGTH),), "1 + accepted / rounds"),
    _Panel("Draft length in force", "short", (("{{model}}", f"trtspec_draft_length{{{_WHICH}}}"),)),
    _Panel("Rounds by draft length", "ops", (("{{length}}", _rate("trtspec_rounds_by_length_total", "length")),)),
    _Panel("Time of a round", "s", _quantiles("trtspec_round_seconds")),
    _Panel(
        "Where a round's time goes",
        "percentunit",
        (
            (
                "{{part}}",
                _SHARES,
            ),
        ),
        "draft and target: the inner calls; overhead: the frontend itself",
    ),
    _Panel(
        "Drafts from the text",
        "ops",
        (("lookup: {{result}}", _rate("trtspec_lookups_total", "result")),),
        "draft methods ngram and lookup: how often the text held a draft",
    ),
    _Panel(
        "Acceptance of drafts from the text",
        "percentunit",
        (("accepted / drafted", _LOOKUP_ACCEPTANCE),),
        "of the tokens that were found in the text",
    ),
    _Panel(
        "Draft fallbacks",
        "ops",
        (("{{reason}}", _rate("trtspec_draft_fallbacks_total", "reason")),),
        "rounds whose draft could not be used; the requests went on without it",
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard, without an id, so that importing it makes a new one."""
    return {
        "title": "trtspec: speculative decoding",
        "uid": "trtspec-speculation",
        "schemaVersion": 39,
        "tags": ["trtspec", "triton"],
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "10s",
        "templating": {"list": [_data_source(), _model()]},
        "panels": [_panel(number, panel) for number, panel in enumerate(_PANELS)],
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _model() -> dict[str, Any]:
    return {
        "name": "model",
        "label": "Model",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": "label_values(trtspec_running_requests, model)", "refId": "model"},
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def _panel(number: int, panel: _Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "title": panel.title,
        "description": panel.note,
        "type": "timeseries",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "legendFormat": legend, "expr": query}
            for index, (legend, query) in enumerate(panel.queries)
        ],
    }
