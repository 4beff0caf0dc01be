"""The rules about repositories: importing this module enters them in the registry."""

from trtspec.repository.lint import (
    call_rules,
    engine_rules,
    ensemble_rules,
    file_rules,
    machine_rules,
    parameter_rules,
    port_rules,
    speculation_rules,
)

__all__ = ["MODULES"]

MODULES = (
    file_rules,
    parameter_rules,
    call_rules,
    ensemble_rules,
    engine_rules,
    speculation_rules,
    machine_rules,
    port_rules,
)
