"""The kinds of `ray.io` as the Kubernetes client wants to be told of them."""

from kuberay.kube.resources import Resource

RAY_CLUSTERS = Resource("ray.io", "v1", "rayclusters", "RayCluster")
