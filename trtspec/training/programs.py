"""Made-up programs that prompts ask to explain, test, mend or edit: small functions with changing names and numbers."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from importlib import resources

from trtspec.training.filling import Filler

__all__ = ["PROGRAMS"]

# what is exchanged to make a mistake, once
_MISTAKES = (
    (" > ", " >= "), (" < ", " <= "), ("return ", "print("), (".append(", ".add("), ("range(0, ", "range(1, "),
    (" += ", " =+ "), ("sum(", "len("), (" is None", ' == ""'), ("i += 1", "j += 1"), ("self.", ""), ("[0]", "[1]"),
    ("== 200", "= 200"), ("in ", "of "), (":\n", "\n"),
)  # fmt: skip
_COMMENTS = ("# go through all of them", "# TODO: check this", "# the usual case", "# should not happen")
# programs.json: «…» are names and numbers; the same name is the same everywhere in a program
_PLACE = re.compile("«([a-zA-Z])»")


@functools.cache
def _templates() -> dict[str, list[str]]:
    file = resources.files("trtspec.training") / "programs.json"
    found: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _named(f: Filler, text: str) -> str:
    """A template with names for its places; numbers differ everywhere."""
    names = {
        "f": f.word("function"),
        "C": f.word("class_name"),
        "t": f.word("table"),
        **dict(zip("abc", _different(f), strict=True)),
    }
    numbers = {"n": "n", "h": "hours"}

    def value(match: re.Match[str]) -> str:
        key = match.group(1)
        return f.word(numbers[key]) if key in numbers else names[key]

    return _PLACE.sub(value, text)


def _different(f: Filler) -> list[str]:
    """Two names of variables and one of a column, no two alike."""
    found: list[str] = []
    while len(found) < 2:
        name = f.word("identifier")
        if name not in found:
            found.append(name)
    column = f.word("column")
    return [*found, f"{column}_value" if column in found else column]


def _python(f: Filler) -> str:
    return _named(f, f.rng.choice(f.kept(_templates()["python"])))


def _program(f: Filler) -> str:
    return (
        _named(f, f.rng.choice(f.kept(_templates()["python"])))
        if f.rng.random() < 0.7
        else _named(f, f.rng.choice(_templates()["other"]))
    )


def _broken(f: Filler) -> str:
    text = _program(f)
    fitting = [(right, wrong) for right, wrong in _MISTAKES if right in text]
    right, wrong = f.rng.choice(fitting)
    return text.replace(right, wrong, 1)


def _commented(f: Filler) -> str:
    lines = []
    for line in _python(f).splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() and f.rng.random() < 0.3:
            lines.append(f"{indent}{f.rng.choice(_COMMENTS)}")
        lines.append(line)
        if line.rstrip().endswith(("[]", "{}")):
            lines.append(f'{indent}print("{f.word("quality")}")')
    return "\n".join(lines)


def _signature(f: Filler) -> str:
    kinds = ("list[int]", "str", "float", "dict[str, int]")
    first, second = _different(f)[:2]
    head = f"def {f.word('function')}({first}: {f.rng.choice(kinds)}, {second}: int = {f.word('n')}):"
    return f'{head}\n    """{f.text("A function that {task}.")}"""'


PROGRAMS: dict[str, Callable[[Filler], str]] = {
    "program": _program,
    "broken": _broken,
    "commented": _commented,
    "signature": _signature,
}
