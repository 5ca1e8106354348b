"""Products of matrices in one thread: what holds within, after it, and for a library that was imported since."""

import sys
from types import ModuleType

import numpy  # noqa: F401 - brings a library of products
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from blockveil.engine.records import product_threads
from blockveil.engine.records.product_threads import one_thread


def threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_products_take_one_thread_within_and_as_many_as_before_afterwards():
    with threadpool_limits(2, user_api="blas"):
        for kind in ("blas", None):
            with one_thread(kind):
                assert set(threads()) == {1}
            assert set(threads()) == {2}


def test_libraries_are_looked_for_again_after_an_import_alone(monkeypatch):
    looked = []
    monkeypatch.setattr(product_threads, "ThreadpoolController", lambda: looked.append(1) or ThreadpoolController())
    monkeypatch.setattr(product_threads, "_found", None)
    for _ in range(3):
        with one_thread():
            pass
    assert len(looked) == 1
    monkeypatch.setitem(sys.modules, "imported_meanwhile", ModuleType("imported_meanwhile"))
    with one_thread():
        assert len(looked) == 2
