"""One device against N replicas: `tfdp.verify`, ``tfdp verify`` and ``tfdp features``."""
