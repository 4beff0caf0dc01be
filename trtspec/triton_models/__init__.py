"""The model.py files that land in the model repository (run inside Triton's Python backend)."""
