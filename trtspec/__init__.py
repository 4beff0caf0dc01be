"""trtspec: does speculative decoding pay for these models on this hardware, and how to ship it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
