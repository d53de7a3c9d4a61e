"""RayClusters: a head, its Service, groups of workers, and a status that tells the truth."""
