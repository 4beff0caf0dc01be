"""From checkpoints to engines: content-addressed folders under engines/."""

from trtspec.building.engines import BuildSettings, BuiltEngine, build_engines, build_preview, engine_path
from trtspec.building.limits import derived_max_seq_len

__all__ = ["BuildSettings", "BuiltEngine", "build_engines", "build_preview", "derived_max_seq_len", "engine_path"]
