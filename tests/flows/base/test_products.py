"""Eight bits are chosen once in a process, for large sums of products alone, and the log says why."""

import logging

import pytest

from blockveil.engine.answers import eight_bit
from blockveil.flows.base import products
from blockveil.flows.cluster import computing
from tests.house import support
from tests.house.eight_bit_products import ProductByNumPy, of_this_machine, use


@pytest.fixture(autouse=True)
def untried(monkeypatch):
    monkeypatch.setattr(products, "_chosen", [])
    yield
    use(None)


def test_what_is_chosen_is_used_and_the_log_says_why(monkeypatch, caplog):
    product, chosen = ProductByNumPy(), []
    monkeypatch.setattr(
        eight_bit, "choose", lambda clock: chosen.append(1) or eight_bit.Choice(product, False, "this way")
    )
    with caplog.at_level(logging.INFO):
        assert products.prepare().product is product
        assert products.prepare().product is product
    assert eight_bit.in_use().product is product
    assert chosen == [1]
    assert caplog.messages == ["integers are multiplied in this way"]


def test_where_nothing_is_faster_blas_is_used(monkeypatch):
    use(ProductByNumPy())
    monkeypatch.setattr(eight_bit, "choose", lambda clock: eight_bit.BLAS)
    products.prepare()
    assert eight_bit.in_use().product is None


@pytest.mark.parametrize(("least", "wanted"), [(1, True), (2**36, False)])
def test_it_is_chosen_before_large_work_alone(tmp_path, monkeypatch, least, wanted):
    prepared = []
    monkeypatch.setattr(products, "WORTH_PRODUCTS", least)
    monkeypatch.setattr(products, "prepare", lambda: prepared.append(1))
    with computing.open_compute(support.prepare(tmp_path, cluster="threads")):
        assert bool(prepared) is wanted


def in_use():
    return type(eight_bit.in_use().product).__name__


@pytest.mark.slow
def test_workers_have_chosen_before_their_first_task(tmp_path, monkeypatch):
    of_this_machine()
    monkeypatch.setattr(products, "WORTH_PRODUCTS", 1)
    with computing.open_compute(support.prepare(tmp_path, cluster="local")) as compute:
        found = compute._client.run(in_use)
    assert found
    # On cores that others use the measurement may come out either way.
    assert set(found.values()) <= {"_OnnxRuntime", "NoneType"}
