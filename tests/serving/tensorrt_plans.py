"""Starts of deployments with TensorRT engines, written so that they can be compared with golden files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from tests.repository.tensorrt import layout_spec
from trtspec.repository import generate
from trtspec.serving import LaunchPlan, Ports, ServeOptions, launch_plan
from trtspec.serving.security import AdminKey
from trtspec.serving.ways import Host
from trtspec.spec import ARMS, Arm, SpecFile

__all__ = ["GOLDEN", "HOST", "LAYOUTS", "PORTS", "deployed", "plan_of", "plan_text"]

GOLDEN = Path(__file__).parent / "data" / "starts"
LAYOUTS = ("tp1-tp1", "tp4-tp1", "fast-logits")
PORTS = Ports(8000, 8001, 8002)
# NVIDIA's image 26.04, with docker beside it
HOST = Host(Path("/opt/tritonserver/bin/tritonserver"), True, True, True, "26.04", "1.2.1")


def deployed(folder: Path, layout: str) -> SpecFile:
    """A spec with engines of TensorRT-LLM 1.2.1 and its generated repositories."""
    spec_file = layout_spec(folder, "1.2", layout)
    generate(spec_file)
    return spec_file


def plan_of(spec_file: SpecFile, arm: Arm = "speculative", **options: Any) -> LaunchPlan:
    """The arm's start on `HOST` as `trtspec serve` would make it, with a known key."""
    chosen: dict[str, Any] = {"managed": True, "host": HOST, "admin": AdminKey("KEY"), **options}
    return launch_plan(spec_file, arm, PORTS, log=spec_file.root / "log", options=ServeOptions(**chosen))


def plan_text(plan: LaunchPlan, root: Path) -> str:
    """Environment, command line (a word or a flag with its value a line), and the order of loading."""
    lines = [f"{name}={value}" for name, value in plan.env.items()]
    text = " ".join(shlex.quote(word) for word in plan.argv)
    text = re.sub(r" (-|:|nvcr)", r"\n  \1", text)
    lines += [text, f"# load: {' '.join(plan.load_order) or '-'}", f"# {plan.start.why if plan.start else '-'}"]
    shown = "\n".join(lines).replace(str(root), "/spec")
    shown = re.sub(r"-u \d+:\d+", "-u UID:GID", shown)
    shown = re.sub(r"trtspec-[0-9a-f]{12}-", "trtspec-PREFIX-", shown)
    return re.sub(r"(trtspec-pair-\w+)-[0-9a-f]{8}", r"\1-NAME", shown) + "\n"


def _write_golden() -> None:
    import tempfile

    GOLDEN.mkdir(parents=True, exist_ok=True)
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory() as folder:
            spec_file = deployed(Path(folder), layout)
            for way in ("path", "docker"):
                for arm in ARMS:
                    text = plan_text(plan_of(spec_file, arm, way=way), spec_file.root)
                    (GOLDEN / f"{layout}-{way}-{arm}.txt").write_text(text)


if __name__ == "__main__":  # python -m tests.serving.tensorrt_plans, on purpose only
    _write_golden()
