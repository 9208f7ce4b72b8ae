"""Aggregations: what one is, and those that look at single values."""
