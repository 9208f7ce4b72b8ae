"""Blocks and columns: Arrow tables, tensors, types, and the border that foreign tables cross."""
