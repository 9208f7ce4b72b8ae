"""The workers of a run: their group, its places, and a worker's own side of it."""
