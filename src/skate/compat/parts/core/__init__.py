"""`ray._private`, `ray._common`, and what else of Ray's core programs use."""
