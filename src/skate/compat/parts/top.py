"""Names of `ray` itself that skate does without.

No `__all__` here: `from ray import *` means that of skate.
"""

from __future__ import annotations

import enum
import logging

from skate.client_builder import ClientBuilder as ClientBuilder
from skate.compat._finder import RAY_VERSION
from skate.compat.parts.core.worker import LOCAL_MODE as LOCAL_MODE
from skate.compat.parts.core.worker import SCRIPT_MODE as SCRIPT_MODE
from skate.compat.parts.core.worker import WORKER_MODE as WORKER_MODE

__version__ = RAY_VERSION
__commit__ = "skate"

logger = logging.getLogger("skate")


class Language(enum.Enum):
    """The languages of Ray's tasks; skate runs Python."""

    PYTHON = 0
    JAVA = 1
    CPP = 2
