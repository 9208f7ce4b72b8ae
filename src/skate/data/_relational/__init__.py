"""Runs of relational operations as plans of Polars, whose engine is made for them."""
