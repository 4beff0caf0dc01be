"""The table of releases against NVIDIA's compatibility matrix, written down a second time here."""

from __future__ import annotations

import pytest

from trtspec.cli.failures import exit_code
from trtspec.errors import VersionUnsupported
from trtspec.toolchain.releases import (
    FEATURES,
    REFERENCE,
    RELEASES,
    find_release,
    images_for,
    is_supported,
    minor_of,
    release_of_image,
    same_release,
    sm_caution,
    supports_sm,
)
from trtspec.toolchain.table import ENGINE_TOOLS

# triton-inference-server/server docs/introduction/compatibility.md: image → TensorRT-LLM, TensorRT, CUDA, driver
MATRIX = {
    "26.07": ("1.2.1", "10.14.1.48", "13.1.0.036", "590.44.01"),
    "26.06": ("1.2.1", "10.14.1.48", "13.1.0.036", "590.44.01"),
    "26.05": ("1.2.1", "10.14.1.48", "13.1.0.036", "590.44.01"),
    "26.04": ("1.2.1", "10.14.1.48", "13.1.0.036", "590.44.01"),
    "26.03": ("1.2.0", "10.14.1.48", "13.1.0.036", "590.44.01"),
    "26.02": ("1.1.0", "10.13.3.9", "13.0.2.006", "580.95.05"),
    "26.01": ("1.1.0", "10.13.3.9", "13.0.2.006", "580.95.05"),
    "25.12": ("1.1.0", "10.13.3.9", "13.0.2.006", "580.95.05"),
    "25.11": ("1.0.3.2510", "10.13.3.9", "13.0.2.006", "580.95.05"),
    "25.10": ("1.0.0", "10.11.0.33", "12.9.1.010", "575.57.08"),
    "25.09": ("1.0.0", "10.11.0.33", "12.9.1.010", "575.57.08"),
    "25.08": ("0.21.0", "10.11.0.33", "12.9.0.043", "575.51.03"),
    "25.07": ("0.20.0", "10.10.0.31", "12.9.0.036", "575.51.03"),
    "25.06": ("0.20.0", "10.10.0.31", "12.9.0.036", "575.51.03"),
    "25.05": ("0.19.0", "10.9.0.34", "12.8.1.012", "570.124.06"),
    "25.04": ("0.18.2", "10.9.0.34", "12.8.1.012", "570.124.06"),
    "25.03": ("0.18.0", "10.9.0.34", "12.8.1.012", "570.124.06"),
    "25.02": ("0.17.0.post1", "10.8.0.43", "12.8.0.038", "570.86.10"),
    "25.01": ("0.17.0", "10.8.0.43", "12.8.0.038", "570.86.10"),
    "24.12": ("0.16.0", "10.7.0", "12.6.3", "560.35.05"),
}


@pytest.mark.parametrize("month", MATRIX)
def test_every_image_of_the_matrix(month: str) -> None:
    release = release_of_image(month)
    assert release is not None
    assert (release.version, release.tensorrt, release.cuda, release.driver) == MATRIX[month]


def test_no_image_is_missing_or_in_two_releases() -> None:
    images = [month for release in RELEASES for month in release.images]
    assert sorted(images) == sorted(MATRIX)
    assert all(list(release.images) == sorted(release.images, reverse=True) for release in RELEASES)


def test_features_are_known_words_and_engines_end_with_1_2() -> None:
    assert all(release.features <= FEATURES.keys() for release in RELEASES)
    without = [release.version for release in RELEASES if not release.features >= ENGINE_TOOLS]
    assert without == ["1.4.0rc4", "1.3.0rc29"]
    assert not any(is_supported(version) for version in without)
    pydantic = [release.version for release in RELEASES if "pydantic_build_config" in release.features]
    assert pydantic == ["1.2.1", "1.2.0"]


