"""How far the run itself can be trusted: the load generator's own error, noise, what could have been seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtspec.reports.data import ReportData
from trtspec.reports.formats import Cell, Table, number_text, percent_text, text_cell
from trtspec.reports.server_charts import server_rows

__all__ = ["client_table", "server_table", "trust_table"]

_LAGS = {"loop_lag": "Event loop late by", "send_lag": "Requests sent late by"}


def client_table(data: ReportData) -> Table:
    """What the load generator saw of itself."""
    client: Any = data.summary.get("client")
    rows: list[tuple[Cell, ...]] = []
    if isinstance(client, Mapping):
        rows += [_lag(label, client[name]) for name, label in _LAGS.items() if isinstance(client.get(name), Mapping)]
        if _number(client.get("cpu_share")):
            cpus = f" of {client['cpus']} CPUs" if client.get("cpus") else ""
            share = f"{client['cpu_share']:.2f}{cpus}"
            rows.append((text_cell("CPUs that it used"), text_cell(share), text_cell(""), text_cell("")))
        if client.get("workers"):
            count = len(client["workers"]) if isinstance(client["workers"], list) else client["workers"]
            rows.append((text_cell("Processes"), text_cell(count), text_cell(""), text_cell("")))
    return Table(("The load generator", "Median", "p99", "Largest"), tuple(rows))


def _lag(label: str, row: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (text_cell(label), *(_milliseconds(row.get(key)) for key in ("p50", "p99", "max")))


def _milliseconds(value: Any) -> Cell:
    return text_cell(f"{number_text(1000 * value)} ms") if _number(value) else Cell("–", reason="not measured")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def trust_table(data: ReportData) -> Table:
    """Noise floor, smallest detectable effect and client error, each with what it is."""
    rows = [*_noise(data), *_detectable(data), *_client(data)]
    return Table(("What limits the verdict", "Value", "Meaning"), tuple(rows), frozenset({2}))


def _noise(data: ReportData) -> list[tuple[Cell, ...]]:
    row: Any = data.comparison.get("noise_floor")
    if not isinstance(row, Mapping):
        return []
    meaning = f"Noise alone makes this difference in 1 of 20 runs ({row.get('source') or 'source not told'})."
    return [(text_cell("Noise floor"), _share(row), text_cell(meaning))]


def _detectable(data: ReportData) -> list[tuple[Cell, ...]]:
    row: Any = data.comparison.get("detectable_effect")
    if not isinstance(row, Mapping):
        return []
    power = percent_text(row.get("power") or 0.9)
    meaning = f"A true effect of this size would be found in {power} of runs like this one."
    return [(text_cell("Smallest detectable effect"), _share(row), text_cell(meaning))]


def _share(row: Mapping[str, Any]) -> Cell:
    value = row.get("value")
    return Cell("–", reason=str(row.get("reason") or "not known")) if value is None else text_cell(percent_text(value))


def _client(data: ReportData) -> list[tuple[Cell, ...]]:
    section: Any = data.comparison.get("client_bound")
    by_load = section.get("by_load") if isinstance(section, Mapping) else None
    rows: list[tuple[Cell, ...]] = []
    for load, row in (by_load or {}).items():
        if row.get("error") is None:
            continue
        limit = row.get("limit")
        allowed = "" if limit is None else f"; {number_text(1000 * limit)} ms would be tolerable beside this effect"
        meaning = f"{'Too much' if row.get('bound') else 'Small enough'}{allowed}."
        error = text_cell(f"{number_text(1000 * row['error'])} ms")
        rows.append((text_cell(f"The client's own error at {load}"), error, text_cell(meaning)))
    return rows


def server_table(data: ReportData) -> Table:
    """What each server counted and told, by load."""
    rows = tuple(_server(load, arm, row) for load, arm, row in server_rows(data))
    columns = ("Load", "Arm", "Requests", "Of others", "Queue, ms", "KV cache", "Waiting", "W", "J/token", "Tokens/J")
    return Table(columns, rows, frozenset({1}))


def _server(load: str, arm: str, row: Mapping[str, Any]) -> tuple[Cell, ...]:
    requests, times, energy = (row.get(key) or {} for key in ("requests", "times", "energy"))
    reason = str(row.get("reason") or "the server does not export it")
    queue = times.get("queue_time") or {}
    return (
        text_cell(load),
        text_cell(arm),
        _known(requests.get("server"), reason),
        _known(requests.get("foreign"), reason),
        _known(queue.get("mean"), str(queue.get("reason") or reason), 1000),
        _gauge(row, "kv_cache_usage", reason, percent=True),
        _gauge(row, "waiting_requests", reason),
        *(
            _known(energy.get(k), str(energy.get("reason") or reason))
            for k in ("mean_power", "joules_per_token", "tokens_per_joule")
        ),
    )


def _known(value: Any, reason: str, factor: float = 1.0) -> Cell:
    return text_cell(number_text(value * factor)) if _number(value) else Cell("–", reason=reason)


def _gauge(row: Mapping[str, Any], name: str, reason: str, *, percent: bool = False) -> Cell:
    """Mean over the samples, summed over the models; of a share the largest model's."""
    found = (row.get("gauges") or {}).get(name) or {}
    values = [model["mean"] for model in (found.get("models") or {}).values() if _number(model.get("mean"))]
    if not values:
        return Cell("–", reason=str(found.get("reason") or reason))
    return text_cell(percent_text(max(values)) if percent else number_text(sum(values)))
