"""The Triton model repository of each arm: config.pbtxt and model files, generated and regenerated."""

from trtspec.repository.generate import GeneratedRepository, generate, preview
from trtspec.repository.sync import is_generated

__all__ = ["GeneratedRepository", "generate", "is_generated", "preview"]
