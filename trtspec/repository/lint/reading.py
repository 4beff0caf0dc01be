"""Reading a repository: every folder in it, its config.pbtxt through protobuf's own parser, its version folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trtspec.errors import UsageError
from trtspec.files import is_partial
from trtspec.repository.lint.model import CONFIG_FILE, Model, ParseProblem

__all__ = ["read_model", "read_models"]

_LARGEST = 4 << 20  # bytes of a config.pbtxt; real ones have some thousand


def read_models(folder: Path) -> tuple[Model, ...]:
    """The models in a repository, by name; UsageError when there is no such folder."""
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=str(folder), fix="give the folder that holds the models")
    try:
        inside = [path for path in sorted(folder.iterdir()) if path.is_dir() and not is_partial(path)]
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(folder)) from None
    return tuple(read_model(path) for path in inside)


def read_model(folder: Path) -> Model:
    """One model; whatever is wrong with its config.pbtxt becomes a problem, never an exception."""
    path = folder / CONFIG_FILE
    if not path.exists():
        return Model(folder, None, None, None, _versions(folder))
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        return Model(folder, None, None, ParseProblem(f"cannot be read: {error}", None), _versions(folder))
    if len(data) > _LARGEST:
        return Model(folder, None, None, ParseProblem(f"has more than {_LARGEST >> 20} MiB", None), _versions(folder))
    config, problem = _parse(text)
    return Model(folder, text, config, problem, _versions(folder))


def _parse(text: str) -> tuple[Any, ParseProblem | None]:
    from google.protobuf import text_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    try:
        return text_format.Parse(text, ModelConfig()), None
    except text_format.ParseError as error:
        line = error.GetLine()
        message = " ".join(str(error).split())
        if line is not None and message.startswith(f"{line}:"):
            message = message.partition(" : ")[2] or message
        return None, ParseProblem(message, line)
    except (ValueError, RecursionError) as error:
        return None, ParseProblem(" ".join(str(error).split()), None)


def _versions(folder: Path) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    try:
        for path in sorted(folder.iterdir()):
            if path.is_dir() and path.name.isascii() and path.name.isdecimal() and not path.name.startswith("0"):
                found[int(path.name)] = frozenset(child.name for child in path.iterdir())
    except OSError:
        pass
    return dict(sorted(found.items()))
