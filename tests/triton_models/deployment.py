"""A model repository with the real frontend and fake leaves, and a client with deadlines."""

from __future__ import annotations

import json
import queue
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tests.builders import tiny_tokenizer_files
from trtspec.repository.config import ModelSpec, model_config, pbtxt
from trtspec.repository.sources import frontend_files
from trtspec.repository.tensors import (
    FRONTEND_INPUTS,
    FRONTEND_OUTPUTS,
    LEAF_INPUTS,
    LEAF_OUTPUTS,
    LOGITS_INPUTS,
    Tensor,
)

TIMEOUT = 30
END_ID = 2

ANSWERS = {
    "Say hello": "hello world, how are you today?",
    "Unicode": "naïve café: 你好,世界 🎉👩‍👩‍👧 done",
    "Code": "def add(a, b):\n    return a + b\n\nprint(add(1, 2))",
    "Long": "the quick brown fox jumps over the lazy dog and the cat sat on the mat " * 4,
    "End": "it ends<|im_start|> here",
}


@dataclass
class Deployment:
    """A repository on disk and what its leaves have written down."""

    repository: Path
    log: Path
    tokenizer: Tokenizer
    url: str = ""
    grpc_url: str = ""
    metrics_url: str = ""
    timeout: float = TIMEOUT
    pointer: int = field(default=0)

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def calls(self) -> list[dict[str, Any]]:
        """The leaf calls since the last `forget`."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines[self.pointer :]]

    def inner(self, model: str) -> list[dict[str, Any]]:
        """The inputs of the generating calls of a leaf."""
        return [call["inputs"] for call in self.calls() if call["model"] == model and "input_ids" in call["inputs"]]

    def streamed(self) -> list[int]:
        """Tokens that each streaming call of a leaf that has ended has sent."""
        return [call["inputs"]["streamed"] for call in self.calls() if "streamed" in call["inputs"]]

    def stops(self) -> list[dict[str, Any]]:
        """The calls that asked a leaf to stop."""
        return [call for call in self.calls() if call["inputs"].get("stop")]

    def comes_to_rest(self) -> bool:
        """Whether a second goes by without a leaf call."""
        end = time.monotonic() + TIMEOUT
        before = -1
        while before != (before := len(self.calls())) and time.monotonic() < end:
            time.sleep(1.0)
        return time.monotonic() < end

    def forget(self) -> None:
        self.pointer = len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def generate(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST …/generate; HTTPError as it comes."""
        with self._post("generate", body) as response:
            result: dict[str, Any] = json.loads(response.read())
        return result

    def refused(self, body: Mapping[str, Any]) -> tuple[int, str]:
        """Status and error text of a request that is refused."""
        try:
            answer = self.generate(body)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["error"]
        raise AssertionError(f"answered: {answer}")

    def stream(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All events of …/generate_stream."""
        return list(self.events(body))

    def events(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        with self._post("generate_stream", {"stream": True, **body}) as response:
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    def _post(self, endpoint: str, body: Mapping[str, Any]) -> Any:
        url = f"{self.url}/v2/models/tensorrt_llm_bls/{endpoint}"
        data = json.dumps({"max_tokens": 200, **body}).encode()
        return urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=self.timeout)


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether `condition` comes true within `TIMEOUT`."""
    end = time.monotonic() + TIMEOUT
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def make_deployment(
    folder: Path,
    *,
    delay_ms: float = 0.0,
    draft_mode: str | None = "draft",
    can_stop: bool = True,
    echo: bool = False,
    logits: bool = False,
    **frontend: str,
) -> Deployment:
    """Write the repository (`draft_mode` None: the baseline arm)."""
    tokenizer_dir = folder / "tokenizer"
    tiny_tokenizer_files(tokenizer_dir)
    tokenizer = Tokenizer.from_file(str(tokenizer_dir / "tokenizer.json"))
    deployment = Deployment(folder / "repository", folder / "calls.jsonl", tokenizer)
    script = folder / "script.json"
    pairs = [{"prompt": deployment.ids(prompt), "output": deployment.ids(text)} for prompt, text in ANSWERS.items()]
    script.write_text(json.dumps(pairs))
    leaf = {"script": str(script), "log": str(deployment.log), "delay_ms": str(delay_ms)}
    _write_leaf(deployment, "tensorrt_llm", {**leaf, "mode": "target", "echo": "yes" if echo else "no"}, can_stop)
    if draft_mode:
        _write_leaf(deployment, "tensorrt_llm_draft", {**leaf, "mode": draft_mode}, can_stop)
    parameters = {
        "tensorrt_llm_model_name": "tensorrt_llm",
        "tensorrt_llm_draft_model_name": "tensorrt_llm_draft" if draft_mode else "",
        "tokenizer_dir": str(tokenizer_dir),
        "num_draft_tokens": "4" if draft_mode else "0",
        "max_draft_length": "8" if draft_mode else "0",
        "end_ids": f"{END_ID},0",
        "max_seq_len": "512",
        "vocab_size": str(tokenizer.get_vocab_size()),
        "draft_timeout_seconds": "2",
        "acceptance": "logits" if logits else "tokens",
        **frontend,
    }
    inputs = FRONTEND_INPUTS + (LOGITS_INPUTS if logits else ())
    spec = ModelSpec("tensorrt_llm_bls", 8, inputs, FRONTEND_OUTPUTS, parameters)
    write_model(deployment.repository, spec, {name: path.read_bytes() for name, path in frontend_files().items()})
    return deployment


def _write_leaf(deployment: Deployment, name: str, parameters: dict[str, str], can_stop: bool) -> None:
    inputs = [tensor for tensor in LEAF_INPUTS if tensor.name != "stop"]
    if can_stop:
        inputs.append(Tensor("stop", "TYPE_BOOL", optional=True))
    source = Path(__file__).with_name("fake_leaf.py").read_bytes()
    write_model(deployment.repository, ModelSpec(name, 8, inputs, LEAF_OUTPUTS, parameters), {"model.py": source})


def write_model(repository: Path, spec: ModelSpec, files: Mapping[str, bytes]) -> None:
    folder = repository / spec.name
    for name, data in files.items():
        path = folder / "1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "config.pbtxt").write_text(pbtxt(model_config(spec)))


class GrpcStream:
    """One request over gRPC streaming, with a deadline on every wait."""

    def __init__(self, url: str, tensors: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> None:
        from tritonclient.grpc import InferenceServerClient, InferInput

        self.answers: queue.Queue[Any] = queue.Queue()
        self.client = InferenceServerClient(url)
        inputs = []
        for name, values in tensors.items():
            array = np.array([values], _NUMPY[types[name]])
            made = InferInput(name, list(array.shape), types[name])
            made.set_data_from_numpy(array)
            inputs.append(made)
        self.client.start_stream(lambda result, error: self.answers.put(error or result), stream_timeout=TIMEOUT)
        self.client.async_stream_infer("tensorrt_llm_bls", inputs, enable_empty_final_response=True)

    def next(self) -> Any:
        return self.answers.get(timeout=TIMEOUT)

    def close(self, *, cancel: bool = False) -> None:
        self.client.stop_stream(cancel_requests=cancel)
        self.client.close()


_NUMPY: dict[str, Any] = {"BYTES": np.object_, "INT32": np.int32, "BOOL": np.bool_, "FP32": np.float32}
