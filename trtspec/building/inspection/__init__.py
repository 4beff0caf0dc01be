"""Finished engines: what their config.json says, and whether it is what was asked for."""

from trtspec.building.inspection.engine_config import EngineConfig, read_engine_config
from trtspec.building.inspection.expectation import NO_QUANT, Expectation
from trtspec.building.inspection.inspect import errors_of, inspect_engine, inspect_engines, refuse

__all__ = [
    "NO_QUANT",
    "EngineConfig",
    "Expectation",
    "errors_of",
    "inspect_engine",
    "inspect_engines",
    "read_engine_config",
    "refuse",
]
