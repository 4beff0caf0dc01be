"""The product's flag tables, held against the facts; and what a table answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.building.tensorrt.stand_in.arguments import facts
from trtspec.toolchain.flags import FORMATS, GONE, MINORS, FlagTable, build_flags, converter_flags, quantize_flags

_TAKES = {"nothing": "presence", "text": "text", "texts": "texts", "int": "int", "float": "float"}
FAMILIES = list(facts("converters")["places"])
CAPITALS = ("CONTINUOUS", "PAGED", "DISABLED")


def as_facts(table: FlagTable) -> dict[str, tuple[Any, ...]]:
    return {flag.name: (flag.kind, flag.choices, flag.aliases) for flag in table.flags}


def expected(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {
        row["flag"]: (_TAKES[row["takes"]], tuple(map(str, row.get("choices", ()))), tuple(row.get("aliases", ())))
        for row in rows
    }


@pytest.mark.parametrize("minor", MINORS)
def test_flags_of_trtllm_build(minor: str) -> None:
    table = facts("trtllm_build")
    rows = expected([*table["flags"], *table["plugin_flags"]])
    if minor != "1.2":
        kind, _, aliases = rows["--kv_cache_type"]
        rows["--kv_cache_type"] = (kind, CAPITALS, aliases)
    assert as_facts(build_flags(minor)) == rows
    assert not {f"--{name}" for name in GONE if name != "paged_kv_cache"} & set(rows)
    assert {flag.removeprefix("--") for flag in table["removed"]} <= set(GONE)


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("family", FAMILIES)
def test_flags_of_the_converters(family: str, minor: str) -> None:
    assert as_facts(converter_flags(family, minor)) == expected(facts("converters")[family])


def test_flags_of_the_quantizer() -> None:
    table = facts("quantize")
    assert as_facts(quantize_flags("1.2")) == expected(table["flags"])
    assert {name: algo for name, algo in table["algorithms"].items() if algo} == FORMATS


def test_defaults_are_known() -> None:
    table = build_flags("1.2")
    defaults = {row["flag"]: row["default"] for row in facts("trtllm_build")["flags"] if "default" in row}
    found = {name: flag.default for name in defaults if (flag := table.find(name)) is not None}
    assert found == {name: str(value) for name, value in defaults.items()}


@pytest.mark.parametrize("minor", MINORS)
def test_every_table_names_its_source(minor: str) -> None:
    for table in (build_flags(minor), quantize_flags(minor), *(converter_flags(name, minor) for name in FAMILIES)):
        assert "@" in table.source
        assert "nothing read suggests" in table.note


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("max_seq_len", "--max_seq_len"),
        ("--max_seq_len", "--max_seq_len"),
        ("max_decoder_seq_len", "--max_seq_len"),
        ("max_output_len", None),
        ("", None),
    ],
)
def test_finding_a_flag(spelling: str, name: str | None) -> None:
    found = build_flags("1.2").find(spelling)
    assert (found.name if found else None) == name


def test_the_nearest_flag() -> None:
    assert build_flags("1.2").nearest("max_seq_length") == "--max_seq_len"
    assert build_flags("1.2").nearest("zzz") is None


@pytest.mark.parametrize(
    ("name", "value", "argv"),
    [
        ("dry_run", True, ("--dry_run",)),
        ("dry_run", False, ()),
        ("reduce_fusion", True, ("--reduce_fusion", "enable")),
        ("reduce_fusion", "disable", ("--reduce_fusion", "disable")),
        ("max_lora_rank", 8, ("--max_lora_rank", "8")),
        ("lora_dir", "a b", ("--lora_dir", "a", "b")),
    ],
)
def test_a_flag_on_a_command_line(name: str, value: Any, argv: tuple[str, ...]) -> None:
    flag = build_flags("1.2").find(name)
    assert flag is not None
    assert flag.problem(value) is None
    assert flag.argv(value) == argv
