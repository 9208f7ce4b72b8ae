"""Queues of tasks: what an adapter has to do, and Celery's."""
