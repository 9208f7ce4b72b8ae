"""The formats that a Trainable may export its model in."""

from __future__ import annotations

from collections.abc import Iterable

from skate.tune.error import TuneError


class ExportFormat:
    """Names for `export_formats`; what they mean is up to the Trainable's `_export_model`."""

    CHECKPOINT = "checkpoint"
    MODEL = "model"
    ONNX = "onnx"
    H5 = "h5"

    @staticmethod
    def validate(formats: Iterable[str]) -> None:
        """Raise TuneError if one of the formats is unknown."""
        known = (
            ExportFormat.CHECKPOINT,
            ExportFormat.MODEL,
            ExportFormat.ONNX,
            ExportFormat.H5,
        )
        unknown = [name for name in formats if name.strip().lower() not in known]
        if unknown:
            raise TuneError(f"export formats are {list(known)}; got {unknown}")
