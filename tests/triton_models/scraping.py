"""Prometheus text, read just far enough for the tests and the soak."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
_LINE = re.compile(r"^([a-z_]+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'([a-z]+)="([^"]*)"')


def scrape(url: str) -> Samples:
    """The trtspec series at `url`."""
    with urllib.request.urlopen(url, timeout=30) as response:
        lines = response.read().decode().splitlines()
    found = [match for line in lines if line.startswith("trtspec_") and (match := _LINE.match(line))]
    return {(match[1], frozenset(_LABEL.findall(match[2]))): float(match[3]) for match in found}


def total(samples: Samples, name: str, **labels: str) -> float:
    """The sum over the series `name` with these labels."""
    return sum(value for (known, found), value in samples.items() if known == name and labels.items() <= found)


def settled(url: str, done: Callable[[Samples], bool], seconds: float = 10.0) -> Samples:
    """The first scrape that is `done`, or the last one."""
    end = time.monotonic() + seconds
    while not done(samples := scrape(url)) and time.monotonic() < end:
        time.sleep(0.2)
    return samples
