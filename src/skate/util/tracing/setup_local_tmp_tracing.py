"""Spans as lines of JSON, in files of the folder for temporary ones: one for each process."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from skate._core.optional_imports import try_import
from skate._core.private_files import is_private_folder, make_private_folder

spans_dir = os.path.join(tempfile.gettempdir(), "spans", "")
_paths: set[str] = set()  # of files that are written to; a forked process has another


def setup_tracing() -> None:
    """Write the spans of this process to a file of its own in `spans_dir`.

    For the second session of a process, everything is there already.

    Raises:
        PermissionError: If others may write to that folder: they could have links in it.

    Example:
        >>> hook = "skate.util.tracing.setup_local_tmp_tracing:setup_tracing"
        >>> with skate.init(_tracing_startup_hook=hook):
        ...     skate.get(skate.remote(abs).remote(-1))
        1
    """
    path = os.path.join(spans_dir, f"{os.getpid()}.txt")
    if path in _paths:
        return
    trace = try_import("opentelemetry.trace", "tracing")
    sdk = try_import("opentelemetry.sdk.trace", "tracing")
    export = try_import("opentelemetry.sdk.trace.export", "tracing")
    folder = spans_dir.rstrip(os.sep)
    make_private_folder(folder)
    if not is_private_folder(folder):
        raise PermissionError(
            f"spans are not written to {folder!r}, which is not this user's alone: remove it, or "
            "set TMPDIR to another folder"
        )
    if not isinstance(trace.get_tracer_provider(), sdk.TracerProvider):
        trace.set_tracer_provider(sdk.TracerProvider())
    file = open(path, "a")  # noqa: SIM115  # until the process ends
    exporter = export.ConsoleSpanExporter(out=file, formatter=_line)
    trace.get_tracer_provider().add_span_processor(export.SimpleSpanProcessor(exporter))
    _paths.add(path)


def _line(span: Any) -> str:
    return str(span.to_json(indent=None)) + os.linesep
