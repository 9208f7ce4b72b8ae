"""`ray.util.state.exception`, for those who catch them: here no service can be out of reach."""

# ruff: noqa: N818 - the names are Ray's

from __future__ import annotations

from skate.util._state_rows import StateQueryError


class DataSourceUnavailable(Exception):
    """A machine of the cluster does not answer."""


RayStateApiException = StateQueryError


class ServerUnavailable(RayStateApiException):
    """The dashboard of a cluster does not answer."""
