"""The kinds of `ray.io`, and of others beyond Kubernetes, as the Kubernetes client wants to be told of them."""

from kuberay.kube.resources import Resource

ROUTES = Resource("route.openshift.io", "v1", "routes", "Route")
RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")
