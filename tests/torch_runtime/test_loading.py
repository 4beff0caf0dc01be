"""Options reach the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.torch_runtime.engines import collect, engine_folder, open_engine
from trtspec.cores import usable_cores
from trtspec.errors import ArtefactMissing
from trtspec.torch_runtime.config import Admission, RuntimeOptions, read_engine_config
from trtspec.torch_runtime.loading import choose_device, cpu_threads
from trtspec.torch_runtime.request import GenerationRequest


def test_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large, other = (tmp_path / name for name in ("small", "large", "other"))
    for folder, size in ((small, 30 * 2**20), (large, 500 * 2**20), (other, None)):
        folder.mkdir()
        if size is not None:
            with (folder / "model.safetensors").open("wb") as stream:
                stream.truncate(size)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cpu_threads(None, large) == cpu_threads(None, other) == usable_cores()
    assert cpu_threads(None, small) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert cpu_threads(None, large) == cpu_threads(None, small) == 7
    assert cpu_threads(3, large) == cpu_threads(3, small) == 3


def test_the_thread_that_loads_keeps_to_itself(tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "from pathlib import Path\n"
        "from trtspec.torch_runtime.config import RuntimeOptions\n"
        "from trtspec.torch_runtime.loading import load_engine\n"
        "engine = load_engine(Path(sys.argv[1]), RuntimeOptions(threads=2))\n"
        "print(torch.get_num_threads(), len(list(Path('/proc/self/task').iterdir())))\n"
        "engine.close()\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", code, str(engine_folder(tmp_path))], env=environment, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    threads, tasks = map(int, run.stdout.split())
    assert threads == 1
    assert tasks <= 3  # this one, the engine's, and the engine's helper


def test_parameters_of_a_triton_model() -> None:
    assert RuntimeOptions.from_parameters({"gpt_model_path": "/e", "torch_threads": ""}) == RuntimeOptions()
    given = {
        "torch_threads": "2",
        "torch_device": "cpu",
        "torch_exact_rows": "true",
        "torch_weights": "int8",
        "torch_compile": "true",
        "max_tokens_in_paged_kv_cache": "99",
        "torch_prompt_chunk": "7",
        "torch_max_waiting": "0",
        "torch_max_waiting_tokens": "500",
    }
    assert RuntimeOptions.from_parameters(given) == RuntimeOptions(
        "cpu", 2, exact_rows=True, weights="int8", compile=True, limits=Admission(99, 7, 0, 500)
    )


def test_a_form_of_weights_that_is_none() -> None:
    with pytest.raises(ValueError, match="torch_weights is 'int4', not one of exact, float16, int8"):
        RuntimeOptions.from_parameters({"torch_weights": "int4"})


def test_the_engine_runs_with_the_given_threads(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        engine = open_engine(engine_folder(tmp_path), RuntimeOptions(device="cpu", threads=1))
        seen: list[int] = []
        engine.submit(GenerationRequest((5,), 1), lambda _update: seen.append(torch.get_num_threads()))
        collect(engine, GenerationRequest((5,), 1))
        engine.close()
    finally:
        torch.set_num_threads(before)
    assert seen == [1]


def test_engines_in_one_process_keep_their_own_threads(tmp_path: Path) -> None:
    """Whoever sets its number last must not set that of an engine which has not computed anything yet."""
    before = torch.get_num_threads()
    folder = engine_folder(tmp_path)
    try:
        engines = [open_engine(folder, RuntimeOptions(device="cpu", threads=count)) for count in (2, 1)]
        seen: list[int] = []
        for engine in engines:
            engine.submit(GenerationRequest((5,), 1), lambda _update: seen.append(torch.get_num_threads()))
            collect(engine, GenerationRequest((5,), 1))
        for engine in engines:
            engine.close()
    finally:
        torch.set_num_threads(before)
    assert seen == [2, 1]


def test_devices() -> None:
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_a_folder_without_an_engine(tmp_path: Path) -> None:
    with pytest.raises(ArtefactMissing, match="no engine"):
        read_engine_config(tmp_path)
