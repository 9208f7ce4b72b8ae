"""What training and tuning share: configurations, checkpoints, results, storage, the session."""
