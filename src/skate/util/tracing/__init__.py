"""Functions for `init(_tracing_startup_hook=...)`, which export spans of OpenTelemetry."""
