"""`ray.train.lightning._lightning_utils`: Lightning itself, from whichever package it is."""

from skate.train.lightning._package import lightning_module as import_lightning

__all__ = ["import_lightning"]
