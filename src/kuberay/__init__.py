"""kuberay: Ray on Kubernetes, and on one machine without it."""

__version__ = "0.2.0"
