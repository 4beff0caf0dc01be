from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import toy_spec
from tests.building.tensorrt.gpu_box import make_gpu_box
from tests.repository.tensorrt import large, layout_spec, tensorrt_spec
from trtspec.building import build_engines
from trtspec.errors import PairError
from trtspec.serving import Ports, second_ports, together


@pytest.mark.parametrize(
    ("ports", "second"),
    [
        (Ports(8000, 8001, 8002), Ports(8010, 8011, 8012)),
        (Ports(65530, 65531, 65532), Ports(65520, 65521, 65522)),
    ],
)
def test_ports_of_the_second_arm(ports: Ports, second: Ports) -> None:
    assert second_ports(ports) == second


def test_torch_models_always_go_together(tmp_path: Path) -> None:
    assert "cores" in together(toy_spec(tmp_path))


def test_caches_that_fill_the_gpus_leave_no_room_for_the_other_arm(tmp_path: Path) -> None:
    with pytest.raises(PairError, match=r"do not fit at once: .* are missing") as caught:
        together(layout_spec(tmp_path, "1.2", "shared-gpu"))
    assert caught.value.fix


def test_of_checkpoints_and_of_the_engines_built_from_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = make_gpu_box(tmp_path, monkeypatch, hardware={"gpu": "H100-80GB-SXM", "count": 1})
    for _ in range(2):
        with pytest.raises(PairError, match=r"do not fit at once: .* are missing"):
            together(box.spec_file)
        build_engines(box.spec_file)


def test_without_a_gpu_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(PairError, match="is not known"):
        together(large(tensorrt_spec(tmp_path)))
