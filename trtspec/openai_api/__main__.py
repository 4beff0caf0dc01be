"""The endpoint's process: `python -m trtspec.openai_api SETTINGS` (`Settings.to_text`), until SIGTERM."""

from __future__ import annotations

import os
import sys

import uvicorn

from trtspec.openai_api.app import make_app
from trtspec.openai_api.settings import API_KEY, Settings

_PROBES = 64  # connections beyond the requests': health, metrics, clients that are told to come back


def main() -> None:
    """Serve; on SIGTERM the requests in flight get `exit_wait` seconds to finish."""
    settings = Settings.from_text(sys.argv[1])
    uvicorn.run(
        make_app(settings, api_key=os.environ.get(API_KEY, "")),
        host=settings.host,
        port=settings.port,
        access_log=False,
        # connections: a body is read before its request is counted as running
        limit_concurrency=2 * settings.max_running + _PROBES,
        server_header=False,
        timeout_graceful_shutdown=settings.exit_wait,
    )


if __name__ == "__main__":
    main()
