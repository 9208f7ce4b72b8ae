"""What runs a dataset: take, limit, count, materialize, show."""

import pytest

import skate.data

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


def test_no_batch_of_nothing():
    with pytest.raises(ValueError, match="empty"):
        skate.data.range(0).take_batch()
