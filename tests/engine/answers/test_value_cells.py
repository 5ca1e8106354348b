"""A value falls in the cell of the definition, and what falls in none is clipped, dropped or refused as declared."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers.value_cells import Codes, CountError, Edges, Outside


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-6, 1e6),
    cells=st.integers(1, 200),
    shares=st.lists(st.floats(-0.1, 1.1), min_size=1, max_size=30),
)
def test_uniform_edges_give_the_same_cells_as_a_search(low, width, cells, shares):
    edges = np.linspace(low, low + width, cells + 1)
    if np.any(np.diff(edges) <= 0):
        return
    axis = Edges(edges)
    values = np.concatenate([low + width * np.array(shares), edges, np.nextafter(edges, np.inf)])
    found = axis.codes(values, Outside.CLIP)
    clipped = np.clip(values, edges[0], edges[-1])
    expected = np.minimum(np.searchsorted(edges, clipped, side="right") - 1, axis.cells - 1)
    assert np.array_equal(found, expected)


def test_a_value_on_an_edge_is_in_the_cell_above_it_and_one_on_the_last_edge_in_the_last_cell():
    edges = [-2.0, -1.5, 0.0, 0.1, 3.0]
    for outside, beyond in ((Outside.CLIP, (0, 3)), (Outside.DROP, (-1, -1))):
        assert Edges(edges).codes(np.array(edges), outside).tolist() == [0, 1, 2, 3, 3]
        assert tuple(Edges(edges).codes(np.array([-9.0, 9.0]), outside)) == beyond


@pytest.mark.parametrize("order", "<>")
def test_codes_far_outside_are_clipped_or_dropped_and_never_wrap_around(order):
    unsigned = np.array([2**64 - 1, 2**63, 3], dtype=f"{order}u8")
    assert Codes(4).codes(unsigned, Outside.CLIP).tolist() == [3, 3, 3]
    assert Codes(4).codes(unsigned, Outside.DROP).tolist() == [-1, -1, 3]
    signed = np.array([-(2**63), -1, 2**63 - 1], dtype=np.int64)
    assert Codes(4).codes(signed, Outside.CLIP).tolist() == [0, 0, 3]
    assert Codes(4).codes(signed, Outside.DROP).tolist() == [-1, -1, -1]
    assert Codes(4).codes(np.array([1e300, -1e300]), Outside.CLIP).tolist() == [3, 0]


@pytest.mark.parametrize("edges", [[0.0], [1.0, 1.0], [1.0, 0.0], [0.0, np.nan], [[0.0, 1.0]]])
def test_edges_that_do_not_increase_are_refused(edges):
    with pytest.raises(CountError, match="increase strictly"):
        Edges(edges)


def test_no_codes_and_codes_that_are_no_integers_are_refused():
    with pytest.raises(CountError, match="at least one code"):
        Codes(0)
    with pytest.raises(CountError, match="not an integer"):
        Codes(2).codes(np.array([0.5]), Outside.CLIP)
