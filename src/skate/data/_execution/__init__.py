"""Running a plan: stages, the work inside a task, exchanges, batches."""
