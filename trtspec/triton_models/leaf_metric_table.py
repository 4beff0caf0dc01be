"""The torch leaf's gauges: names, meaning, and their values from an engine's load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trtspec.torch_runtime.engine import Load

__all__ = ["LEAF_METRICS", "Gauges", "gauges"]

# name → what it says; labels: model, version, and those of `gauges`
LEAF_METRICS = {
    "trtspec_leaf_requests": "Requests of the torch runtime, by state: running, waiting",
    "trtspec_leaf_waiting_tokens": "Tokens of the requests that wait, prompts and answers",
    "trtspec_leaf_kv_tokens": "Tokens of keys and values, by use: running (reserved), kept (for reuse), limit",
    "trtspec_leaf_kv_bytes": "Bytes of keys and values, by use: running (reserved), kept (for reuse), limit",
    "trtspec_leaf_kv_usage": "Share of the limit that running requests and kept sequences take",
}
Gauges = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def gauges(load: Load) -> Gauges:
    """(metric, labels) → value."""
    memory = load.memory
    tokens = {"running": memory.running, "kept": memory.kept, "limit": memory.limit}
    values: Gauges = {
        ("trtspec_leaf_requests", (("state", "running"),)): load.running,
        ("trtspec_leaf_requests", (("state", "waiting"),)): load.waiting,
        ("trtspec_leaf_waiting_tokens", ()): load.waiting_tokens,
        ("trtspec_leaf_kv_usage", ()): memory.usage,
    }
    for use, count in tokens.items():
        values["trtspec_leaf_kv_tokens", (("use", use),)] = count
        values["trtspec_leaf_kv_bytes", (("use", use),)] = count * memory.token_bytes
    return values
