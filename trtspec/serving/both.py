"""Whether both arms may be served at once, and on which ports."""

from __future__ import annotations

from collections.abc import Iterable

from trtspec.cores import usable_cores
from trtspec.errors import BuildError, CheckpointError, PairError
from trtspec.serving.plan import spec_ports
from trtspec.serving.ports import Ports
from trtspec.spec import ARMS, Arm, SpecFile
from trtspec.units import bytes_text

__all__ = ["OFFSET", "arm_ports", "endpoint_ports", "second_ports", "together"]

OFFSET = 10
_HIGHEST = 65535


def second_ports(ports: Ports, offset: int = OFFSET) -> Ports:
    """The second arm's ports: `offset` above the first's, or below where they would end."""
    step = offset if max(port for _, port in ports.items()) + offset <= _HIGHEST else -offset
    return Ports(*(port + step for _, port in ports.items()))


def arm_ports(spec_file: SpecFile) -> dict[Arm, list[tuple[str, int]]]:
    """(protocol, port) of each arm's server with its OpenAI-compatible endpoint, as `serve --both` starts them."""
    first = spec_ports(spec_file)
    openai = endpoint_ports(spec_file.spec.serving.openai_port, ARMS)
    return {
        arm: [*ports.items(), *([("openai", openai[arm])] if openai else [])]
        for arm, ports in zip(ARMS, (first, second_ports(first)), strict=True)
    }


def endpoint_ports(first: int | None, arms: Iterable[Arm]) -> dict[Arm, int]:
    """The port of each arm's OpenAI-compatible endpoint, the second one OFFSET higher; empty when `first` is none."""
    return {arm: first + index * OFFSET for index, arm in enumerate(arms)} if first else {}


def together(spec_file: SpecFile) -> str:
    """A note about serving both arms at once; PairError when the plan says that they do not fit, or cannot say it."""
    if spec_file.spec.runtime == "torch":
        cores = usable_cores()
        return f"both arms share {cores} cores: what they answer is right, how fast is not comparable with one alone"
    free = _free_bytes(spec_file)
    if free is None:
        raise PairError(
            "whether both arms fit at once is not known: no GPU is named and none was found",
            fix="set hardware.gpu and hardware.count in the spec, or serve one arm at a time",
        )
    if free < 0:
        raise PairError(
            f"both arms do not fit at once: {bytes_text(-free)} are missing on the fullest GPU, with the KV "
            "caches that the repository gives each arm",
            fix="serve one arm at a time (--arm), or the baseline by a spec of its own with other GPUs (target.gpus); "
            f"trtspec plan {spec_file.path} shows the memory",
        )
    return f"both arms share their GPUs, {bytes_text(free)} stay free: their speeds are not those of one alone"


def _free_bytes(spec_file: SpecFile) -> int | None:
    """Bytes left on the fullest GPU with both arms and their KV caches; None for GPUs that are not known."""
    from trtspec.repository.memory import arms_plan

    try:
        plan = arms_plan(spec_file)
    except (BuildError, CheckpointError) as error:
        raise PairError(f"whether both arms fit at once is not known: {error.message}", fix=error.fix) from None
    if plan.inputs.total is None:
        return None
    used: dict[int | str, int] = {}
    for arm in (plan.speculative, plan.baseline):
        for item in arm.per_gpu:
            used[item.gpu] = used.get(item.gpu, 0) + item.used
    return min(plan.inputs.total - taken for taken in used.values())
