"""The Triton model repository of each arm: config.pbtxt and model files, generated and regenerated."""

from trtspec.repository.generate import GeneratedRepository, generate, preview
from trtspec.repository.sync import is_generated
from trtspec.repository.versions import VersionChoice

__all__ = ["GeneratedRepository", "VersionChoice", "generate", "is_generated", "preview"]
