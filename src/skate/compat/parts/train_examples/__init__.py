"""`ray.train.examples`: the example that programs and tests import to have something to train."""
