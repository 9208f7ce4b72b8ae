"""What programs take from the inside of `ray.tune`, and searchers that are not offered."""
