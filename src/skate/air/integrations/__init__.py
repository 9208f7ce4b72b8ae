"""Trackers of experiments."""
