"""Rules about the load test and the server's addresses."""

from __future__ import annotations

from collections.abc import Iterator

from trtspec.rules.facts import Facts
from trtspec.rules.registry import Hit, rule

__all__: list[str] = []

_TAIL = 100  # samples from which a 99th percentile is shown


@rule(
    "loadtest-synthetic",
    "SILENT",
    "warning",
    title="Random prompts say nothing about acceptance",
    source="ggml-org/llama.cpp#27711, vllm-project/vllm#15303, ai-dynamo/dynamo#12918",
    explanation="How many drafts are accepted depends on the text. Random words are continued by nobody's model in a "
    "foreseeable way.",
    fix="loadtest.prompts: builtin, or a file of your own requests.",
    example="loadtest: {prompts: random}",
)
def _synthetic(facts: Facts) -> Iterator[Hit]:
    if facts.spec.loadtest.prompts == "random":
        message = "random prompts: the acceptance and speed-up that they show are not those of real text"
        yield Hit("spec", message, "set loadtest.prompts: builtin, or a JSONL file of your requests")


@rule(
    "loadtest-few-requests",
    "INFO",
    "note",
    title="Too few requests for a 99th percentile",
    source="sgl-project/genai-bench#200, mikemccand/luceneutil#45: p99 of 30 samples is the largest of them",
    explanation="Percentiles that the sample cannot carry are left out of the report, and intervals are wide.",
    fix=f"loadtest.requests: {_TAIL} or more.",
    example="loadtest: {requests: 20}",
)
def _few(facts: Facts) -> Iterator[Hit]:
    load = facts.spec.loadtest
    if load.requests < _TAIL and "requests" in load.model_fields_set:
        message = f"loadtest.requests {load.requests}: p99 needs {_TAIL}, it will not be shown"
        yield Hit("spec", message, f"set loadtest.requests: {_TAIL}", {"requests": load.requests})


@rule(
    "loadtest-requests-below-concurrency",
    "SILENT",
    "warning",
    title="Fewer requests than are sent at once",
    source="modelscope/evalscope#1641: a start burst is not the steady state",
    explanation="At that concurrency all requests start together and none replaces another: only the burst is "
    "measured.",
    fix="loadtest.requests of several times the highest concurrency.",
    example="loadtest: {requests: 8, concurrency: [1, 16]}",
)
def _burst(facts: Facts) -> Iterator[Hit]:
    load = facts.spec.loadtest
    most = max(load.concurrency)
    if load.requests < most:
        message = f"loadtest.requests {load.requests} at concurrency {most}: only the start burst is measured"
        yield Hit(
            "spec", message, f"set loadtest.requests: {4 * most}", {"requests": load.requests, "concurrency": most}
        )


@rule(
    "port-privileged",
    "CRASH",
    "warning",
    title="A port below 1024",
    source="Linux: net.ipv4.ip_unprivileged_port_start",
    explanation="Only root, or a process with CAP_NET_BIND_SERVICE, may listen there.",
    fix="Ports of 1024 or more.",
    example="serving: {http_port: 80}",
)
def _privileged(facts: Facts) -> Iterator[Hit]:
    serving = facts.spec.serving
    ports = {"http_port": serving.http_port, "grpc_port": serving.grpc_port, "metrics_port": serving.metrics_port}
    for name, port in ports.items():
        if port < 1024:
            message = f"serving.{name} {port} is below 1024: only root may listen there"
            yield Hit("spec", message, f"set serving.{name}: {port + 8000}", {"port": port})


@rule(
    "server-open",
    "SILENT",
    "note",
    title="The server listens beyond this machine",
    source="Triton answers whoever reaches its ports, unless restricted (--http-restricted-api)",
    explanation="Whoever reaches the address can send requests and read metrics.",
    fix="serving.host: 127.0.0.1, or a proxy with authentication in front.",
    example="serving: {host: 0.0.0.0}",
)
def _open(facts: Facts) -> Iterator[Hit]:
    host = facts.spec.serving.host
    if host not in ("127.0.0.1", "localhost", "::1"):
        message = f"serving.host {host}: everybody who reaches it can send requests, Triton asks for no password"
        yield Hit("spec", message, "set serving.host: 127.0.0.1, or put a proxy in front", {"host": host})
