from __future__ import annotations

import pytest

from trtspec.toolchain.images import full_image, image_tag, is_plain_triton, release_of_image

TRITON = "nvcr.io/nvidia/tritonserver:26.04-trtllm-python-py3"


@pytest.mark.parametrize(
    ("text", "full", "version"),
    [
        ("26.04", TRITON, "1.2.1"),
        (" 26.04 ", TRITON, "1.2.1"),
        ("26.04-trtllm-python-py3", TRITON, "1.2.1"),
        ("tritonserver:26.04-trtllm-python-py3", TRITON, "1.2.1"),
        ("nvidia/tritonserver:26.04-trtllm-python-py3", TRITON, "1.2.1"),
        (TRITON, TRITON, "1.2.1"),
        (f"{TRITON}@sha256:0123abcd", f"{TRITON}@sha256:0123abcd", "1.2.1"),
        ("26.03", "nvcr.io/nvidia/tritonserver:26.03-trtllm-python-py3", "1.2.0"),
        ("24.12", "nvcr.io/nvidia/tritonserver:24.12-trtllm-python-py3", "0.16.0"),
        ("1.2.1", "nvcr.io/nvidia/tensorrt-llm/release:1.2.1", "1.2.1"),
        ("v1.1.0", "nvcr.io/nvidia/tensorrt-llm/release:1.1.0", "1.1.0"),
        ("1.3.0rc14", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc14", "1.3.0rc29"),
        ("tensorrt-llm/release:1.2.0", "nvcr.io/nvidia/tensorrt-llm/release:1.2.0", "1.2.0"),
        (
            "mirror.example.com:5000/nvidia/tritonserver:25.11-trtllm-python-py3",
            "mirror.example.com:5000/nvidia/tritonserver:25.11-trtllm-python-py3",
            "1.0.3.2510",
        ),
        ("27.01", "nvcr.io/nvidia/tritonserver:27.01-trtllm-python-py3", None),
        ("26.04-py3", "nvcr.io/nvidia/tritonserver:26.04-py3", None),
        ("mine:latest", "mine:latest", None),
        ("ghcr.io/team/serving", "ghcr.io/team/serving", None),
        ("nvcr.io/nvidia/tensorrt-llm/release", "nvcr.io/nvidia/tensorrt-llm/release", None),
        ("", "", None),
    ],
)
def test_every_spelling(text: str, full: str, version: str | None) -> None:
    release = release_of_image(text)
    assert full_image(text) == full
    assert (release.version if release else None) == version


def test_the_parts_of_a_name_with_a_port() -> None:
    assert image_tag("localhost:5000/tritonserver") == ("localhost:5000/tritonserver", "")
    assert image_tag("localhost:5000/tritonserver:26.04-py3") == ("localhost:5000/tritonserver", "26.04-py3")


@pytest.mark.parametrize(
    ("text", "plain"),
    [("26.04-py3", True), ("26.04-vllm-python-py3", True), ("26.04", False), ("mine:26.04-py3", False)],
)
def test_triton_images_without_tensorrt_llm(text: str, plain: bool) -> None:
    assert is_plain_triton(text) is plain
