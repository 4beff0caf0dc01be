"""Rules about the ports of the server that will serve a repository."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trtspec.repository.lint.facts import RepositoryFacts, hit
from trtspec.repository.lint.listeners import collisions
from trtspec.repository.lint.model import Model
from trtspec.rules.registry import Hit, Level, rule

__all__: list[str] = []

_OWN_SERVER = re.compile(r"\b(?:localhost|127\.0\.0\.1):(\d{1,5})\b")
_LARGEST = 1 << 20  # bytes of a source file


@rule(
    "repository-ports",
    "CRASH",
    "error",
    subject="repository",
    title="Two listeners of a server, or of two servers that run beside each other, have one port",
    source="triton-inference-server/server: HTTP, gRPC and metrics have a port each; the second to bind it ends the "
    "server",
    explanation="HTTP, gRPC, metrics and the OpenAI-compatible endpoint each need a port. Between the arms it matters "
    "when both run at once (`serve --both` puts the baseline on ports 10 higher): a warning.",
    fix="Choose ports that differ, and that differ from each other by something else than 10.",
    example="serving: {http_port: 8000, grpc_port: 8010}: with --both the baseline's HTTP is on 8010 too",
)
def _ports(facts: RepositoryFacts) -> Iterator[Hit]:
    own = facts.listeners[-1].server if facts.listeners else ""
    for one, other in collisions(facts.listeners):
        if other.server != own:
            continue  # told for that arm's repository
        level: Level = "error" if one.server == own else "warning"
        both = "" if one.server == own else ": they cannot run at the same time"
        fix = "choose ports that differ" if level == "error" else "choose ports that do not differ by 10"
        message = f"port {one.port} is {one} and {other}{both}"
        yield Hit("repository", message, fix, {"port": one.port, "of": [str(one), str(other)]}, level)


@rule(
    "repository-bls-port",
    "SILENT",
    "note",
    subject="repository",
    title="NVIDIA's BLS asks its own server on a port that is written into its code",
    source="triton_decoder.py and model.py of inflight_batcher_llm on NVIDIA/TensorRT-LLM's main, early 2026 (#9453): "
    "load_model_configs_for_spec_decoding with localhost:8001",
    explanation="To find out whether its models leave the prompt out, newer copies of the BLS read their configuration "
    "over gRPC from localhost:8001. On another port, with TLS, or with metadata and model-config restricted, "
    "speculative requests fail (an error where the port is known to be another).",
    fix="Serve gRPC on that port without TLS, or use the frontend of trtspec repo, which asks nobody.",
    example='triton_host_and_port="localhost:8001" in tensorrt_llm_bls/1/model.py, served with --grpc-port 9001',
)
def _own_server(facts: RepositoryFacts) -> Iterator[Hit]:
    grpc = next((item.port for item in reversed(facts.listeners) if item.protocol == "grpc"), None)
    for caller in facts.callers:
        for port in _asked(caller.model) if caller.model.kind == "bls" and caller.draft else ():
            if port == grpc:
                continue
            level: Level = "note" if grpc is None else "error"
            served = "" if grpc is None else f", and gRPC will be on {grpc}: speculative requests fail"
            message = f"its code reads configurations from localhost:{port} by gRPC{served}"
            fix = f"serve gRPC on port {port} without TLS"
            yield hit(facts, caller.model, message, fix, level=level, port=port, grpc=grpc)


def _asked(model: Model) -> list[int]:
    """Ports of this machine that its code names."""
    found: set[int] = set()
    for path in sorted(model.folder.glob("[0-9]*/**/*.py")):
        try:
            text = path.read_text(encoding="utf-8") if path.stat().st_size <= _LARGEST else ""
        except (OSError, UnicodeDecodeError):
            continue
        found |= {int(port) for port in _OWN_SERVER.findall(text)}
    return sorted(found)
