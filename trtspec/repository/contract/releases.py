"""The contract of one release: the rows of the tables that it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trtspec.errors import VersionUnsupported
from trtspec.repository.contract.parameters import LEAF_PARAMETERS
from trtspec.repository.contract.rows import LeafParameter, Release
from trtspec.repository.contract.tensors import LEAF_INPUTS, LEAF_OUTPUTS
from trtspec.repository.tensors import Tensor
from trtspec.toolchain.versions import parse_version

__all__ = ["CONTRACTS", "VERSIONS", "Contract", "contract_for"]

VERSIONS = ("0.19", "0.20", "0.21", "1.0", "1.1", "1.2")


@dataclass(frozen=True)
class Contract:
    """The model of one release, `version` as major.minor.

    Types of tensors may be keys of `TYPE_CHOICES`, which the deployment fills in.
    """

    version: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    parameters: Mapping[str, LeafParameter]

    @property
    def min_tokens_input(self) -> str:
        """Name of the input for the least number of tokens: min_length up to 0.19, then min_tokens."""
        return self._one_of("min_tokens", "min_length")

    @property
    def seed_input(self) -> str:
        """Name of the input for the sampling seed: random_seed up to 0.19, then seed."""
        return self._one_of("seed", "random_seed")

    def _one_of(self, *names: str) -> str:
        known = {tensor.name for tensor in self.inputs}
        return next(name for name in names if name in known)


def _release(version: str) -> Release:
    major, minor, *_ = (*parse_version(version).release, 0)
    return major, minor


def _contract(version: str) -> Contract:
    release = _release(version)
    return Contract(
        version,
        tuple(row.tensor for row in LEAF_INPUTS if row.is_in(release)),
        tuple(row.tensor for row in LEAF_OUTPUTS if row.is_in(release)),
        {row.key: row for row in LEAF_PARAMETERS if row.is_in(release)},
    )


CONTRACTS: Mapping[str, Contract] = {version: _contract(version) for version in VERSIONS}


def contract_for(version: str) -> Contract:
    """The contract of a release given in full (1.2.1, 1.0.3.2510, 1.2.0rc8); VersionUnsupported for any other."""
    major, minor = _release(version)
    found = CONTRACTS.get(f"{major}.{minor}")
    if found is not None:
        return found
    if (major, minor) > _release(VERSIONS[-1]):
        message = f"TensorRT-LLM {version} has no C++ model for Triton: it was removed after {VERSIONS[-1]}"
    else:
        message = f"TensorRT-LLM {version} is older than the models that can be written ({VERSIONS[0]} and newer)"
    fix = f"build the engines with a release from {VERSIONS[0]} to {VERSIONS[-1]}"
    raise VersionUnsupported(message, version=version, fix=fix)
