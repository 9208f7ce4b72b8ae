"""`ray.tests`: the helpers that Ray's own tests, and those of its users, import from there."""
