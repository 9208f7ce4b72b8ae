"""The one `Result`."""

from skate._run.result import Result

__all__ = ["Result"]
