"""Tiny model repositories for the real Triton."""

from __future__ import annotations

from pathlib import Path

__all__ = ["ECHO", "model_repository"]

ECHO = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", text)]))
        return responses
"""
_CONFIG = """
name: "{name}"
backend: "{backend}"
max_batch_size: 0
input [{{ name: "text_input" data_type: TYPE_STRING dims: [-1] }}]
output [{{ name: "text_output" data_type: TYPE_STRING dims: [-1] }}]
instance_group [{{ kind: KIND_CPU count: 1 }}]
"""


def model_repository(folder: Path, code: str = ECHO, *, name: str = "echo", backend: str = "python") -> Path:
    """Write a repository with one Python model; return `folder`."""
    version = folder / name / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(code)
    (folder / name / "config.pbtxt").write_text(_CONFIG.format(name=name, backend=backend))
    return folder
