"""Trainers, under their first path."""
