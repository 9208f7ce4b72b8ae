"""The local engine: processes and shared memory on one machine, scheduled from the driver.

`engine.LocalEngine` is the driver's side, `worker.WorkerEngine` a worker's; `hub` is the scheduler
between them. ARCHITECTURE.md draws the paths. Nothing is imported here: fork servers and workers
want only their part.
"""
