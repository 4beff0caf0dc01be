"""What the servers and their GPUs say about a load test, beside what the clients saw."""

from trtspec.loadtest.telemetry.collector import Source, Telemetry, metrics_address
from trtspec.loadtest.telemetry.samples import read_samples
from trtspec.loadtest.telemetry.section import server_section

__all__ = ["Source", "Telemetry", "metrics_address", "read_samples", "server_section"]
