"""Its name until Ray 2.5; see skate.tune.search.basic_variant."""

from skate.tune.search.basic_variant import BasicVariantGenerator

__all__ = ["BasicVariantGenerator"]
