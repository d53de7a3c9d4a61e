"""Parts that stand in for a cluster's own: for tests, benchmarks and, later, the deterministic simulator."""
