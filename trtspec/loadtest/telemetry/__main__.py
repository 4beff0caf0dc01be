"""The sampler: `python -m trtspec.loadtest.telemetry '{"metrics": {arm: URL}, "out": FILE, "interval": SECONDS}'`.

A process of its own, so that reading and parsing do not delay the clients' event loop. It ends when its standard input
does, that is also when the load test is killed.
"""

from __future__ import annotations

import json
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trtspec.loadtest.telemetry.gpu import GpuMeter
from trtspec.loadtest.telemetry.samples import gauges
from trtspec.loadtest.telemetry.scrape import fetch


def main() -> None:
    """Write a line for each arm and one for the GPUs every `interval` seconds, until standard input ends."""
    options = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    meter = GpuMeter()
    with Path(options["out"]).open("a", encoding="utf-8") as out:
        due = time.monotonic()
        while True:
            out.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in _look(options["metrics"], meter))
            out.flush()
            # a slow server does not make samples queue up
            due = max(due + options["interval"], time.monotonic() + options["interval"] / 4)
            if select.select([sys.stdin], [], [], due - time.monotonic())[0]:
                return


def _look(metrics: Mapping[str, str], meter: GpuMeter) -> Iterator[dict[str, Any]]:
    for arm, url in metrics.items():
        scrape = fetch(url)
        if found := gauges(scrape):
            yield {"t_ns": scrape.t_ns, "arm": arm, "gauges": found}
    if rows := meter.read():
        yield {"t_ns": rows[0]["t_ns"], "gpus": rows}


if __name__ == "__main__":
    main()
