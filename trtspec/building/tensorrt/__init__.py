"""TensorRT engines: what to run for a role, and running it."""