@pytest.mark.parametrize(
    ("version", "minor", "row"),
    [
        ("1.2.1", "1.2", "1.2.1"),
        ("1.2", "1.2", "1.2.1"),
        ("v1.2.0", "1.2", "1.2.0"),
        ("1.2.0rc6", "1.2", "1.2.0"),
        ("1.2.0.post1", "1.2", "1.2.0"),
        ("1.2.1+cu130", "1.2", "1.2.1"),
        ("1.2.7", "1.2", "1.2.1"),
        ("1.1.0rc2.post2", "1.1", "1.1.0"),
        ("1.1", "1.1", "1.1.0"),
        ("1.0.0", "1.0", "1.0.0"),
        ("1.0.1", "1.0", "1.0.0"),
        ("1.0.3", "1.0", "1.0.3.2510"),
        ("1.0.3.2510", "1.0", "1.0.3.2510"),
    ],
)
def test_supported_versions_and_the_row_that_stands_for_them(version: str, minor: str, row: str) -> None:
    assert is_supported(version)
    assert minor_of(version) == minor
    assert find_release(version).version == row


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.3.0rc1", "removed in its release candidates"),
        ("1.3.0", "removed in its release candidates"),
        ("1.3.0.dev1", "removed in its release candidates"),
        ("1.4.0rc4", "removed in its release candidates"),
        ("2.0", "removed in its release candidates"),
        ("1.0.0rc3", "older than"),
        ("0.21.0", "older than"),
        ("0.9", "older than"),
        ("latest", "is not a version"),
        ("", "is not a version"),
        pytest.param("9" * 5000, r"'9{5,20}\.\.\.9+' is not a version", id="endless"),
    ],
)
def test_other_versions_are_refused_with_the_reason_and_a_way_out(version: str, words: str) -> None:
    with pytest.raises(VersionUnsupported, match=words) as caught:
        minor_of(version)
    assert caught.value.version == version
    assert REFERENCE in (caught.value.fix or "")
    assert exit_code(caught.value) == 3


@pytest.mark.parametrize("version", ["0.14", "3.1", "main"])
def test_a_version_without_a_row_is_refused(version: str) -> None:
    with pytest.raises(VersionUnsupported):
        find_release(version)


@pytest.mark.parametrize(
    ("version", "months"),
    [
        ("1.1.0", ["26.02", "26.01", "25.12"]),
        ("1.2.0", ["26.03"]),
        ("1.2", ["26.07", "26.06", "26.05", "26.04"]),
        ("1.0.3.2510", ["25.11"]),
        ("1.2.0rc6", []),
        ("1.2.0.post1", []),
        ("1.3.0rc29", []),
        ("0.14", []),
    ],
)
def test_images_that_carry_a_version(version: str, months: list[str]) -> None:
    assert list(images_for(version)) == [f"nvcr.io/nvidia/tritonserver:{month}-trtllm-python-py3" for month in months]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1.2.1", "1.2.1", True),
        ("1.2.1+cu130", "1.2.1", True),
        ("1.2", "1.2.0", True),
        ("1.0.3", "1.0.3.2510", True),
        ("1.2.0", "1.2.1", False),
        ("1.2.0rc6", "1.2.0", False),
        ("1.2rc1", "1.2.0", False),
        ("1.2.0", "1.2.0.post1", False),
        ("1.1", "1.2.0", False),
    ],
)
def test_engines_load_only_in_their_own_release(one: str, other: str, same: bool) -> None:
    assert same_release(one, other) is same
    assert same_release(other, one) is same


@pytest.mark.parametrize(
    ("version", "sm", "words"),
    [
        ("0.20.0", 100, "no attention kernels for speculative decoding"),  # NVIDIA/TensorRT-LLM#6158
        ("0.21.0", 120, "no attention kernels for speculative decoding"),
        ("1.0.0", 103, "needs TensorRT-LLM 1.1"),
        ("1.2.1", 75, "begin at SM 80"),
        ("1.2.1", 70, "dropped"),
        ("1.2.1", 110, "not in TensorRT-LLM's support matrix"),
    ],
)
def test_architectures_that_a_release_has_no_speculation_for(version: str, sm: int, words: str) -> None:
    reason = supports_sm(version, sm)
    assert reason is not None
    assert words in reason
    assert f"SM {sm}" in reason
    assert sm_caution(version, sm) is None


@pytest.mark.parametrize("sm", [80, 86, 89, 90])
@pytest.mark.parametrize("version", ["1.0.0", "1.1.0", "1.2.1"])
def test_ampere_to_hopper_are_fine(version: str, sm: int) -> None:
    assert supports_sm(version, sm) is None
    assert sm_caution(version, sm) is None


@pytest.mark.parametrize("sm", [100, 103, 120])
def test_blackwell_is_allowed_with_a_caution(sm: int) -> None:
    assert supports_sm("1.2.1", sm) is None
    assert "#6158" in (sm_caution("1.2.1", sm) or "")
