"""The operator: one process that keeps RayClusters as their users want them, on any Kubernetes API."""
