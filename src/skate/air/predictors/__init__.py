"""Predictors, under their first path."""
