"""An OpenAI-compatible endpoint over a running Triton: completions, chat completions, models, health, metrics.

It is a process of its own (`__main__`, with uvicorn); `openai_server` starts and ends it. Importing this package needs
nothing but the standard library; fastapi and uvicorn are the extra `trtspec[openai]`.
"""

from trtspec.openai_api.run import OpenaiServer, check_openai, openai_server
from trtspec.openai_api.settings import API_KEY, Settings

__all__ = ["API_KEY", "OpenaiServer", "Settings", "check_openai", "openai_server"]
