"""What programs take from the inside of `ray.train` and `ray.air`."""
