"""`python -m trtspec.deploy` writes docs/metrics.md and dashboards/trtspec.json of the repository it is run in."""

from pathlib import Path

from trtspec.deploy.documents import write_monitoring

write_monitoring(Path.cwd())
