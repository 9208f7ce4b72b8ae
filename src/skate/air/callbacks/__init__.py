"""Trackers of experiments, under their first path."""
