"""Errors of skate.data under the names that Ray gives them.

A function of yours that fails raises its own error, so that `except ValueError` works; it is also
a `TaskError`, and therefore a `UserCodeException`, which is what Ray wraps it in.
"""

from skate._core.public_names import name_publicly
from skate.data._arrow.blocks import MissingColumnError
from skate.data._arrow.undecodable import UndecodableTextError
from skate.data._execution.udf import FunctionTypeError
from skate.data._io.resumable import (
    NotRepeatableError,
    PlanChangedError,
    ResumeError,
    WriteUnderWayError,
)
from skate.data.preprocessor import PreprocessorNotFittedError
from skate.exceptions import UntrustedPickleError, UserCodeException

RayDataUserCodeException = UserCodeException

__all__ = [
    "FunctionTypeError",
    "MissingColumnError",
    "NotRepeatableError",
    "PlanChangedError",
    "PreprocessorNotFittedError",
    "RayDataUserCodeException",
    "ResumeError",
    "UndecodableTextError",
    "UntrustedPickleError",
    "UserCodeException",
    "WriteUnderWayError",
]

name_publicly(__name__)
