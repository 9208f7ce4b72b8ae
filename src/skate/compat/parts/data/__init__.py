"""What programs take from the inside of `ray.data`."""
