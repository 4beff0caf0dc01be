"""Which GPU architectures a release can run draft-target engines on."""

from __future__ import annotations

from dataclasses import dataclass

from trtspec.toolchain.versions import parse_version

__all__ = ["ARCHITECTURES", "Architecture", "sm_caution", "supports_sm"]


@dataclass(frozen=True)
class Architecture:
    """A compute capability (89 is 8.9) and the first release (major, minor) that runs speculative engines on it.

    `since` None: no release does. `why` says what happens before; `inferred`: no source says it outright.
    """

    sm: int
    name: str
    since: tuple[int, int] | None
    why: str
    source: str
    inferred: bool = False


_MATRIX = "TensorRT-LLM docs/source/reference/support-matrix.md (0.18, 1.0)"
_NOTES = "TensorRT-LLM release notes"
_NO_KERNELS = "there are no attention kernels for speculative decoding on this architecture before 1.0"
_THREAD = "NVIDIA/TensorRT-LLM#6158 (fails in 0.20; closed as supported in November 2025)"

ARCHITECTURES: tuple[Architecture, ...] = (
    Architecture(70, "Volta", None, "Volta was dropped in 0.15", _NOTES),
    Architecture(75, "Turing", None, "the support matrix and the draft-target example begin at SM 80", _MATRIX),
    Architecture(80, "Ampere", (0, 0), "", _MATRIX),
    Architecture(86, "Ampere", (0, 0), "", _MATRIX),
    Architecture(89, "Ada Lovelace", (0, 0), "", _MATRIX),
    Architecture(90, "Hopper", (0, 0), "", _MATRIX),
    Architecture(100, "Blackwell", (1, 0), _NO_KERNELS, _THREAD, inferred=True),
    Architecture(103, "Blackwell Ultra", (1, 1), "B300 and GB300 came with 1.1", _NOTES, inferred=True),
    Architecture(120, "Blackwell (RTX)", (1, 0), _NO_KERNELS, f"{_THREAD}; {_MATRIX}", inferred=True),
    Architecture(121, "Blackwell (GB10)", (1, 0), "it came with 1.0 (DGX Spark: beta in 1.2)", _NOTES, inferred=True),
)  # fmt: skip


def supports_sm(version: str, sm: int) -> str | None:
    """Why engines of `version` do not run with speculation on compute capability `sm`; None when they do."""
    row = _row(sm)
    if row is None:
        listed = ", ".join(str(row.sm) for row in ARCHITECTURES if row.since is not None)
        return f"SM {sm} is not in TensorRT-LLM's support matrix (it lists SM {listed})"
    if row.since is None:
        return f"SM {sm} ({row.name}): {row.why} ({row.source})"
    if parse_version(version).release[:2] >= row.since:
        return None
    first = ".".join(map(str, row.since))
    sure = "inferred from " if row.inferred else ""
    return (
        f"SM {sm} ({row.name}) needs TensorRT-LLM {first} or newer, this is {version}: {row.why} ({sure}{row.source})"
    )


def sm_caution(version: str, sm: int) -> str | None:
    """What to know where `supports_sm` finds nothing against `sm`, but nobody says outright that it works; else None.

    In the thread that asked for it NVIDIA closed the request as done and advised PyTorch over engines on Blackwell.
    """
    row = _row(sm)
    if row is None or not row.inferred or supports_sm(version, sm) is not None:
        return None
    return (
        f"SM {sm} ({row.name}): no source says that engines of {version} run with speculation there; NVIDIA advises "
        "its PyTorch runtime on Blackwell (NVIDIA/TensorRT-LLM#6158)"
    )


def _row(sm: int) -> Architecture | None:
    return next((row for row in ARCHITECTURES if row.sm == sm), None)
