"""TensorRT-LLM releases, their images, flags and converters, and which of them is to be used."""
