"""What pages of ours are made of: templates, style sheet, scripts, all inlined."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["asset", "environment", "plotly_js"]

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


def plotly_js() -> Any:
    """Plotly's script, fit to stand inside a page."""
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs().replace("</script", "<\\/script"))  # noqa: S704 - plotly's own bundle
