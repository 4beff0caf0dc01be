"""Where engines and the tokenizer lie for the server: by reference, or inside the repository as NVIDIA has them.

`serving.engines` decides for all of them. reference: paths of this machine. link and copy: the engine's files in the
version folder of its model (`tensorrt_llm/1/`), the tokenizer's in the frontend's, and paths as the server sees them,
below `serving.repository_root`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trtspec.building.identity import tokenizer_files
from trtspec.checkpoints.reading import child_names
from trtspec.repository.placed import Content, Placed
from trtspec.spec.load import SpecFile
from trtspec.spec.names import FRONTEND_MODEL, Arm

__all__ = ["Layout"]

# what the making of an engine leaves beside it: paths of the machine that built it, and nothing that a server reads
_LEFT_OUT = ("manifest.json",)
_LEFT_OUT_ENDINGS = (".log", ".cache", ".lock")
_TOKENIZER = f"{FRONTEND_MODEL}/1/tokenizer"


@dataclass(frozen=True)
class Layout:
    """The places of one arm's repository."""

    spec_file: SpecFile
    arm: Arm

    @property
    def inside(self) -> bool:
        """Whether engines and tokenizer lie in the repository."""
        return self.spec_file.spec.serving.engines != "reference"

    def seen(self, name: str) -> str:
        """The path of a file or folder of the repository as the server sees it; a root may be a URL (s3://…)."""
        root = self.spec_file.spec.serving.repository_root or str(self.spec_file.repository(self.arm))
        return f"{root.rstrip('/')}/{name}"

    def engine_path(self, model: str, engine: Path) -> str:
        """`gpt_model_path` of a model with this engine."""
        return self.seen(f"{model}/1") if self.inside else str(engine)

    def engine_files(self, model: str, engine: Path) -> dict[str, Content]:
        """The engine's files in the repository; none when it is referenced."""
        paths = [path for path in sorted(engine.rglob("*")) if _served(path)] if self.inside else []
        return {f"{model}/1/{path.relative_to(engine).as_posix()}": self._placed(path) for path in paths}

    def tokenizer_path(self, folder: Path) -> str:
        """`tokenizer_dir` of the frontend with the tokenizer in `folder`."""
        return self.seen(_TOKENIZER) if self.inside else str(folder)

    def tokenizer_files(self, folder: Path) -> dict[str, Content]:
        """The tokenizer's files in the repository; none when it is referenced."""
        names = tokenizer_files(child_names(folder)) if self.inside else []
        return {f"{_TOKENIZER}/{name}": self._placed(folder / name) for name in names}

    def _placed(self, path: Path) -> Placed:
        return Placed(path, copied=self.spec_file.spec.serving.engines == "copy")


def _served(path: Path) -> bool:
    left_out = path.name in _LEFT_OUT or path.suffix in _LEFT_OUT_ENDINGS or path.name.startswith(".")
    return path.is_file() and not left_out
