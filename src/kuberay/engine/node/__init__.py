"""The node of local mode: runs Pods as processes in namespaces of their own, without root and without images.

Start reading at `agent.py` (what the Kubernetes API sees) or at `helper/` (what the Linux kernel sees).
"""
