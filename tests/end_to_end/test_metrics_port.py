"""The port of ``blockveil service metrics``: what a stranger makes of it, and what the holder of its token sees."""

import os
import re
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.served import COMMAND, PATIENCE, free_port
from tests.end_to_end.test_perimeter import FLOODING, NIGHT, NOBODY
from tests.house import support

TRIES = 300


@contextmanager
def metrics(folder):
    """Port, token and log of a running command."""
    home, port, log = folder / "home", free_port(), folder / "metrics.log"
    home.mkdir(mode=0o700)
    environment = {**os.environ, "PREFECT_HOME": str(home)}
    with log.open("wb") as said:
        words = [*COMMAND, "service", "metrics", str(folder), "--port", str(port)]
        process = subprocess.Popen(words, env=environment, stdout=said, stderr=said)
    try:
        end = time.monotonic() + PATIENCE
        while "Metrics: http" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end
            time.sleep(0.2)
        yield port, (home / "blockveil-metrics-token").read_text().strip(), log
    finally:
        process.terminate()
        process.wait(60)


def scrape(port, token):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


@pytest.mark.slow
def test_a_stranger_at_the_port_of_metrics_keeps_nobody_out_and_its_holder_sees_public_numbers_alone(tmp_path):
    loaded = support.prepare(tmp_path)
    (tmp_path / "deployments.toml").write_text(NIGHT)
    with metrics(tmp_path) as (port, token, log):
        before = log.stat().st_size
        for kind in ("login", "garbage", "description", "silent"):
            words = [sys.executable, "-c", FLOODING, str(NOBODY), kind, str(port), str(TRIES)]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
                if kind == "silent":
                    assert stranger.stdout.readline() == "held\n"
                while stranger.poll() is None:
                    text = scrape(port, token)  # the holder is answered all the time
                    if kind == "silent":
                        break
                stranger.stdin.close()
                assert stranger.wait(60) == 0
        assert log.stat().st_size == before, "no line for whatever a stranger sends"
        assert token not in log.read_text()
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert {sample.name.partition("_")[0] for sample in samples} == {"blockveil"}
        assert {tuple(sample.labels.items()) for sample in samples} == {
            (("dataset", "people"), ("release", "covariance"))
        }
        assert not re.search(r"271828|400\b|/tmp|ledger\.db", text), "no value, number of rows or place"
        loaded.ledger_path.write_bytes(b"no ledger at all" * 100)
        assert "blockveil_ledger_readable" in scrape(port, token)
        assert str(tmp_path) not in scrape(port, token)
