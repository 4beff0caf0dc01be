"""What pages of ours are made of: templates, style sheet, scripts, all inlined."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["asset", "environment", "plotly_data"]

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Any:
    """Jinja over our templates; everything is escaped, and an undefined name is an error."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> Any:
    """A file of ours that goes into the page as it is."""
    from markupsafe import Markup

    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 - our own style sheet and script


@cache
def plotly_data() -> str:
    """Plotly's script, gzipped and in base64: 2 MB of a page instead of 5; the page unpacks it (report.js)."""
    from base64 import b64encode
    from gzip import compress

    from plotly.offline import get_plotlyjs

    return b64encode(compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)).decode()
