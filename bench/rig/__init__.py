"""What the operator is measured with: a real kube-apiserver, a kubelet and a load beside it, and counters."""
