"""The Python files that a generated model folder holds, and where they come from."""

from __future__ import annotations

from pathlib import Path

import trtspec.chat_template
import trtspec.speculation
import trtspec.triton_models

__all__ = ["frontend_files", "leaf_files"]

_MODELS = Path(trtspec.triton_models.__file__).parent
_SPECULATION = Path(trtspec.speculation.__file__).parent


def frontend_files() -> dict[str, Path]:
    """Path inside the frontend's version folder → source file: model.py, its helpers and the speculation package."""
    helpers = {path.name: path for path in sorted(_MODELS.glob("frontend_*.py"))}
    shared = Path(trtspec.chat_template.__file__)
    files = {"model.py": _MODELS / "frontend.py", shared.name: shared, **helpers}
    return files | {f"speculation/{path.name}": path for path in sorted(_SPECULATION.glob("*.py"))}


def leaf_files() -> dict[str, Path]:
    """Path inside a leaf's version folder → source file, for the torch runtime."""
    return {"model.py": _MODELS / "leaf.py"}
