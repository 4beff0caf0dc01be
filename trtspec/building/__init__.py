"""From checkpoints to engines: content-addressed folders under engines/."""

from trtspec.building.engines import BuiltEngine, build_engines, engine_path
from trtspec.building.limits import derived_max_seq_len

__all__ = ["BuiltEngine", "build_engines", "derived_max_seq_len", "engine_path"]
