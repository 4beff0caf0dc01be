"""What is asked of the engine of a role: everything that its commands are made from, out of metadata alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trtspec.building.limits import derived_max_seq_len
from trtspec.building.tensorrt.extra_flags import extra_argv, extra_flag_problems
from trtspec.building.tensorrt.precision import Precision, precision_problems, resolve_precision
from trtspec.building.tensorrt.refusal import refusal
from trtspec.checkpoints.config import ModelConfig, read_config
from trtspec.checkpoints.parallel import group_of, nearest_tps, pp_misfit, tp_misfits
from trtspec.errors import Problem, SpecError
from trtspec.rules.facts import family_of
from trtspec.spec import ModelSource, Role, SpecFile
from trtspec.spec.model import BuildOptions, Calibration
from trtspec.toolchain.detect import Toolchain
from trtspec.toolchain.families import Family
from trtspec.toolchain.sizes import Sizes, engine_sizes

__all__ = ["EngineRequest", "engine_request", "engine_requests", "request_problems"]

_LOCAL_DATASETS = ("cnn_dailymail", "pileval", "scienceqa", "science_qa")


@dataclass(frozen=True)
class EngineRequest:
    """One engine: the checkpoint, its family, precision, ranks and sizes, and the release that builds it.

    `root` is the spec's folder, `folder` the checkpoint's; `family` names its `converter`; `workers` are the ranks that
    can be compiled at the same time.
    """

    role: Role
    root: Path
    folder: Path
    config: ModelConfig
    architecture: str
    family: str
    converter: Family
    precision: Precision
    quantization: str
    tp: int
    pp: int
    sizes: Sizes
    minor: str
    calibration: Calibration
    build: BuildOptions
    workers: int

    @property
    def dtype(self) -> str:
        """Computation type, never auto."""
        return self.precision.dtype

    @property
    def quant_algo(self) -> str | None:
        """TensorRT-LLM's name of the weights' quantization, as the engine's config.json will have it."""
        return self.precision.quant_algo

    @property
    def kv_cache_dtype(self) -> str | None:
        """TensorRT-LLM's name of the KV cache's quantization (FP8); None: it has the computation type."""
        return self.precision.kv_quant_algo

    @property
    def world_size(self) -> int:
        """Ranks: tp × pp."""
        return self.tp * self.pp

    @property
    def logits_dtype(self) -> str:
        """Precision of the logits, never auto."""
        return "float32" if self.build.logits_dtype == "auto" else self.build.logits_dtype

    @property
    def fast_build(self) -> bool:
        """True when the engine's weights go into files of their own, however the spec spells --fast_build."""
        return bool(extra_argv(self.build.extra_flags, self.minor).get("--fast_build"))


def engine_request(spec_file: SpecFile, role: Role, toolchain: Toolchain) -> EngineRequest:
    """The request for a role's engine; the weights need not be there.

    SpecError lists everything that makes the engine impossible; CheckpointError when config.json cannot be read.
    """
    return engine_requests(spec_file, (role,), toolchain)[0]


def engine_requests(spec_file: SpecFile, roles: Sequence[Role], toolchain: Toolchain) -> tuple[EngineRequest, ...]:
    """The requests of several roles, or SpecError with the problems of all of them."""
    configs = {role: read_config(spec_file.checkpoint(role)) for role in roles}
    length = derived_max_seq_len(spec_file)
    problems = [
        *(problem for role in roles for problem in request_problems(spec_file, role, configs[role])),
        *_shared_problems(spec_file, configs, toolchain.minor, length),
    ]
    if problems:
        raise SpecError(str(spec_file.path), list(dict.fromkeys(problems)))
    return tuple(_request(spec_file, role, configs[role], toolchain, length) for role in roles)


def _request(
    spec_file: SpecFile, role: Role, config: ModelConfig, toolchain: Toolchain, max_seq_len: int
) -> EngineRequest:
    spec, source = spec_file.spec, spec_file.source(role)
    family = family_of(config)
    assert family is not None
    assert config.architecture is not None
    gpus = spec.hardware.count if spec.hardware is not None else source.world_size
    return EngineRequest(
        role=role,
        root=spec_file.root,
        folder=spec_file.checkpoint(role),
        config=config,
        architecture=config.architecture,
        family=family.name,
        converter=family,
        precision=resolve_precision(config, source, family),
        quantization=source.quantization,
        tp=source.tp,
        pp=source.pp,
        sizes=engine_sizes(spec, role, max_seq_len),
        minor=toolchain.minor,
        calibration=spec.calibration,
        build=spec.build,
        workers=min(source.world_size, gpus),
    )


