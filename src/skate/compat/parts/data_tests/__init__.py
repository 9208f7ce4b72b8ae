"""`ray.data.tests`: the fixtures and helpers that tests of data programs import from there."""
