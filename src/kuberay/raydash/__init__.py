"""Ray's own HTTP interface, as the dashboard of a head serves it.

It knows nothing of Kubernetes: a base address goes in, answers come out as values. Jobs and Serve are added with the
kinds that need them.
"""

from kuberay.raydash.client import Dashboard, Node
from kuberay.raydash.errors import DashboardError, Refused, Unreachable

__all__ = ["Dashboard", "DashboardError", "Node", "Refused", "Unreachable"]
