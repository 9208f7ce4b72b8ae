"""For tests of programs that use skate: a plugin for pytest, and what a test leaves behind.

The plugin `skate.testing.plugin` is found by pytest where skate is installed. It brings the
fixtures `skate_inline` and `skate_local`, and the markers `skate_init` and `skate_leaves_nothing`.
"""

from __future__ import annotations

from skate.testing.leftovers import Picture, leftovers_since

__all__ = ["Picture", "leftovers_since"]
