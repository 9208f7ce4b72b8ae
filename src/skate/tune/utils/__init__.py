"""Nested dictionaries: flat and deep, merged and compared."""

from skate.tune.utils.util import (
    deep_update,
    flatten_dict,
    merge_dicts,
    unflatten_dict,
    unflatten_list_dict,
    unflattened_lookup,
)

__all__ = [
    "deep_update",
    "flatten_dict",
    "merge_dicts",
    "unflatten_dict",
    "unflatten_list_dict",
    "unflattened_lookup",
]
