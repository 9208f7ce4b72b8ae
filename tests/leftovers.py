"""What a test may leave behind, as the tests of this project look for it."""

from skate.testing.leftovers import MARKER, Picture, kill_marked_processes, leftovers_since

__all__ = ["MARKER", "Picture", "kill_marked_processes", "leftovers_since"]
