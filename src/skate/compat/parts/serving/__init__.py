"""Parts of `ray.serve` that programs and tests for Ray import, and skate.serve has no home for."""
