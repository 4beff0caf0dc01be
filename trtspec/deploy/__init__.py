"""What runs beside a deployment: the description of its metrics and a dashboard for them."""

from trtspec.deploy.dashboard import dashboard
from trtspec.deploy.documents import monitoring_documents, write_monitoring
from trtspec.deploy.metrics_document import metrics_document

__all__ = ["dashboard", "metrics_document", "monitoring_documents", "write_monitoring"]
