"""The controllers that a Kubernetes control plane runs and Ray relies on: each one small, over the API only."""

from kuberay.engine.loops.claims import Claims
from kuberay.engine.loops.endpoints import EndpointSlices
from kuberay.engine.loops.garbage import GarbageCollector
from kuberay.engine.loops.jobs import Jobs
from kuberay.engine.loops.namespaces import Namespaces
from kuberay.engine.loops.scheduler import Scheduler

__all__ = ["Claims", "EndpointSlices", "GarbageCollector", "Jobs", "Namespaces", "Scheduler"]
