"""Where TensorRT-LLM's programs are: on this machine, in a checkout that the user names, or inside an image."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from trtspec.errors import EnvironmentMissing
from trtspec.toolchain.detect import Toolchain
from trtspec.toolchain.families import FAMILIES

__all__ = ["QUANTIZE_SCRIPT", "Tools", "find_tools"]

QUANTIZE_SCRIPT = "quantization/quantize.py"
_CLONE = "git clone --depth 1 -b v{version} https://github.com/NVIDIA/TensorRT-LLM"
# inside NVIDIA's images: tritonserver:*-trtllm-python-py3 first, then tensorrt-llm/release
_TRITON_EXAMPLES = "/app/examples"
_RELEASE_EXAMPLES = "/app/tensorrt_llm/examples"
_VERSION = re.compile(r'^__version__\s*=\s*["\']([^"\']+)', re.MULTILINE)


@dataclass(frozen=True)
class Tools:
    """The programs that make engines.

    `python` runs the scripts: the interpreter that TensorRT-LLM is installed for. `converters` by family and `quantize`
    hold what was found; `tried` are the folders that were looked in.
    """

    python: str
    trtllm_build: str
    converters: Mapping[str, str]
    quantize: str | None
    version: str
    tried: tuple[str, ...] = ()

    def converter(self, family: str) -> str:
        """Path of the family's convert_checkpoint.py; EnvironmentMissing names every place tried."""
        found = self.converters.get(family)
        if found is None:
            raise self._missing(FAMILIES[family].script)
        return found

    def quantizer(self) -> str:
        """Path of quantize.py; EnvironmentMissing names every place tried."""
        if self.quantize is None:
            raise self._missing(QUANTIZE_SCRIPT)
        return self.quantize

    def _missing(self, script: str) -> EnvironmentMissing:
        places = "; ".join(f"{folder}/{script}" for folder in self.tried)
        return EnvironmentMissing(
            f"TensorRT-LLM's converter {script} is nowhere: {places}",
            where="tensorrt_llm.examples",
            fix=f"{_CLONE.format(version=self.version)}, and write its examples folder as tensorrt_llm.examples",
        )


def find_tools(
    toolchain: Toolchain, families: Iterable[str], *, examples: Path | None = None, image: str | None = None
) -> Tools:
    """The tools of a toolchain, here or (`image`) inside a container, where nothing can be looked up beforehand.

    A folder that the user names (`examples`: TensorRT-LLM's examples/ or the checkout around it) is the only place
    looked in; EnvironmentMissing when its checkout is of another release. A script that is missing is an error when it
    is asked for.
    """
    if examples is not None:
        _refuse_other_release(examples, toolchain)
        folders = [examples, examples / "examples"]
    else:
        folders = [] if image is not None else _places()
    python, command = ("python3", "trtllm-build") if image is not None else _local(toolchain)
    if image is not None and examples is None:
        return _in_image(image, toolchain, families, python, command)
    scripts = {family: _find(folders, FAMILIES[family].script) for family in families}
    return Tools(
        python=python,
        trtllm_build=command,
        converters={family: path for family, path in scripts.items() if path is not None},
        quantize=_find(folders, QUANTIZE_SCRIPT),
        version=toolchain.version,
        tried=tuple(str(folder) for folder in folders),
    )


def _in_image(image: str, toolchain: Toolchain, families: Iterable[str], python: str, command: str) -> Tools:
    folder = _RELEASE_EXAMPLES if "tensorrt-llm/release" in image else _TRITON_EXAMPLES
    converters = {family: f"{folder}/{FAMILIES[family].script}" for family in families}
    quantize = f"{folder}/{QUANTIZE_SCRIPT}"
    return Tools(python, command, converters, quantize, toolchain.version, (f"{image}:{folder}",))


def _local(toolchain: Toolchain) -> tuple[str, str]:
    """The interpreter that TensorRT-LLM is installed for, and its command.

    That of the command first: ours may be an environment on top of it, with other versions of what the scripts import.
    """
    command = toolchain.trtllm_build or "trtllm-build"
    if (found := _interpreter_of(Path(command))) is not None:
        return found, command
    try:
        metadata.version("tensorrt-llm")
    except metadata.PackageNotFoundError:
        return "python3", command
    return sys.executable, command


def _interpreter_of(script: Path) -> str | None:
    """The interpreter named in the first line of a console script; None when it is no such script."""
    try:
        with script.open("rb") as stream:
            first = stream.readline(400).decode("utf-8", "replace").strip()
    except OSError:
        return None
    words = first.removeprefix("#!").split()
    if not first.startswith("#!") or not words or words[0].endswith(("/sh", "/bash")):
        return None
    return words[1] if words[0].endswith("/env") and len(words) > 1 else words[0].strip("'\"")


def _places() -> list[Path]:
    """Folders that may be TensorRT-LLM's examples/: those of NVIDIA's images, then the installed package's."""
    found = importlib.util.find_spec("tensorrt_llm")
    packages = [Path(place) for place in (found.submodule_search_locations or ())] if found is not None else []
    beside = [folder for package in packages for folder in (package / "examples", package.parent / "examples")]
    return [Path(_TRITON_EXAMPLES), Path(_RELEASE_EXAMPLES), *beside]


def _find(folders: Iterable[Path], script: str) -> str | None:
    return next((str(folder / script) for folder in folders if (folder / script).is_file()), None)


def _refuse_other_release(examples: Path, toolchain: Toolchain) -> None:
    """A converter writes checkpoints for its own release: the checkout's version must be of the same minor."""
    if not examples.is_dir():
        raise EnvironmentMissing(
            "no such folder",
            where=f"tensorrt_llm.examples: {examples}",
            fix=_CLONE.format(version=toolchain.version),
        )
    for root in (examples, examples.parent):
        file = root / "tensorrt_llm" / "version.py"
        found = _VERSION.search(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else None
        if found is not None and not found[1].startswith(f"{toolchain.minor}."):
            raise EnvironmentMissing(
                f"the checkout is of TensorRT-LLM {found[1]}, engines are built with {toolchain.version}",
                where=str(file),
                fix=f"git -C {root} fetch --tags && git -C {root} checkout v{toolchain.version}",
            )
