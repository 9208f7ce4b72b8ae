"""`ray.train._checkpoint`: how the names of temporary folders of checkpoints begin."""

from __future__ import annotations

from skate._run.checkpoint import TEMPORARY_PREFIX

_CHECKPOINT_TEMP_DIR_PREFIX = TEMPORARY_PREFIX
