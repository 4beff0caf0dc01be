"""The rules about engines: importing this module enters them in the registry."""

from trtspec.building.inspection import folder_rules, pair_rules, request_rules, speculation_rules

__all__ = ["MODULES"]

MODULES = (folder_rules, speculation_rules, request_rules, pair_rules)
