"""What training loops call, under one more path."""

from skate._run.session import get_checkpoint, get_context, get_dataset_shard, report

__all__ = ["get_checkpoint", "get_context", "get_dataset_shard", "report"]
