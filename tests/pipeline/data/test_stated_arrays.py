"""What every reader refuses before it shows anything, and what it must not refuse."""

import pytest

from blockveil.pipeline.base.foreign_files import NotPlain
from blockveil.pipeline.data.stated_arrays import check_stated

CELLS = {"matrix": "cell"}


def test_errors_of_buckets_are_as_many_as_buckets_and_not_as_cells_that_have_one():
    check_stated(
        CELLS, {"cell": (9,), "cell_standard_deviation": (9,), "bucket": (9,), "bucket_counts_standard_deviation": (3,)}
    )


def test_errors_of_another_size_than_the_matrix_are_refused():
    with pytest.raises(NotPlain, match="another size"):
        check_stated(CELLS, {"cell": (9,), "cell_standard_deviation": (8,)})


def test_a_matrix_that_is_none_of_the_arrays_is_refused():
    with pytest.raises(NotPlain, match="none of its arrays"):
        check_stated(CELLS, {"cells": (9,)})
