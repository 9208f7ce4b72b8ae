"""`ray.air._internal.uri_utils`: addresses of folders that can be gone up and down."""

from __future__ import annotations

import posixpath
from pathlib import Path
from urllib.parse import urlparse


class URI:
    """`scheme://place/folder?options`, or a path; `/` goes down and `parent` up."""

    def __init__(self, uri: str) -> None:
        self._parts = urlparse(uri)
        place = self._parts.netloc + self._parts.path if self.scheme else uri
        self._path = posixpath.normpath(place)

    @property
    def scheme(self) -> str:
        return self._parts.scheme

    @property
    def path(self) -> str:
        """All but the scheme and the options."""
        return self._path

    @property
    def name(self) -> str:
        return posixpath.basename(self._path)

    @property
    def parent(self) -> URI:
        return self._at(posixpath.dirname(self._path))

    def rstrip_subpath(self, subpath: Path) -> URI:
        """Return it without these last folders."""
        end = posixpath.normpath(str(subpath)).strip("/")
        if self._path != end and not self._path.endswith(f"/{end}"):
            raise ValueError(f"{self} does not end in {end!r}")
        return self._at(self._path[: -len(end)].rstrip("/"))

    def __truediv__(self, below: str) -> URI:
        return self._at(posixpath.join(self._path, below))

    def _at(self, path: str) -> URI:
        if not self.scheme:
            return URI(path)
        return URI(self._parts._replace(netloc=path, path="").geturl())

    def __str__(self) -> str:
        if not self.scheme:
            return self._path
        return self._parts._replace(netloc=self._path, path="").geturl()

    def __repr__(self) -> str:
        return f"URI<{self}>"


def is_uri(path: str) -> bool:
    """Return whether it has a scheme."""
    return bool(urlparse(path).scheme)
