"""NetworkPolicies of RayClusters: a controller of its own, so that a cluster is closed whatever else goes wrong."""
