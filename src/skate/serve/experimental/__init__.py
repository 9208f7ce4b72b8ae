"""Routers that a deployment can name, besides the usual one; Ray has them here as well."""

from __future__ import annotations
