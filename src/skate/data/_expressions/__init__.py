"""Expressions on columns, and how they are computed."""
