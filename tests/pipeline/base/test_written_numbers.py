"""Numbers are written as a person reads them."""

import numpy as np

from blockveil.pipeline.base.written_numbers import number


def test_numbers_are_written_for_people():
    assert number(1234567.8) == "1,234,568"
    assert number(1.5e28) == "1.5e+28"
    assert number(5_426_433_584.0) == "5,426,433,584"
    assert number(281_123_558_965_959.0) == "2.811e+14"
    assert number(0.000123456) == "0.0001235"
    assert number(np.inf) == "∞"
    assert number(np.nan) == "undefined"
