"""Errors of skate.data under the names that Ray gives them.

A function of yours that fails raises its own error here, so that `except ValueError` works;
`UserCodeException` is Ray's wrapper around it, and never raised."""

from skate.data._blocks import MissingColumnError
from skate.data.preprocessor import PreprocessorNotFittedError
from skate.exceptions import UserCodeException

RayDataUserCodeException = UserCodeException

__all__ = [
    "MissingColumnError",
    "PreprocessorNotFittedError",
    "RayDataUserCodeException",
    "UserCodeException",
]
