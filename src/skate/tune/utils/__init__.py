"""Nested dictionaries: flat and deep, merged and compared; checks before a long search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.tune.utils._checks import (
        diagnose_serialization,
        validate_save_restore,
        validate_warmstart,
        wait_for_gpu,
    )
    from skate.tune.utils.util import (
        date_str,
        deep_update,
        flatten_dict,
        merge_dicts,
        unflatten_dict,
        unflatten_list_dict,
        unflattened_lookup,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "date_str",
    "deep_update",
    "diagnose_serialization",
    "flatten_dict",
    "merge_dicts",
    "unflatten_dict",
    "unflatten_list_dict",
    "unflattened_lookup",
    "validate_save_restore",
    "validate_warmstart",
    "wait_for_gpu",
]
