"""What a build is made of: products (a folder that commands make whole) and their steps, one a command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trtspec.building.tensorrt.commands import Command, Stage, build_commands, checkpoint_commands
from trtspec.building.tensorrt.docker import Container, checkpoint_mounts, docker_run
from trtspec.building.tensorrt.docker import Mount as _Mount
from trtspec.building.tensorrt.keys import Identity
from trtspec.building.tensorrt.request import EngineRequest
from trtspec.building.tensorrt.tools import Tools
from trtspec.spec import Role

__all__ = ["Kind", "Product", "Step", "canonical", "product_steps", "work_folder"]

Kind = Literal["checkpoint", "engine"]
_MANNER = {"--workers", "--log_level"}


@dataclass(frozen=True)
class Step:
    """One program of a build; `cached`: its result is there already, or nothing needs it.

    role: the first that needs it; roles: all. key: of the folder that it helps to make.
    """

    id: str
    role: Role
    roles: tuple[Role, ...]
    stage: Stage
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    key: str
    cached: bool

    def to_json(self) -> dict[str, Any]:
        """As `build --dry-run --output json` shows it."""
        return {
            "id": self.id,
            "role": self.role,
            "roles": list(self.roles),
            "stage": self.stage,
            "argv": list(self.argv),
            "env": dict(self.env),
            "cwd": str(self.cwd),
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "key": self.key,
            "cached": self.cached,
            "shell": self.shell(),
        }

    def shell(self) -> str:
        """What to paste into a shell to do the same; one flag a line."""
        if self.stage == "inspect":
            return _joined(self.argv)
        env = [f"{name}={_quoted(value)}" for name, value in self.env.items()]
        lines = [" ".join(env)] if env else []
        for flag, words in _groups(self.argv):
            indent = "  " if flag else ""
            lines.append(indent + _joined(words))
        cwd = _quoted(str(self.cwd))
        return f"mkdir -p {cwd} && cd {cwd} && \\\n" + " \\\n".join(lines)


def _joined(words: Sequence[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    """`word` for a shell; what a terminal would not show or obey (a tab, an escape, a byte that is no text) as $'…'."""
    if all(character.isprintable() for character in word):
        return shlex.quote(word)
    parts = (
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}" for byte in os.fsencode(word)
    )
    return f"$'{''.join(parts)}'"


def _groups(argv: Sequence[str]) -> list[tuple[bool, list[str]]]:
    """`argv` in lines: whether it is a flag, and the flag with its value, or words that belong to no flag."""
    lines: list[tuple[bool, list[str]]] = []
    for word in argv:
        if word.startswith("-"):
            lines.append((True, [word]))
        elif lines and (not lines[-1][0] or len(lines[-1][1]) == 1):
            lines[-1][1].append(word)
        else:
            lines.append((False, [word]))
    return lines


@dataclass(frozen=True)
class Product:
    """A folder and what makes it: a converted checkpoint (shared by roles) or an engine.

    `inside`: its programs run in a container, for which links on the way to the checkpoint do not exist. `done` is True
    when it is whole on disk and need not be made again, `needed` False when nothing asks for it.
    """

    kind: Kind
    role: Role
    roles: tuple[Role, ...]
    folder: Path
    key: str
    request: EngineRequest
    identity: Identity
    tools: Tools = field(repr=False)
    needs: Product | None = None
    inside: bool = False
    done: bool = False
    needed: bool = True

    @property
    def source(self) -> Path:
        """The folder that its commands read."""
        if self.needs is not None:
            return self.needs.folder
        return self.request.folder.resolve() if self.inside else self.request.folder

    def commands(self, output: Path) -> tuple[Command, ...]:
        """What to run to fill `output`."""
        make: Callable[[EngineRequest, str, str, Tools], tuple[Command, ...]]
        make = checkpoint_commands if self.kind == "checkpoint" else build_commands
        return make(self.request, str(self.source), str(output), self.tools)

    @property
    def label(self) -> str:
        """For people: `build target`, `convert baseline + target`."""
        stage = self.commands(self.folder)[0].stage
        return f"{stage} {' + '.join(self.roles)}"


def canonical(commands: Sequence[Command]) -> list[list[str]]:
    """Their argv and environment without what has no part in the result: where programs lie, how many work at once."""
    return [
        [*(f"{name}={value}" for name, value in sorted(command.env.items())), *_deciding(_program(command.argv))]
        for command in commands
    ]


def _deciding(argv: Sequence[str]) -> list[str]:
    """`argv` without flags (and their values) that change only how the work is done."""
    before = ["", *argv]
    return [word for word, flag in zip(argv, before, strict=False) if not {word, flag} & _MANNER]


def _program(argv: Sequence[str]) -> list[str]:
    first = Path(argv[0]).name
    if first.startswith("python"):
        return ["python", *(_script(part) for part in argv[1:2]), *argv[2:]]
    return [first, *argv[1:]]


def _script(path: str) -> str:
    return "/".join(Path(path).parts[-2:]) if path.endswith(".py") else path


def work_folder(folder: Path) -> Path:
    """The working directory that a person may use for a step's command (a build makes a fresh one each time)."""
    return folder.with_name(f"{folder.name}.work")


def product_steps(product: Product, container: Container | None) -> list[Step]:
    """The steps that make `product`, as a person can type them."""
    commands = product.commands(product.folder)
    many, steps = len(commands) > 1, []
    for number, command in enumerate(commands):
        cwd = work_folder(product.folder)
        argv, env = command.argv, dict(command.env)
        if container is not None:
            argv, env = docker_run(container, argv, env, cwd), {}
        suffix = f"-{number}" if many else ""
        steps.append(
            Step(
                id=f"{command.stage}-{product.role}-{product.key}{suffix}",
                role=product.role,
                roles=product.roles,
                stage=command.stage,
                argv=argv,
                env=env,
                cwd=cwd,
                inputs=(str(product.source),),
                outputs=tuple(str(product.folder / name) for name in command.outputs),
                key=product.key,
                cached=product.done or not product.needed,
            )
        )
    return steps


def mounts_of(product: Product) -> list[_Mount]:
    """What its container must see: what it reads, and the folder that its output appears in."""
    reads = [_Mount(product.source)] if product.needs is not None else checkpoint_mounts(product.source)
    return [*reads, _Mount(product.folder.parent, writable=True)]
