"""Nights that wait for a person keep waiting on a busy machine, through a stop of the service and its next start."""

import pytest

from tests.end_to_end import waiting


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_nights_that_wait_for_a_person_keep_waiting_on_a_busy_machine_and_a_stop_is_quiet(tmp_path):
    found = waiting.trial(tmp_path, 4, 2, 150, approved=2)
    assert found["still wait"] == found["of"] == 4
    assert found["ever Crashed"] == found["ever Crashed, after the restart"] == 0
    assert found["wait after the restart"] == 2
    assert found["released of those approved"] == 2
    assert found["charges"] == 2
    assert found["tracebacks of the first service"]["serve.log"] == 0
    assert found["tracebacks of both"]["serve.log"] == 0
