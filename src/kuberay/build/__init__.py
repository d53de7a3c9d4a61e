"""What a spec becomes: Pods and Services as Kubernetes wants them. Pure, and the same for the same input."""
