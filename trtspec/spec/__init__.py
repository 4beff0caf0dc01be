"""The deployment spec: its fields, how it is read, and the names that everything shares."""

from trtspec.spec.editing import diff_text, with_section_values
from trtspec.spec.load import SpecFile, load_spec, parse_spec, spec_json_schema
from trtspec.spec.model import ModelSource, Spec
from trtspec.spec.names import ARM_ROLES, ARMS, ROLES, Arm, Role

__all__ = [
    "ARMS",
    "ARM_ROLES",
    "ROLES",
    "Arm",
    "ModelSource",
    "Role",
    "Spec",
    "SpecFile",
    "diff_text",
    "load_spec",
    "parse_spec",
    "spec_json_schema",
    "with_section_values",
]