def request_problems(spec_file: SpecFile, role: Role, config: ModelConfig) -> Iterator[Problem]:
    """Why the engine of a role cannot be built, each with the spec's field and a way out."""
    source = spec_file.source(role)
    section = "draft" if role == "draft" else "target"
    family = family_of(config)
    if family is None:
        refused = refusal(config.architecture)
        assert refused is not None
        yield Problem(f"{section}.checkpoint", refused.why, refused.fix)
        return
    if _is_gguf(spec_file.checkpoint(role)):
        message = "holds a GGUF file; TensorRT-LLM's converters read safetensors"
        yield Problem(f"{section}.checkpoint", message, "use the checkpoint that it was made from")
    yield from _parallel_problems(section, config, source, family)
    yield from precision_problems(section, config, source, family)
    yield from _family_problems(section, config, source, family)


def _is_gguf(folder: Path) -> bool:
    suffixes = {path.suffix for path in folder.iterdir()}
    return ".gguf" in suffixes and ".safetensors" not in suffixes


def _parallel_problems(section: str, config: ModelConfig, source: ModelSource, family: Family) -> Iterator[Problem]:
    group = group_of(config, source.quantization)
    near = nearest_tps(config, source.tp, group)
    for misfit in tp_misfits(config, source.tp, group):
        hint = f"write tp: {' or '.join(map(str, near))}" if near else "no tp fits this quantization"
        yield Problem(f"{section}.tp", str(misfit), hint)
    if source.pp > 1 and not family.pipeline:
        message = f"the converter for {family.name} makes no pipeline stages"
        yield Problem(f"{section}.pp", message, f"write pp: 1 and tp: {source.tp * source.pp}")
    elif reason := pp_misfit(config, source.pp):
        yield Problem(f"{section}.pp", reason, f"write at most {config.layers}")


def _family_problems(section: str, config: ModelConfig, source: ModelSource, family: Family) -> Iterator[Problem]:
    if family.name == "nemotron_nas" and not source.trust_remote_code:
        message = "this family's converter runs Python code from the checkpoint folder, and refuses to without consent"
        yield Problem(f"{section}.trust_remote_code", message, "write trust_remote_code: true if you trust it")
    if family.name == "baichuan" and config.hidden not in (4096, 5120):
        message = f"a Baichuan of hidden size {config.hidden} is none that the converter knows (7B, 13B)"
        yield Problem(f"{section}.checkpoint", message)


def _shared_problems(
    spec_file: SpecFile, configs: dict[Role, ModelConfig], minor: str, length: int
) -> Iterator[Problem]:
    spec = spec_file.spec
    architectures: dict[str, str | None] = {role: config.architecture for role, config in configs.items()}
    yield from extra_flag_problems(spec.build.extra_flags, minor, architectures)
    longest = spec.build.max_input_len
    if longest is not None and longest >= length:
        message = f"{longest} leaves no room for an answer: max_seq_len is {length} (derived from the checkpoints)"
        yield Problem("build.max_input_len", message, f"write at most {length - 1}, or a larger build.max_seq_len")
    if (reason := _dataset_problem(spec_file)) is not None:
        yield Problem("calibration.dataset", reason, "give a folder with a train split and a text column")


def _dataset_problem(spec_file: SpecFile) -> str | None:
    """quantize.py loads a folder, or a data set with one of a few names (quantize_by_modelopt.py)."""
    dataset = spec_file.spec.calibration.dataset
    if dataset is None or any(name in dataset.lower() for name in _LOCAL_DATASETS):
        return None
    if (spec_file.root / Path(dataset).expanduser()).is_dir():
        return None
    return f"{dataset} is neither a folder nor one that the quantizer knows ({', '.join(_LOCAL_DATASETS[:3])})"
