"""docs/versions.md: the tables of releases and GPU architectures as a page."""

from __future__ import annotations

from collections.abc import Sequence

from trtspec.toolchain.releases import FEATURES, REFERENCE, RELEASES, SUPPORTED, Release, is_supported
from trtspec.toolchain.support import ARCHITECTURES, Architecture

__all__ = ["versions_document"]

_HEAD = f"""# Versions

Generated from `trtspec/toolchain` by `scripts/make-docs`; do not edit.

trtspec builds engines with TensorRT-LLM `{SUPPORTED}`; {REFERENCE} is the reference. The numbers are read from
NVIDIA's published documents (named in `trtspec/toolchain/table.py` and `support.py`); none of these was run by us.

An engine loads only in the release that built it: the version in its `config.json` must be the server's. An image's
label is not the library's version (25.12 carries 1.1.0). Image `26.04` stands for
`nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3`.
"""

_GPUS = """## GPU architectures

From which release on engines run with speculation. *Inferred*: no source says it outright.
"""


def versions_document() -> str:
    """The page in Markdown."""
    columns = ("TensorRT-LLM", "engines", "Triton images", "Python", "CUDA", "TensorRT", "torch", "driver")
    parts = [
        _HEAD,
        _table(columns, [_release_row(row) for row in RELEASES]),
        "## What a release has\n",
        _table(
            ("feature", "in the table from – to", "meaning"),
            [_feature_row(name, text) for name, text in FEATURES.items()],
        ),
        _GPUS,
        _table(("SM", "architecture", "from", "source"), [_architecture_row(row) for row in ARCHITECTURES]),
    ]
    return "\n".join(parts)


def _release_row(row: Release) -> tuple[str, ...]:
    known = (row.python, row.cuda, row.tensorrt, row.torch, row.driver)
    usable = "yes" if is_supported(row.version) else "refused"
    return (row.version, usable, " ".join(row.images) or "–", *(value or "–" for value in known))


def _feature_row(name: str, text: str) -> tuple[str, ...]:
    having = [row.version for row in RELEASES if name in row.features]
    return f"`{name}`", f"{having[-1]} to {having[0]}", text


def _architecture_row(row: Architecture) -> tuple[str, ...]:
    since = "never" if row.since is None else "every release" if row.since == (0, 0) else ".".join(map(str, row.since))
    inferred = " (inferred)" if row.inferred else ""
    return str(row.sm), row.name, f"{since}{inferred}", f"{row.why}; {row.source}" if row.why else row.source


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
