"""The kinds of `ray.io`, and of others beyond Kubernetes, as the Kubernetes client wants to be told of them."""

from kuberay.kube.resources import Resource

ROUTES = Resource("route.openshift.io", "v1", "routes", "Route")
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")

CONTROLLED = (RAY_CLUSTERS,)
"""Those of `ray.io` that have a controller: the others may be stored, and nothing happens to them."""
