"""`ray.train._checkpoint`: names of what is temporary, or beside the content."""

from __future__ import annotations

from skate._run.checkpoint import METADATA_FILE
from skate._run.shared_copies import TEMPORARY_PREFIX, reader_file, reader_files

_CHECKPOINT_TEMP_DIR_PREFIX = TEMPORARY_PREFIX
_METADATA_FILE_NAME = METADATA_FILE
_get_del_lock_path = reader_file
_list_existing_del_locks = reader_files
