"""Applications as they are written, and what the controller is told of them."""
