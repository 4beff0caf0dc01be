"""The torch leaf engine: packed forward passes, in-flight batching, verification, prefix reuse."""
